"""The node that a kubelet registers, and what it says about it from then on.

`cluster` makes nodes of a NodeShape; they come as a real kubelet registers them: with capacity, addresses, labels and
what it runs on. `heartbeat` writes the conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kubemini import clock
from kubemini.controllers.conditions import condition_of
from kubemini.refusals import Json

VERSION = "v1.37.1"
"""The Kubernetes whose ways the embedded cluster has."""

_RUNTIME = "simulated://1"
_HEALTHY = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),  # the last, as every kubelet has it
}
_NO_NETWORK = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)
_NOT_READY = ("False", "KubeletNotReady", _NO_NETWORK)


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What nodes are made of; the zones are dealt out in turn."""

    cpu: str = "4"
    memory: str = "16Gi"
    pods: int = 110
    ephemeral_storage: str = "100Gi"
    zones: Sequence[str] = ("zone-a", "zone-b", "zone-c")
    region: str = "region-1"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    extended: Mapping[str, str] = field(default_factory=dict)


def node(name: str, number: int, shape: NodeShape) -> Json:
    """The node of this name; its number gives it a zone and an address."""
    resources = {
        "cpu": shape.cpu,
        "memory": shape.memory,
        "pods": str(shape.pods),
        "ephemeral-storage": shape.ephemeral_storage,
        **shape.extended,
    }
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": shape.region,
    }
    if shape.zones:
        labels["topology.kubernetes.io/zone"] = shape.zones[number % len(shape.zones)]
    address = f"10.{64 + number // 65536 % 64}.{number // 256 % 256}.{number % 256}"
    made: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels | dict(shape.labels)},
        "spec": {},
        "status": {
            "capacity": dict(resources),
            "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": _node_info(name),
        },
    }
    if shape.taints:
        made["spec"]["taints"] = [dict(taint) for taint in shape.taints]
    return made


def reported(body: Json, now: datetime, *, ready: bool) -> Json:
    """The node with all that its kubelet has to say: every condition, heard now."""
    status = body.setdefault("status", {})
    ours = [
        _condition(body, kind, _HEALTHY[kind] if ready or kind != "Ready" else _NOT_READY, now) for kind in _HEALTHY
    ]
    others = [each for each in status.get("conditions", ()) if each["type"] not in _HEALTHY]
    status["conditions"] = [*others, *ours]
    return body


def _condition(body: Json, kind: str, said: tuple[str, str, str], now: datetime) -> Json:
    status, reason, message = said
    before = condition_of(body, kind)
    since = before["lastTransitionTime"] if before.get("status") == status else clock.stamp(now)
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": clock.stamp(now),
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }


def _node_info(name: str) -> Json:
    """All of these are required by the API; people look at them in `kubectl get nodes -o wide`."""
    return {
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": _RUNTIME,
        "kernelVersion": "simulated",
        "kubeProxyVersion": "",
        "kubeletVersion": VERSION,
        "machineID": name,
        "operatingSystem": "linux",
        "osImage": "simulated",
        "systemUUID": name,
    }
