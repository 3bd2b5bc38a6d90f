"""The kubelets' part for their nodes: what they register, the conditions that they write, and their leases.

A label of the node makes its kubelet report that the node is not ready, or fall silent (see `simulation`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from zlib import crc32

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.conditions import condition_of
from kubemini.errors import Json
from kubemini.kinds import LEASE, NODE, Kind
from kubemini.simulation import Kubelet, kubelet_of
from kubemini.store import Change, Key

VERSION = "v1.37.1"
"""The Kubernetes that the embedded cluster behaves like."""

RENEW_EVERY = 10.0
_RENEWALS_IN_A_LEASE = 4
_LEASES = "kube-node-lease"
EARLY = 0.001
"""By how much a timer may be early, in seconds: event loops round."""
_NODE_INFO = {
    "architecture": "amd64",
    "containerRuntimeVersion": "simulated://1",
    "kernelVersion": "simulated",
    "kubeletVersion": VERSION,
    "operatingSystem": "linux",
    "osImage": "simulated",
}
_HEALTHY = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),  # the last, as every kubelet has it
}
_NOT_READY = ("False", "KubeletNotReady", "container runtime network not ready")


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What nodes are made of; nodes take the zones in turn."""

    cpu: str = "4"
    memory: str = "16Gi"
    pods: int = 110
    zones: Sequence[str] = ("zone-a", "zone-b", "zone-c")
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    extended: Mapping[str, str] = field(default_factory=dict)


def node(name: str, number: int, shape: NodeShape) -> Json:
    """The node of this name; its number gives it a zone and an address."""
    resources = {
        "cpu": shape.cpu,
        "memory": shape.memory,
        "pods": str(shape.pods),
        "ephemeral-storage": "100Gi",
        **shape.extended,
    }
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "region-1",
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
            "nodeInfo": dict(_NODE_INFO),
        },
    }
    if shape.taints:
        made["spec"]["taints"] = [dict(taint) for taint in shape.taints]
    return made


def reported(body: Json, now: datetime, *, ready: bool) -> Json:
    """The node with every condition that its kubelet reports, as of now."""
    status, stamp = body.setdefault("status", {}), clock.stamp(now)
    others = [each for each in status.get("conditions", ()) if each["type"] not in _HEALTHY]
    ours = []
    for kind, healthy in _HEALTHY.items():
        state, reason, message = healthy if ready or kind != "Ready" else _NOT_READY
        before = condition_of(body, kind)
        since = before["lastTransitionTime"] if before.get("status") == state else stamp
        times = {"lastHeartbeatTime": stamp, "lastTransitionTime": since}
        ours.append({"type": kind, "status": state, "reason": reason, "message": message} | times)
    status["conditions"] = [*others, *ours]
    return body


class HeartbeatController:
    """What all kubelets report about their nodes. Each renews its Lease at its own moment, so there is no burst."""

    name = "kubelet-heartbeat"
    kinds: tuple[Kind, ...] = (NODE,)

    def __init__(self, api: Api, renew_every: float = RENEW_EVERY) -> None:
        self._api = api
        self._renew_every = renew_every
        self._renewals: dict[str, float] = {}
        """When the next renewal of each node is due, by uid, in the event loop's time."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The node itself."""
        if change.type == "DELETED":
            self._renewals.pop(change.entry.uid, None)
            return ()
        return (change.entry.key,)

    async def reconcile(self, key: Key) -> float | None:
        """Report a change and renew the Lease if due; returns in how many seconds it will be due again."""
        entry = self._api.store.get(NODE, key)
        kubelet = kubelet_of(entry.labels) if entry is not None else Kubelet.DEAD
        if entry is None or kubelet is Kubelet.DEAD:
            return None
        ready = kubelet is not Kubelet.NOT_READY
        if condition_of(entry.object(), "Ready").get("status") != str(ready):
            target = Target(NODE, name=key[1], subresource="status")
            await self._api.edit(target, lambda body: reported(body, clock.now(), ready=ready))
        now = asyncio.get_running_loop().time()
        due = self._renewals.get(entry.uid, now)
        if due <= now + EARLY:
            # The first interval is shorter by a share of the node's own, so that renewals are spread over time.
            share = 1.0 if entry.uid in self._renewals else 0.05 + 0.95 * (crc32(key[1].encode()) % 1000 / 1000)
            await self._renew(key[1], entry.uid)
            due = self._renewals[entry.uid] = now + self._renew_every * share
        return max(due - now, 0.0)

    async def _renew(self, name: str, uid: str) -> None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}

        def edit(lease: Json) -> Json:
            lease["spec"]["renewTime"] = clock.micro_stamp(clock.now())
            lease["metadata"]["ownerReferences"] = [owner]
            return lease

        target = Target(LEASE, _LEASES, name)
        if self._api.store.get(LEASE, target.key) is not None:
            await self._api.edit(target, edit)
            return
        seconds = max(round(self._renew_every * _RENEWALS_IN_A_LEASE), 1)
        spec = {"holderIdentity": name, "leaseDurationSeconds": seconds}
        await self._api.create(target, edit({"metadata": {"name": name, "namespace": _LEASES}, "spec": spec}))
