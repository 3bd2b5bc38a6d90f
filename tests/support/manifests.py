"""The objects that the contract's tests create: small, whole, and the same on both clusters.

Each function takes what its tests vary; keyword arguments that it doesn't name are fields of the object's spec.
Annotations with the prefix SIMULATE change the pace of a pod's kubelet, on the real cluster as on the embedded one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rescheduler.model.json import Json
from tests.testbed.hollow import IMAGE

SIMULATE = "simulate.rescheduler.io/"
GATE = "contract.test/wait"
HOSTNAME = "kubernetes.io/hostname"


def pod(name: str, *, cpu: str = "100m", labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, **(labels or {})}},
        "spec": _containers(cpu) | spec,
    }


def gated(name: str, **options: Any) -> Json:
    """A pod that waits until its gate is taken off."""
    return pod(name, schedulingGates=[{"name": GATE}], **options)


def simulated(body: Json, **paces: str) -> Json:
    """The pod, or the template of the workload, with `ends_in="600"` and the like for its kubelet."""
    metadata = body["metadata"] if body["kind"] == "Pod" else body["spec"]["template"]["metadata"]
    marks = {SIMULATE + pace.replace("_", "-"): value for pace, value in paces.items()}
    metadata["annotations"] = metadata.get("annotations", {}) | marks
    return body


def deployment(name: str, replicas: int, *, cpu: str = "100m", **spec: Any) -> Json:
    return _workload("apps/v1", "Deployment", name, cpu, {"replicas": replicas} | spec)


def replica_set(name: str, replicas: int, *, cpu: str = "100m", **spec: Any) -> Json:
    return _workload("apps/v1", "ReplicaSet", name, cpu, {"replicas": replicas} | spec)


def stateful_set(name: str, replicas: int, *, cpu: str = "100m", **spec: Any) -> Json:
    return _workload("apps/v1", "StatefulSet", name, cpu, {"replicas": replicas, "serviceName": name} | spec)


def daemon_set(name: str, *, cpu: str = "100m", **spec: Any) -> Json:
    return _workload("apps/v1", "DaemonSet", name, cpu, spec)


def job(name: str, *, cpu: str = "100m", **spec: Any) -> Json:
    made = _workload("batch/v1", "Job", name, cpu, spec)
    del made["spec"]["selector"]  # the API server makes it up
    made["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return made


def budget(name: str, app: str, **spec: Any) -> Json:
    """A PodDisruptionBudget: `minAvailable=…` or `maxUnavailable=…`."""
    selector = {"matchLabels": {"app": app}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": selector} | spec,
    }


def lease(name: str, *, labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """The plainest object that we rely on: no controller touches it."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name} | ({"labels": dict(labels)} if labels else {}),
        "spec": {"holderIdentity": "somebody"} | spec,
    }


def on(node: str) -> dict[str, str]:
    """A node selector."""
    return {HOSTNAME: node}


def prefers(operator: str, *nodes: str, weight: int = 100) -> Json:
    """An affinity with one preferred term on the node's name: `In` to go there, `NotIn` to avoid it."""
    term = {"key": HOSTNAME, "operator": operator, "values": list(nodes)}
    preferred = [{"weight": weight, "preference": {"matchExpressions": [term]}}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _workload(version: str, kind: str, name: str, cpu: str, spec: Json) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": dict(labels)}, "spec": _containers(cpu)}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"matchLabels": dict(labels)}, "template": template} | spec,
    }


def _containers(cpu: str) -> Json:
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    return {"containers": [container]}
