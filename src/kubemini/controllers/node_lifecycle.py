"""Nodes in trouble: what they report, or that they report no more, becomes taints that keep pods away.

A kubelet shows that it lives by its node's status and by its lease. When it has been silent for a while, its conditions
turn Unknown and its pods count as not ready. `unschedulable` becomes a NoSchedule taint at once, and a node that is not
ready or not reachable gets a NoExecute taint, too. Recovery takes the taints off. `pod_eviction` acts on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.conditions import condition_of, set_condition, set_pod_condition
from kubemini.controllers.pods import pods_on
from kubemini.controllers.writes import edit_if_present
from kubemini.errors import Json
from kubemini.events import EventRecorder
from kubemini.kinds import LEASE, NODE, POD, Kind
from kubemini.store import Change, Key

GRACE = 50.0
"""For how many seconds a kubelet may be silent."""
STARTUP_GRACE = 60.0
"""For how many seconds a new one may."""

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_LEASES = "kube-node-lease"
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_TAINTS = {"False": NOT_READY, "Unknown": UNREACHABLE}
"""By the status of the condition Ready. The other conditions of simulated kubelets are never bad."""
_MANAGED = (NOT_READY, UNREACHABLE, _UNSCHEDULABLE)
"""The taints that this controller puts on and takes off; all others are left alone."""


class NodeLifecycleController:
    """Notices silent kubelets, and taints nodes as their conditions say."""

    name = "node-controller"
    kinds: tuple[Kind, ...] = (NODE,)

    def __init__(self, api: Api, grace: float = GRACE) -> None:
        self._api = api
        self._grace = grace
        self._events = EventRecorder(api.store, self.name)

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The node."""
        return (change.entry.key,)

    async def reconcile(self, key: Key) -> float | None:
        """Notice silence, and set the taints. Returns when the node will have been silent for too long."""
        node = self._api.find(NODE, key)
        if node is None:
            return None
        now, name, uid = clock.now(), key[1], node["metadata"]["uid"]
        ready = condition_of(node, "Ready").get("status")
        grace = self._grace if ready else max(self._grace, STARTUP_GRACE)
        left = (self._last_seen(name, node) + timedelta(seconds=grace) - now).total_seconds()
        if left <= 0:
            status = Target(NODE, name=name, subresource="status")
            await edit_if_present(self._api, status, uid, _with_unknown_conditions)
            if ready == "True":
                self._events.record(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            await self._mark_pods_unready(name)
        await edit_if_present(self._api, Target(NODE, name=name), uid, _with_taints)
        return left if left > 0 else None

    def _last_seen(self, name: str, node: Json) -> datetime:
        """The time of a kubelet's last sign of life."""
        seen = [clock.moment(node["metadata"]["creationTimestamp"])]
        if beat := condition_of(node, "Ready").get("lastHeartbeatTime"):
            seen.append(clock.moment(beat))
        lease = self._api.find(LEASE, (_LEASES, name)) or {}
        if renewed := (lease.get("spec") or {}).get("renewTime"):
            seen.append(clock.moment(renewed))
        return max(seen)

    async def _mark_pods_unready(self, node: str) -> None:
        """Whether these pods serve is unknown, so they count as not ready."""

        def unready(pod: Json) -> Json:
            ready = condition_of(pod, "Ready")
            set_pod_condition(pod, "Ready", "False", ready.get("reason", ""), ready.get("message", ""))
            return pod

        for entry in pods_on(self._api.store, node):
            if condition_of(entry.object(), "Ready").get("status") == "True":
                pod = await edit_if_present(self._api, Target(POD, *entry.key, "status"), entry.uid, unready)
                if pod is not None:
                    self._events.record(pod, "NodeNotReady", "Node is not ready", warning=True)


def _with_taints(node: Json) -> Json:
    """A node with the taints that its readiness and `unschedulable` ask for."""
    spec: Json = node.setdefault("spec", {})
    wanted = {(_UNSCHEDULABLE, "NoSchedule")} if spec.get("unschedulable") else set()
    if key := _TAINTS.get(condition_of(node, "Ready").get("status", "")):
        wanted |= {(key, "NoSchedule"), (key, "NoExecute")}
    taints = spec.pop("taints", None) or []
    kept = [each for each in taints if _id(each) in wanted or each["key"] not in _MANAGED]
    missing = wanted - {_id(each) for each in kept}
    stamp = clock.stamp(clock.now())
    new = [{"key": key, "effect": effect, "timeAdded": stamp} for key, effect in sorted(missing, reverse=True)]
    if kept or new:
        spec["taints"] = [*kept, *new]
    return node


def _id(taint: Json) -> tuple[str, str]:
    return (taint["key"], taint["effect"])


def _with_unknown_conditions(node: Json) -> Json:
    """A node whose kubelet has been silent for too long: its status is unknown now."""
    for kind in _REPORTED:
        before = condition_of(node, kind)
        if before.get("status") != "Unknown":
            unknown = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
            seen = before.get("lastHeartbeatTime", node["metadata"]["creationTimestamp"])
            condition = {"type": kind, "status": "Unknown", "lastHeartbeatTime": seen} | unknown
            set_condition(node.setdefault("status", {}), condition)
    return node
