"""Objects with something wrong at a random place: what nobody thought of when the other cases were written.

A rich object of each kind is changed at one or two places, drawn from a seed, so that a case can be replayed by its
number: a field goes, is null, empty, of another type or out of bounds, or an item of a list is there twice.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from tests.contract.rules_agree import cron_jobs, others, workloads
from tests.contract.rules_agree.cases import Case, changed
from tests.contract.rules_agree.pods import CONTAINER, POD
from tests.testbed.api import Json

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SELECTOR: Json = {"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "b", "operator": "In", "values": ["c"]}]}
_NODES: Json = {
    "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}],
}
_RICH_CONTAINER: Json = CONTAINER | {
    "command": ["sh"],
    "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
    "lifecycle": {"preStop": {"exec": {"command": ["a"]}}},
    "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    "securityContext": {"runAsUser": 5, "capabilities": {"add": ["X"]}},
}
_SPEC: Json = {
    "containers": [_RICH_CONTAINER],
    "initContainers": [{"name": "first", "image": "a:1"}, {"name": "side", "image": "a:1", "restartPolicy": "Always"}],
    "volumes": [
        {"name": "data", "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "host", "hostPath": {"path": "/x", "type": "Directory"}},
    ],
    "affinity": {
        "nodeAffinity": {
            _REQUIRED: {"nodeSelectorTerms": [_NODES]},
            _PREFERRED: [{"weight": 5, "preference": _NODES}],
        },
        "podAffinity": {_REQUIRED: [{"topologyKey": "zone", "labelSelector": _SELECTOR, "namespaces": ["x"]}]},
        "podAntiAffinity": {
            _PREFERRED: [{"weight": 50, "podAffinityTerm": {"topologyKey": "host", "namespaceSelector": _SELECTOR}}]
        },
    },
    "tolerations": [
        {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
        {"key": "c", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
    ],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "minDomains": 2,
            "labelSelector": _SELECTOR,
            "matchLabelKeys": ["rev"],
        }
    ],
    "nodeSelector": {"disk": "ssd"},
    "dnsConfig": {"nameservers": ["1.2.3.4"], "searches": ["a.b"], "options": [{"name": "x", "value": "y"}]},
    "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a.b"]}],
    "terminationGracePeriodSeconds": 20,
    "hostname": "h",
    "subdomain": "s",
    "readinessGates": [{"conditionType": "example.com/x"}],
}
_POD = changed(
    POD,
    {
        "spec": {
            **_SPEC,
            "schedulingGates": [{"name": "example.com/g"}],
            "priorityClassName": "system-node-critical",
            "activeDeadlineSeconds": 50,
            "securityContext": {"fsGroup": 5, "sysctls": [{"name": "a.b", "value": "c"}]},
        },
        "metadata.annotations": {"example.com/x": "y", "controller.kubernetes.io/pod-deletion-cost": "5"},
        "metadata.ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u", "controller": True}],
        "metadata.finalizers": ["example.com/f"],
    },
)
_RICH: dict[str, Json] = {
    "Pod": _POD,
    "Deployment": changed(
        workloads.DEPLOYMENT,
        {
            "spec.template.spec": _SPEC,
            "spec.strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
            "spec.minReadySeconds": 5,
        },
    ),
    "ReplicaSet": workloads.REPLICA_SET,
    "StatefulSet": changed(
        workloads.STATEFUL_SET, {"spec.updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}
    ),
    "DaemonSet": changed(
        workloads.DAEMON_SET, {"spec.updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}}
    ),
    "Job": changed(
        workloads.JOB,
        {
            "spec.completions": 3,
            "spec.parallelism": 2,
            "spec.completionMode": "Indexed",
            "spec.podFailurePolicy": {
                "rules": [
                    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2], "containerName": "main"}},
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
        },
    ),
    "PodDisruptionBudget": changed(
        workloads.BUDGET, {"spec.selector": _SELECTOR, "spec.unhealthyPodEvictionPolicy": "AlwaysAllow"}
    ),
    "Node": changed(
        others.NODE,
        {
            "spec": {"unschedulable": True, "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
            "status.conditions": [{"type": "Ready", "status": "True"}],
            "status.addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
        },
    ),
    "PersistentVolumeClaim": changed(
        others.CLAIM, {"spec.storageClassName": "fast", "spec.volumeMode": "Filesystem", "spec.selector": _SELECTOR}
    ),
    "PersistentVolume": changed(
        others.VOLUME,
        {
            "spec.nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": _NODES["matchExpressions"]}]}
            },
            "spec.claimRef": {"kind": "PersistentVolumeClaim", "namespace": "x", "name": "c"},
            "spec.storageClassName": "fast",
        },
    ),
    "StorageClass": changed(
        others.STORAGE_CLASS,
        {"parameters": {"a": "b"}, "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete", "mountOptions": ["x"]},
    ),
    "CSINode": others.CSI_NODE,
    "Service": changed(
        others.SERVICE,
        {"spec.ports": [{"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 81, "protocol": "UDP"}]},
    ),
    "ResourceQuota": changed(others.QUOTA, {"spec.scopes": ["NotTerminating"]}),
    "Lease": changed(others.LEASE, {"spec.leaseTransitions": 3}),
    "PriorityClass": changed(others.PRIORITY_CLASS, {"globalDefault": True, "preemptionPolicy": "Never"}),
    "MutatingWebhookConfiguration": changed(
        others.WEBHOOKS,
        {
            "webhooks.0.namespaceSelector": _SELECTOR,
            "webhooks.0.timeoutSeconds": 5,
            "webhooks.0.failurePolicy": "Ignore",
        },
    ),
    "CronJob": changed(
        cron_jobs.CRON_JOB,
        {
            "spec.timeZone": "Europe/Berlin",
            "spec.concurrencyPolicy": "Forbid",
            "spec.startingDeadlineSeconds": 60,
            "spec.successfulJobsHistoryLimit": 2,
            "spec.jobTemplate.metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec.jobTemplate.spec.completions": 3,
            "spec.jobTemplate.spec.completionMode": "Indexed",
            "spec.jobTemplate.spec.podFailurePolicy": {
                "rules": [
                    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1], "containerName": "main"}}
                ]
            },
        },
    ),
}
_TEXTS = ("", "a", "A", "a b", "-a", "a.b", "a/b", "..", "5", "5%", "None", "Always", "x" * 64, "x" * 254, "é")
_NUMBERS = (-1, 0, 1, 2, 100, 101, 65536, 2**31 - 1, 2**31, 2**63)
_HEAD = ("apiVersion", "kind", "status")
_OTHERS: tuple[Any, ...] = (None, True, False, "", "x", 0, -1, 1.5, [], {}, ["x"], {"x": "y"})
# Who an object is, is no place to try out: it must be the same for both.
_KEPT = frozenset({"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"})


def mutated(number: int) -> Case:
    """A new object, the same for the same number."""
    rng = random.Random(number)
    kind = rng.choices(list(_RICH), [8 if kind == "Pod" else 3 if kind == "Deployment" else 1 for kind in _RICH])[0]
    body = copy.deepcopy(_RICH[kind])
    return Case(f"number {number}: {_mutated(rng, body, tuple(body))}", kind, body)


def standing() -> list[Case]:
    """An object of each kind that can be made and left alone while changes to it are tried out."""
    lonely = {"metadata.labels": {"of": "nobody"}, "metadata.finalizers": [], "metadata.ownerReferences": []}
    objects = [Case("stands", kind, changed(body, lonely)) for kind, body in _RICH.items() if kind != "PriorityClass"]
    return [*objects, Case("stands", "PriorityClass", others.PRIORITY_CLASS)]  # there is at most one default


def mutated_version(number: int, there: Json, subresource: str) -> tuple[str, Json]:
    """A new version of an object that is there, and in words what is new."""
    body = copy.deepcopy(there)
    body["metadata"].pop("managedFields", None)
    parts = ("metadata", "status") if subresource else tuple(key for key in body if key not in _HEAD)
    return _mutated(random.Random(number), body, parts), body


def _mutated(rng: random.Random, body: Json, parts: tuple[str, ...]) -> str:
    places = []
    for _ in range(rng.choice((1, 1, 2))):
        choices = [path for path in _paths(body) if path[0] in parts and not _is_kept(path)]
        if choices:
            path = rng.choice(choices)
            places.append(".".join(str(step) for step in path) + " " + _mutate(rng, body, path))
    return " and ".join(places)


def _is_kept(path: tuple[Any, ...]) -> bool:
    return path[0] == "metadata" and (len(path) == 1 or path[1] in _KEPT)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = [path] if path else []
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in steps:
        found += _paths(each, (*path, step))
    return found


def _mutate(rng: random.Random, body: Json, path: tuple[Any, ...]) -> str:
    *steps, last = path
    place: Any = body
    for step in steps:
        place = place[step]
    there = place[last]
    match rng.choice(("gone", "other", "other", "type", "twice")):
        case "gone":
            del place[last]
            return "is gone"
        case "twice" if isinstance(place, list):
            place.append(copy.deepcopy(there))
            return "is there twice"
        case "other" if isinstance(there, str):
            place[last] = rng.choice(_TEXTS)
        case "other" if isinstance(there, int) and not isinstance(there, bool):
            place[last] = rng.choice(_NUMBERS)
        case _:
            place[last] = copy.deepcopy(rng.choice(_OTHERS))
    return f"is {place[last]!r}"[:60]
