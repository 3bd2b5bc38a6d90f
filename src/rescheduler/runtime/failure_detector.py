"""Remembers pods that have failed as a whole, because they may be gone before anybody could read them.

A StatefulSet or a DaemonSet deletes such a pod itself, within milliseconds; so may whoever clears up. `failing` tells
of them when the watch does, `recovery_look` puts those that it does not find any more into its case, and the loop says
about which of them all is decided. It is the memory of one leader: what fell just before another one took over is not
counted.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, NamedTuple

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.structs import WORKLOADS
from rescheduler.kube.record_owner import CONTROLLERS, RecordOwnerKey, asks_for_retries, is_known_above, workload_of
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.objects import Node, Owner, Pod, Workload
from rescheduler.model.time import format_instant
from rescheduler.recovery.settings import RecoverySettings

_MOST = 10_000  # pods that are remembered; and those that are known to be settled
_KEPT = 600.0  # seconds; nobody looks at a workload that is gone, so nobody settles its pods


class VanishedPod(NamedTuple):
    """A pod of a controller that has failed as a whole."""

    pod: Pod
    owner: Owner
    reason: str
    seen: float

    def as_pod(self) -> Json:
        """What is known of it, as the API server would have given it out."""
        pod, owner = self.pod, self.owner
        metadata = {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "labels": dict(pod.labels),
            "annotations": dict(pod.annotations),
            "ownerReferences": [{"kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": True}],
        }
        if pod.created is not None:
            metadata["creationTimestamp"] = format_instant(pod.created)
        status = {"phase": "Failed", "reason": self.reason, "startTime": format_instant(self.seen)}
        spec = {"nodeName": pod.node, "containers": []}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


class VanishedPods:
    """The pods that have failed and are not settled, the oldest first."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._falls: OrderedDict[str, VanishedPod] = OrderedDict()
        self._settled: OrderedDict[str, None] = OrderedDict()
        """The watch may still tell of a pod that was read, counted and deleted: it does not count twice."""

    def __len__(self) -> int:
        """How many pods are remembered."""
        return len(self._falls)

    def observe(self, pod: Pod) -> None:
        """Take note of a pod, if it has failed as a whole and was not seen so before."""
        if pod.phase != "Failed" or pod.ailment is None or pod.owner is None or not pod.node:
            return
        if pod.uid in self._settled or pod.uid in self._falls:
            return
        self._falls[pod.uid] = VanishedPod(pod, pod.owner, pod.ailment.reason, self._now())
        oldest = self._now() - _KEPT
        while len(self._falls) > _MOST or next(iter(self._falls.values())).seen < oldest:
            self._falls.popitem(last=False)

    def of(self, owners: Collection[str]) -> list[VanishedPod]:
        """Those of these controllers, by UID."""
        return [fall for fall in self._falls.values() if fall.owner.uid in owners]

    def settle(self, uids: Iterable[str]) -> None:
        """Forget these for good: they are counted, or nothing is to be counted."""
        for uid in uids:
            self._falls.pop(uid, None)
            self._settled[uid] = None
            self._settled.move_to_end(uid)
        while len(self._settled) > _MOST:
            self._settled.popitem(last=False)

    def clear(self) -> None:
        """Forget all, when others lead."""
        self._falls.clear()
        self._settled.clear()


_TOGETHER = 0.2  # seconds; what happens in a row is gone through once
_REST = 1.0  # seconds at least between two times that all pods are gone through
_SHARE = 20.0  # … and so many times as long as it took
_SLICE = 5_000  # rows; then others have a turn

PodKey = tuple[str, str]


class _Notes(NamedTuple):
    """What a workload says about recovery."""

    retries: str | None = None
    record: str = ""
    foreign: str = ""
    """The record of kse-rescheduler, which is taken over."""


_NOTHING = _Notes()


class FailureDetector:
    """Watches for causes to look; `suspect` is called for each holder that has one."""

    def __init__(
        self,
        cache: ClusterCache,
        settings: Callable[[], RecoverySettings],
        now: Callable[[], float],
        suspect: Callable[[RecordOwnerKey], None],
    ) -> None:
        self._cache = cache
        self._settings = settings
        self._now = now
        self._suspect = suspect
        self.fallen = VanishedPods(now)
        """Pods that may be gone when they are to be read."""
        self._on = False
        self._notes: dict[RecordOwnerKey, _Notes] = {}
        """Of the workloads that say anything."""
        self._lost: set[str] = set()
        """Nodes that have been not ready, or gone, for too long."""
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        """For nodes, by name, and for pods that start, by key."""
        self._new_nodes: set[str] = set()
        self._new_workloads: set[RecordOwnerKey] = set()
        """Whose pods have yet to be gone through."""
        self._unclaimed: defaultdict[RecordOwnerKey, set[PodKey]] = defaultdict(set)
        """Pods to look at whose controller is not known yet: kinds are watched one by one."""
        self._suspected: dict[PodKey, RecordOwnerKey] = {}
        """Pods that a holder was looked at for: the record may still wait for them to go."""
        self._called = asyncio.Event()
        self._anew = False
        """Whether to begin again, because the settings may have changed."""
        cache.listen(self._changed)

    def restart(self) -> None:
        """Go by other settings from now on, and look at everything again."""
        self._anew = True
        self._called.set()

    async def run(self) -> None:
        """Look at everything once, then at what changes, until cancelled; nowhere while recovery is switched off."""
        try:
            while True:
                self._anew = False
                self._on = self._settings().enabled
                if self._on:
                    await self._everything()
                else:
                    self._suspected.clear()
                    self.fallen.clear()
                await self._follow()
                self._forget()
        finally:
            self._forget()
            self.fallen.clear()

    async def _follow(self) -> None:
        """Look at what changes, until all is to be looked at."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._called.wait()
            await asyncio.sleep(_TOGETHER)
            self._called.clear()
            if self._anew:
                return
            started = clock()
            await self._go_through()
            await asyncio.sleep(max(_REST, _SHARE * (clock() - started)))

    def _forget(self) -> None:
        """Hear of nothing, and forget what goes by settings; who was looked at, and what fell, is still true."""
        self._on = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._lost.clear()
        self._notes.clear()

    async def _everything(self) -> None:
        for node in self._cache.rows("Node"):
            self._node_changed(node.name)
        for kind in sorted(WORKLOADS):
            for index, workload in enumerate(self._cache.rows(kind)):
                self._workload_changed((kind, workload.namespace, workload.name))
                if index % _SLICE == 0:
                    await asyncio.sleep(0)
        self._new_workloads.clear()
        for index, pod in enumerate(self._cache.rows("Pod")):
            self._pod_changed((pod.namespace, pod.name))
            if index % _SLICE == 0:
                await asyncio.sleep(0)

    async def _go_through(self) -> None:
        """Look at the pods of nodes that are lost, and of workloads that ask, since the last time."""
        nodes, controllers = self._new_nodes, self._controllers(self._new_workloads)
        self._new_nodes, self._new_workloads = set(), set()
        if not nodes and not controllers:
            return
        for index, pod in enumerate(self._cache.rows("Pod")):
            owner = pod.owner
            if pod.node in nodes or (owner and (owner.kind, pod.namespace, owner.name) in controllers):
                self._pod_changed((pod.namespace, pod.name))
            if index % _SLICE == 0:
                await asyncio.sleep(0)
        self._lost -= {name for name in nodes if self._cache.row("Node", name) is None}  # nothing comes to those

    def _controllers(self, workloads: set[RecordOwnerKey]) -> set[RecordOwnerKey]:
        """Who makes the pods of these workloads."""
        found = {key for key in workloads if key[0] in CONTROLLERS}
        if len(found) < len(workloads):
            made = [*self._cache.rows("ReplicaSet"), *self._cache.rows("Job")]
            for each in made:
                above = each.owner
                if above is not None and (above.kind, each.namespace, above.name) in workloads:
                    found.add((each.kind, each.namespace, each.name))
        return found

    def _changed(self, kind: str, key: Any, _version: str) -> None:
        if not self._on:
            return
        if kind == "Pod":
            self._pod_changed(key)
            if key in self._suspected:
                # Only when it is told anew: of pods that had failed before, nobody knows since when.
                self.fallen.observe(self._cache.row("Pod", key))
        elif kind == "Node":
            self._node_changed(key)
        elif kind in WORKLOADS:
            self._workload_changed(key)

    def _pod_changed(self, key: PodKey) -> None:
        pod: Pod | None = self._cache.row("Pod", key)
        if pod is None:
            self._unset(key)
            if (suspected := self._suspected.pop(key, None)) is not None:
                self._suspect(suspected)
            return
        starts = pod.phase == "Pending" and bool(pod.node) and not pod.deleting
        if not starts:
            self._unset(key)
        fails = not pod.deleting and (pod.ailment is not None or pod.node in self._lost)
        holder = self.holder(pod)
        if holder is None:
            return
        if self._has_record(holder, pod):
            self._look_at(holder, key)
        elif not fails and not starts:
            if not pod.deleting:
                self._suspected.pop(key, None)
        elif not self._asks(pod, holder):
            self._expect(key, holder)
        elif fails:
            self._look_at(holder, key)
        elif key not in self._timers:
            due = (pod.created if pod.created is not None else self._now()) + self._settings().start_timeout
            self._set(key, due, lambda: self._not_started(key))

    def _look_at(self, holder: RecordOwnerKey, pod: PodKey) -> None:
        """Have a holder looked at because of a pod; when that is gone, it is looked at once more."""
        self._suspected[pod] = holder
        self._suspect(holder)

    def _expect(self, key: PodKey, controller: RecordOwnerKey) -> None:
        """Come back to a pod when its controller is known, if that is why nobody asks for it."""
        if controller[0] in CONTROLLERS and self._cache.row(controller[0], controller) is None:
            if len(self._unclaimed) > _MOST:
                self._unclaimed.clear()  # of another group's Job nobody will ever tell
            self._unclaimed[controller].add(key)

    def _not_started(self, key: PodKey) -> None:
        """It has had its time since it was made; when it came to its node, the look tells."""
        pod: Pod | None = self._cache.row("Pod", key)
        holder = self.holder(pod) if pod is not None else None
        if holder is not None:
            self._look_at(holder, key)

    def _node_changed(self, name: str) -> None:
        node: Node | None = self._cache.row("Node", name)
        if node is not None and node.ready:
            self._unset(name)
            self._lost.discard(name)
        elif name not in self._lost and name not in self._timers:
            since = node.unready_since if node is not None and node.unready_since is not None else self._now()
            self._set(name, since + self._settings().node_not_ready, lambda: self._is_lost(name))

    def _is_lost(self, name: str) -> None:
        self._lost.add(name)
        self._new_nodes.add(name)
        self._called.set()

    def _workload_changed(self, key: RecordOwnerKey) -> None:
        workload: Workload | None = self._cache.row(key[0], key)
        notes = _notes(workload) if workload is not None else _NOTHING
        before = self._notes.pop(key, _NOTHING)
        if notes != _NOTHING:
            self._notes[key] = notes
        if workload is not None and key in self._unclaimed:
            for pod in self._unclaimed.pop(key):
                self._pod_changed(pod)
        deployment = _deployment(workload) if workload is not None else None
        if deployment is not None:
            # The Deployment's controller copied all this here. A copy that outlives the record is to be taken off; who
            # sees the two in another order finds out when the Deployment's own goes.
            above = self._notes.get(deployment, _NOTHING)
            if (notes.record and not above.record) or (notes.foreign and not above.foreign):
                self._suspect(deployment)
            return
        taken = notes.foreign and notes.foreign != before.foreign
        if taken or notes.record != before.record or (notes.record and notes != before):
            self._suspect(key)
        elif workload is not None and key[0] == "Job":
            self._job_changed(key, workload)
        if notes.retries is not None and notes.retries != before.retries:
            self._new_workloads.add(key)
            self._called.set()

    def _job_changed(self, key: RecordOwnerKey, job: Workload) -> None:
        """A Job that has completed is well, and its pods may have changed for the last time before it was."""
        above = job.owner
        holder = (above.kind, key[1], above.name) if above is not None and above.kind == "CronJob" else key
        for each in {key, holder}:
            if self._notes.get(each, _NOTHING).record:
                self._suspect(each)

    def holder(self, pod: Pod) -> RecordOwnerKey | None:
        """Who keeps the record of a pod's failures, as far as is known; None for a pod that somebody else makes."""
        owner, namespace = pod.owner, pod.namespace
        if owner is None:
            return ("Pod", namespace, pod.name)
        if owner.kind not in CONTROLLERS:
            return None
        controller = workload_of(self._cache, namespace, owner)
        above = controller.owner if controller is not None else None
        if above is not None and is_known_above(self._cache, namespace, owner.kind, above):
            return (above.kind, namespace, above.name)
        return (owner.kind, namespace, owner.name)

    def _has_record(self, holder: RecordOwnerKey, pod: Pod) -> bool:
        if holder[0] == "Pod":
            return labels.FAILURES in pod.annotations or labels.KSE_RECORDS["Pod"] in pod.annotations
        return bool(self._notes.get(holder, _NOTHING).record)

    def _asks(self, pod: Pod, holder: RecordOwnerKey) -> bool:
        """Whether anybody says that this pod is to be rescheduled: itself, its controller, or who made that.

        What a Deployment's controller copied to a ReplicaSet is not asked: it stays when the Deployment's own goes.
        """
        if asks_for_retries(pod.annotations):
            return True
        if pod.owner is None:
            return False
        keys = {holder} if holder[0] == "Deployment" else {holder, (pod.owner.kind, pod.namespace, pod.owner.name)}
        return any(self._notes.get(key, _NOTHING).retries is not None for key in keys)

    def _set(self, what: Hashable, due: float, ring: Callable[[], None]) -> None:
        def rung() -> None:
            self._timers.pop(what, None)
            ring()

        loop = asyncio.get_running_loop()
        self._timers[what] = loop.call_later(max(0.0, due - self._now()), rung)

    def _unset(self, what: Hashable) -> None:
        timer = self._timers.pop(what, None)
        if timer is not None:
            timer.cancel()


def _notes(workload: Workload) -> _Notes:
    said = workload.annotations
    kind = "Deployment" if _deployment(workload) is not None else workload.kind  # whose record it is a copy of
    foreign = said.get(labels.KSE_RECORDS.get(kind, ""), "")
    retries = said.get(labels.SCHEDULING_RETRIES, said.get(labels.MISSPELT_RETRIES))
    return _Notes(retries, said.get(labels.FAILURES, ""), foreign)


def _deployment(workload: Workload) -> RecordOwnerKey | None:
    """The Deployment that a ReplicaSet is of."""
    above = workload.owner
    if workload.kind != "ReplicaSet" or above is None or above.kind != "Deployment":
        return None
    return (above.kind, workload.namespace, above.name)
