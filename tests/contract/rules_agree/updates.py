"""Changes to objects that are there, allowed and not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.contract.rules_agree import others, workloads
from tests.contract.rules_agree.cases import Update, changed
from tests.contract.rules_agree.pods import CONTAINER, POD
from tests.testbed.api import Json

# Nobody shall schedule it while it is looked at.
_POD = changed(POD, {"spec.schedulerName": "nobody", "spec.tolerations": [{"key": "a", "operator": "Exists"}]})
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TERM: Json = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
_NARROWER: Json = {"matchExpressions": [*_TERM["matchExpressions"], {"key": "b", "operator": "Exists"}]}
_GATED = changed(
    _POD,
    {
        "spec.schedulingGates": [{"name": "example.com/one"}, {"name": "example.com/two"}],
        "spec.nodeSelector": {"zone": "a"},
        f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms": [_TERM],
    },
)
_BOUND = changed(_POD, {"spec.nodeName": "no-such-node"})


def _terms(*terms: Json) -> Json:
    return {"spec": {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": list(terms)}}}}}


def _spec(**fields: Any) -> Json:
    return {"spec": fields}


def _updates(kind: str, body: Json, listed: Mapping[str, Json], **how: Any) -> list[Update]:
    return [Update(about, kind, body, patch, **how) for about, patch in listed.items()]


_OF_PODS: dict[str, Json] = {
    "nothing": {},
    "a label": {"metadata": {"labels": {"b": "c"}}},
    "a bad label": {"metadata": {"labels": {"b": "c d"}}},
    "a label is gone": {"metadata": {"labels": {"app": None}}},
    "an annotation": {"metadata": {"annotations": {"b": "c"}}},
    "a deletion cost": {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-2147483647"}}},
    "a bad deletion cost": {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "x"}}},
    "it mirrors a static pod": {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
    "an owner": {
        "metadata": {
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u", "controller": True}]
        }
    },
    "a finalizer": {"metadata": {"finalizers": ["example.com/mine"]}},
    "an image": _spec(containers=[CONTAINER | {"image": "other:2"}]),
    "no image": _spec(containers=[{"name": "main"}]),
    "a container more": _spec(containers=[CONTAINER, CONTAINER | {"name": "b"}]),
    "a container's name": _spec(containers=[CONTAINER | {"name": "b"}]),
    "a container's resources": _spec(containers=[CONTAINER | {"resources": {"requests": {"cpu": "1"}}}]),
    "its node": _spec(nodeName="n"),
    "its node selector": _spec(nodeSelector={"a": "b"}),
    "a gate": _spec(schedulingGates=[{"name": "a"}]),
    "a toleration more": _spec(
        tolerations=[
            {"key": "a", "operator": "Exists"},
            {"key": "b", "operator": "Exists"},
            *(
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 9,
                }
                for key in ("not-ready", "unreachable")
            ),
        ]
    ),
    "other tolerations": _spec(tolerations=[{"key": "b", "operator": "Exists"}]),
    "a deadline": _spec(activeDeadlineSeconds=5),
    "a deadline that is none": _spec(activeDeadlineSeconds=-5),
    "its grace period": _spec(terminationGracePeriodSeconds=5),
    "its priority": _spec(priority=5),
    "no priority": _spec(priority=None),
    "its scheduler": _spec(schedulerName="other"),
    "its status, where it can't be": {"status": {"phase": "Running"}},
}
_OF_GATED_PODS: dict[str, Json] = {
    "one gate less": _spec(schedulingGates=[{"name": "example.com/two"}]),
    "no gates": _spec(schedulingGates=None),
    "another gate": _spec(schedulingGates=[{"name": "example.com/three"}]),
    "a node selector more": _spec(nodeSelector={"b": "c"}),
    "another node selector": _spec(nodeSelector={"zone": "b"}),
    "a node selector less": _spec(nodeSelector={"zone": None}),
    "a narrower term": _terms(_NARROWER),
    "another term": _terms({"matchExpressions": [{"key": "b", "operator": "Exists"}]}),
    "a term more": _terms(_TERM, _TERM),
    "no affinity": _spec(affinity=None),
    "a preference": _spec(
        affinity={"nodeAffinity": {_PREFERRED: [{"weight": 5, "preference": _TERM}]}},
    ),
    "affinity to pods": _spec(affinity={"podAffinity": {_REQUIRED: [{"topologyKey": "zone"}]}}),
    "its node": _spec(nodeName="n"),
}
_OF_POD_STATUS: dict[str, Json] = {
    "a nomination": {"status": {"nominatedNodeName": "node-1"}},
    "a bad nomination": {"status": {"nominatedNodeName": "Node 1"}},
    "a condition": {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
    "a condition with a bad type": {"status": {"conditions": [{"type": "a b", "status": "True"}]}},
    "its quality of service": {"status": {"qosClass": "Guaranteed"}},
    "an address": {"status": {"podIP": "10.0.0.1"}},
    "a bad address": {"status": {"podIP": "x"}},
    "addresses that do not match": {"status": {"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]}},
    "its spec, where it can't be": _spec(nodeName="n"),
    "a label through the status": {"metadata": {"labels": {"b": "c"}, "annotations": {"d": "e"}}},
    "an owner through the status": {
        "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}]}
    },
    "a container runs": {
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "main", "ready": True, "image": "a", "imageID": "", "restartCount": 1}],
        }
    },
}
_OF_BOUND_PODS: dict[str, Json] = {"a nomination": {"status": {"nominatedNodeName": "node-1"}}}
_OF_DEPLOYMENTS: dict[str, Json] = {
    "how many": _spec(replicas=3),
    "fewer than none": _spec(replicas=-3),
    "its image": {"spec": {"template": {"spec": {"containers": [CONTAINER | {"image": "b:2"}]}}}},
    "its selector": _spec(selector={"matchLabels": {"app": "a", "b": "c"}}),
    "its pods' labels": {"spec": {"template": {"metadata": {"labels": {"app": "b"}}}}},
    "it is paused": _spec(paused=True),
    "a preference": {
        "spec": {
            "template": {"spec": {"affinity": {"nodeAffinity": {_PREFERRED: [{"weight": 100, "preference": _TERM}]}}}}
        }
    },
    "no strategy": _spec(strategy=None),
    "it recreates": _spec(strategy={"type": "Recreate", "rollingUpdate": None}),
}
_OF_STATEFUL_SETS: dict[str, Json] = {
    "how many": _spec(replicas=3),
    "its service": _spec(serviceName="other"),
    "how it starts": _spec(podManagementPolicy="Parallel"),
    "its claims": _spec(volumeClaimTemplates=None),
    "its image": {"spec": {"template": {"spec": {"containers": [CONTAINER | {"image": "b:2"}]}}}},
    "its partition": _spec(updateStrategy={"rollingUpdate": {"partition": 2}}),
}
_OF_DAEMON_SETS: dict[str, Json] = {
    "its image": {"spec": {"template": {"spec": {"containers": [CONTAINER | {"image": "b:2"}]}}}},
    "its selector": _spec(selector={"matchLabels": {"app": "b"}}),
    "how it is updated": _spec(updateStrategy={"type": "OnDelete", "rollingUpdate": None}),
}
_OF_JOBS: dict[str, Json] = {
    "it goes on": _spec(suspend=False),
    "how many at a time": _spec(parallelism=3),
    "how many": _spec(completions=3),
    "its selector": _spec(selector={"matchLabels": {"a": "b"}}),
    "where its pods go, while it waits": {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}},
    "what its pods run": {"spec": {"template": {"spec": {"containers": [CONTAINER | {"image": "b:2"}]}}}},
    "what its pods ask for, while it waits": {
        "spec": {"template": {"spec": {"containers": [CONTAINER | {"resources": {"requests": {"cpu": "1"}}}]}}}
    },
    "its mode": _spec(completionMode="Indexed"),
}
_OF_BUDGETS: dict[str, Json] = {
    "its bound": _spec(minAvailable=2),
    "the other bound": _spec(maxUnavailable=2),
    "its selector": _spec(selector={"matchLabels": {"b": "c"}}),
}
_OF_BUDGET_STATUS: dict[str, Json] = {
    "what it allows": {
        "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
    },
    "less than nothing": {"status": {"disruptionsAllowed": -1}},
    "a condition without a reason": {
        "status": {"conditions": [{"type": "DisruptionAllowed", "status": "True", "reason": "", "message": ""}]}
    },
    "a pod that goes": {"status": {"disruptedPods": {"a": "2026-01-02T03:04:05Z"}}},
}
_OF_DEPLOYMENT_STATUS: dict[str, Json] = {
    "its counts": {"status": {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 3}},
    "more ready than there are": {"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}},
    "a label through the status": {"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}},
    "its spec, where it can't be": _spec(replicas=9),
}
_OF_NODES: dict[str, Json] = {
    "it is cordoned": _spec(unschedulable=True),
    "a taint": _spec(taints=[{"key": "a", "effect": "NoExecute"}]),
    "a bad taint": _spec(taints=[{"key": "a", "effect": "Never"}]),
    "no taints": _spec(taints=None),
    "a label": {"metadata": {"labels": {"scheduler.alpha.kubernetes.io/maintenance": "true"}}},
    "its status, where it can't be": {"status": {"capacity": {"cpu": "8"}}},
    "its provider": _spec(providerID="x"),
}
_OF_NODE_STATUS: dict[str, Json] = {
    "what it has": {"status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "7500m"}}},
    "less than nothing": {"status": {"allocatable": {"cpu": "-1"}}},
    "the same address twice": {"status": {"addresses": [{"type": "InternalIP", "address": "1.2.3.4"}] * 2}},
    "its spec, where it can't be": _spec(unschedulable=True),
    "a label through the status": {"metadata": {"labels": {"x": "y"}}},
}
_OF_NAMESPACES: dict[str, Json] = {
    "a label": {"metadata": {"labels": {"a": "b"}}},
    "its name's label": {"metadata": {"labels": {"kubernetes.io/metadata.name": "x"}}},
    "who holds it": _spec(finalizers=[]),
}
_OF_SERVICES: dict[str, Json] = {
    "its selector": _spec(selector={"b": "c"}),
    "its address": _spec(clusterIP="10.96.7.7", clusterIPs=["10.96.7.7"]),
    "its ports": _spec(ports=[{"port": 81}]),
}
_OF_CLAIMS: dict[str, Json] = {
    "its size": _spec(resources={"requests": {"storage": "2Gi"}}),
    "how it is used": _spec(accessModes=["ReadWriteMany"]),
    "its volume": _spec(volumeName="v"),
    "a label": {"metadata": {"labels": {"a": "b"}}},
    "its mode": _spec(volumeMode="Block"),
}
_OF_VOLUMES: dict[str, Json] = {
    "how it is reclaimed": _spec(persistentVolumeReclaimPolicy="Delete"),
    "its source": _spec(hostPath={"path": "/y"}),
    "its size": _spec(capacity={"storage": "5Gi"}),
    "its mode": _spec(volumeMode="Block"),
}
_OF_PRIORITY_CLASSES: dict[str, Json] = {
    "its value": {"value": 5},
    "its description": {"description": "x"},
    "how it preempts": {"preemptionPolicy": "Never"},
}
_OF_STORAGE_CLASSES: dict[str, Json] = {
    "its provisioner": {"provisioner": "example.com/y"},
    "it expands": {"allowVolumeExpansion": True},
}
_OF_QUOTAS: dict[str, Json] = {"its bounds": _spec(hard={"pods": "9"}), "its scopes": _spec(scopes=["NotTerminating"])}
_OF_LEASES: dict[str, Json] = {"its holder": _spec(holderIdentity="you"), "no time": _spec(leaseDurationSeconds=0)}
_OF_REVISIONS: dict[str, Json] = {"its data": {"data": {"b": 2}}}
_OF_WEBHOOKS: dict[str, Json] = {"it is gone": {"webhooks": None}}
_LOCKED = changed(others.CONFIG_MAP, {"immutable": True})
_OF_LOCKED_MAPS: dict[str, Json] = {"its data": {"data": {"a": "c"}}, "its lock": {"immutable": False}}
_OF_SECRETS: dict[str, Json] = {
    "its data": {"stringData": {"c": "d"}},
    "its data is gone": {"data": None},
    "its type": {"type": "example.com/mine"},
    "its type, as nobody said": {"type": None},
}
_LOCKED_SECRET = changed(others.SECRET, {"immutable": True})
_OF_LOCKED_SECRETS: dict[str, Json] = {
    "its data, though it is locked": {"stringData": {"a": "c"}},
    "its lock": {"immutable": False},
    "a label, though it is locked": {"metadata": {"labels": {"a": "b"}}},
}

UPDATES: list[Update] = [
    *_updates("Pod", _POD, _OF_PODS),
    *_updates("Pod", _GATED, {f"{about}, of a gated one": patch for about, patch in _OF_GATED_PODS.items()}),
    *_updates("Pod", _POD, _OF_POD_STATUS, subresource="status"),
    *_updates(
        "Pod",
        _BOUND,
        {f"{about}, of a bound one": patch for about, patch in _OF_BOUND_PODS.items()},
        subresource="status",
    ),
    *_updates("Deployment", workloads.DEPLOYMENT, _OF_DEPLOYMENTS),
    *_updates(
        "Deployment",
        workloads.DEPLOYMENT,
        {"its selector, as it is": _spec(selector={"matchLabels": {"app": "a"}})},
    ),
    *_updates("StatefulSet", workloads.STATEFUL_SET, _OF_STATEFUL_SETS),
    *_updates("DaemonSet", workloads.DAEMON_SET, _OF_DAEMON_SETS),
    *_updates("Job", workloads.JOB, _OF_JOBS),
    *_updates("PodDisruptionBudget", workloads.BUDGET, _OF_BUDGETS),
    *_updates("PodDisruptionBudget", workloads.BUDGET, _OF_BUDGET_STATUS, subresource="status"),
    *_updates("Node", others.NODE, _OF_NODES),
    *_updates("Node", others.NODE, _OF_NODE_STATUS, subresource="status"),
    *_updates("Service", others.SERVICE, _OF_SERVICES),
    *_updates("PersistentVolumeClaim", others.CLAIM, _OF_CLAIMS),
    *_updates("PersistentVolume", others.VOLUME, _OF_VOLUMES),
    *_updates("PriorityClass", others.PRIORITY_CLASS, _OF_PRIORITY_CLASSES),
    *_updates("StorageClass", others.STORAGE_CLASS, _OF_STORAGE_CLASSES),
    *_updates("ResourceQuota", others.QUOTA, _OF_QUOTAS),
    *_updates("Lease", others.LEASE, _OF_LEASES),
    *_updates("ControllerRevision", others.REVISION, _OF_REVISIONS),
    *_updates("MutatingWebhookConfiguration", others.WEBHOOKS, _OF_WEBHOOKS),
    *_updates("ConfigMap", _LOCKED, _OF_LOCKED_MAPS),
    *_updates("Secret", others.SECRET, _OF_SECRETS),
    *_updates("Secret", _LOCKED_SECRET, _OF_LOCKED_SECRETS),
]
