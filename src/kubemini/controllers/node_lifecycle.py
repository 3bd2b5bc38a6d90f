"""Nodes that are in trouble: what they report, or that they report no more, becomes taints that keep pods away.

A kubelet says that it is alive by its node's status and by its lease. When it has said neither for a while its
conditions turn Unknown and its pods count as not ready. Conditions and `unschedulable` become NoSchedule taints at
once, and a node that is not ready or not reachable a NoExecute taint, as fast as `zones` allows; recovery takes them
off. What becomes of the pods is the matter of `taint_eviction`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.controllers.conditions import condition_of, set_pod_condition
from kubemini.controllers.node_taints import NOT_READY, UNREACHABLE, retainted
from kubemini.controllers.pod_index import PodsByNode
from kubemini.controllers.zones import Zone, Zones
from kubemini.events import EventRecorder
from kubemini.kinds import LEASE, NODE, POD, Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Key

GRACE = 50.0
"""For how many seconds a kubelet may be silent."""
STARTUP_GRACE = 60.0
"""For how many seconds a new one may."""

_LEASES = "kube-node-lease"
_NOT_COUNTED = "node.kubernetes.io/exclude-disruption"
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_DRIVES_OFF = {"False": NOT_READY, "Unknown": UNREACHABLE}
_COPIED_LABELS = (
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
)


def silent_since(node: Json, lease: Json | None, known_since: datetime) -> datetime:
    """When a kubelet was last heard of; one that was silent before we looked gets its time like any other."""
    heard = [known_since, clock.moment(node["metadata"]["creationTimestamp"])]
    if beat := condition_of(node, "Ready").get("lastHeartbeatTime"):
        heard.append(clock.moment(beat))
    if renewed := ((lease or {}).get("spec") or {}).get("renewTime"):
        heard.append(clock.moment(renewed))
    return max(heard)


def given_up(node: Json, now: datetime) -> Json:
    """A node whose kubelet has been silent for too long: what it reported is not known any more."""
    conditions: list[Json] = node.setdefault("status", {}).setdefault("conditions", [])
    for kind in _REPORTED:
        condition = next((each for each in conditions if each["type"] == kind), None)
        if condition is None:
            never: Json = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
            times = {"lastHeartbeatTime": node["metadata"]["creationTimestamp"], "lastTransitionTime": clock.stamp(now)}
            conditions.append({"type": kind, "status": "Unknown"} | times | never)
        elif condition["status"] != "Unknown":
            said = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
            condition.update({"status": "Unknown", "lastTransitionTime": clock.stamp(now)} | said)
    return node


class NodeLifecycleController:
    """Watches over nodes."""

    name = "node-controller"
    kinds: tuple[Kind, ...] = (NODE, POD)

    def __init__(self, api: Api, grace: float = GRACE) -> None:
        self._api = api
        self._store = api.store
        self._grace = grace
        self._events = EventRecorder(api.store, self.name)
        self._pods = PodsByNode(api.store)
        self._zones = Zones()
        self._known: dict[str, tuple[str, datetime]] = {}
        """The nodes, by name: uid, and since when it is known."""
        self._to_mark: set[str] = set()
        """Nodes that were lost and whose pods may still count as ready."""

    def concerned(self, change: Change) -> Iterable[Key]:
        """The node, and all others whose turn its change brings."""
        if change.kind.resource == POD.resource:
            self._pods.note(change)
            return ()
        name = change.entry.key[1]
        node = change.entry.object()
        ready: bool | None = condition_of(node, "Ready").get("status") == "True"
        if change.type == "DELETED" or _NOT_COUNTED in change.entry.labels:
            ready = None
        were_all_lost = self._zones.all_lost
        others = self._zones.note(name, _zone(node), ready=ready)
        if were_all_lost and not self._zones.all_lost:
            # Perhaps it was the network, and it is back: nobody's silence until now counts.
            self._known = {known: (uid, clock.now()) for known, (uid, _) in self._known.items()}
        return [change.entry.key, *(("", other) for other in sorted(others) if other != name)]

    async def reconcile(self, key: Key) -> float | None:
        """Notice silence, and taint the node as its conditions say."""
        name = key[1]
        node = self._api.find(NODE, key)
        self._meet(name, node)
        if node is None:
            self._to_mark.discard(name)
            return None
        node, silent_in = await self._listened(name, node)
        if name in self._to_mark:
            await self._mark_pods(name)
            self._to_mark.discard(name)
        turn_in = await self._taint(name, node)
        return min((wait for wait in (silent_in, turn_in) if wait is not None), default=None)

    def _meet(self, name: str, node: Json | None) -> None:
        """Tell of nodes that come and go."""
        known = self._known.get(name)
        uid = node["metadata"]["uid"] if node else ""
        if known is not None and known[0] != uid:
            del self._known[name]
            gone = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": known[0]}}
            self._events.say(gone, "RemovingNode", f"Node {name} event: Removing Node {name} from Controller")
        if node is not None and name not in self._known:
            self._known[name] = (uid, clock.now())
            self._events.say(node, "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller")

    async def _listened(self, name: str, node: Json) -> tuple[Json, float | None]:
        """The node, given up if its kubelet is silent; and in how many seconds that will be, if it isn't."""
        now = clock.now()
        ready = condition_of(node, "Ready").get("status")
        grace = self._grace if ready else max(self._grace, STARTUP_GRACE)
        lease = self._api.find(LEASE, (_LEASES, name))
        silent_at = silent_since(node, lease, self._known[name][1]) + timedelta(seconds=grace)
        if now < silent_at:
            return node, (silent_at - now).total_seconds()
        node = await self._api.edit(Target(NODE, name=name, subresource="status"), lambda body: given_up(body, now))
        if ready == "True":
            self._events.say(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            self._to_mark.add(name)
        return node, None

    async def _mark_pods(self, name: str) -> None:
        """Nobody knows whether these pods serve: they count as not ready."""

        def unready(pod: Json) -> Json:
            said = condition_of(pod, "Ready")
            if said.get("status") == "True":
                kept = {key: said[key] for key in ("reason", "message") if key in said}
                set_pod_condition(pod, "Ready", "False", **kept)
            return pod

        for entry in self._pods.entries(name):
            before = condition_of(entry.object(), "Ready")
            try:
                pod = await self._api.edit(Target(POD, *entry.key, "status"), unready)
            except Refusal as refusal:
                if refusal.code != 404:
                    raise
                continue
            if before.get("status") == "True":
                self._events.say(pod, "NodeNotReady", "Node is not ready", warning=True)

    async def _taint(self, name: str, node: Json) -> float | None:
        """Taints and labels as they must be; in how many seconds the node may be tainted that has to wait for it."""
        driving_off = _DRIVES_OFF.get(condition_of(node, "Ready").get("status", ""), "")
        wait: float | None = None
        if driving_off:
            zone, now = _zone(node), asyncio.get_running_loop().time()
            there = {
                taint["key"] for taint in node.get("spec", {}).get("taints") or () if taint["effect"] == "NoExecute"
            }
            if self._zones.all_lost:
                driving_off = ""
            elif not there & set(_DRIVES_OFF.values()):
                wait = self._zones.wait(zone, now)
                if wait == 0:
                    self._zones.take(zone, now)
                    wait = None
                else:
                    driving_off = ""

        def adjusted(body: Json) -> Json:
            labels = body["metadata"].get("labels") or {}
            labels |= {copy: labels[label] for label, copy in _COPIED_LABELS if label in labels}
            if labels:
                body["metadata"]["labels"] = labels
            return retainted(body, driving_off, clock.now())

        await self._api.edit(Target(NODE, name=name), adjusted)
        return wait


def _zone(node: Json) -> Zone:
    labels = node["metadata"].get("labels") or {}
    return (labels.get("topology.kubernetes.io/region", ""), labels.get("topology.kubernetes.io/zone", ""))
