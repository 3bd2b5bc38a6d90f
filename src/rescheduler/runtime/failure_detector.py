"""Detects workloads with failing pods from the watch, and remembers failed pods that have vanished.

A StatefulSet or a DaemonSet deletes a failed pod itself, within milliseconds, before it can be read. Such pods are
remembered here until recovery has decided about them. The memory belongs to one leader: a pod that failed and vanished
just before a change of the leader is not counted.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable
from typing import Any, NamedTuple

from rescheduler.config.live import LiveConfig
from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.structs import WORKLOADS
from rescheduler.kube.record_owner import CONTROLLERS, RecordOwnerKey, asks_for_retries, is_known_above, workload_of
from rescheduler.model import labels
from rescheduler.model.json import Json, ObjectKey
from rescheduler.model.objects import Node, Owner, Pod, Workload
from rescheduler.model.time import format_instant

_MOST = 10_000  # remembered pods; also settled ones
_KEPT = 600.0  # seconds; the pods of a deleted workload are never settled


class VanishedPod(NamedTuple):
    """A failed pod of a controller."""

    pod: Pod
    owner: Owner
    reason: str
    seen: float

    def as_pod(self) -> Json:
        """The pod as the API server would return it, as far as it is known."""
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
    """The failed pods that are not settled, the oldest first."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._remembered: OrderedDict[str, VanishedPod] = OrderedDict()
        self._settled: OrderedDict[str, None] = OrderedDict()
        """The watch may still deliver a pod that was read, counted and deleted; it must not count twice."""

    def __len__(self) -> int:
        """The number of remembered pods."""
        return len(self._remembered)

    def observe(self, pod: Pod) -> None:
        """Remember a pod that has failed, unless it is known already."""
        if pod.phase != "Failed" or pod.ailment is None or pod.owner is None or not pod.node:
            return
        if pod.uid in self._settled or pod.uid in self._remembered:
            return
        self._remembered[pod.uid] = VanishedPod(pod, pod.owner, pod.ailment.reason, self._now())
        oldest = self._now() - _KEPT
        while len(self._remembered) > _MOST or next(iter(self._remembered.values())).seen < oldest:
            self._remembered.popitem(last=False)

    def of(self, owners: Collection[str]) -> list[VanishedPod]:
        """The pods of these controllers, by UID."""
        return [each for each in self._remembered.values() if each.owner.uid in owners]

    def settle(self, uids: Iterable[str]) -> None:
        """Forget these pods for good."""
        for uid in uids:
            self._remembered.pop(uid, None)
            self._settled[uid] = None
            self._settled.move_to_end(uid)
        while len(self._settled) > _MOST:
            self._settled.popitem(last=False)

    def clear(self) -> None:
        """Forget everything, when the lead ends."""
        self._remembered.clear()
        self._settled.clear()


_DEBOUNCE = 0.2  # seconds; several events in a row cause one scan
_REST = 1.0  # seconds at least between two scans of all pods
_SHARE = 20.0  # … and this many times as long as a scan took
_SLICE = 5_000  # rows; then other tasks get a turn


class _Notes(NamedTuple):
    """The annotations of a workload that concern recovery."""

    retries: str | None = None
    record: str = ""
    foreign: str = ""
    """The record of kse-rescheduler, which is taken over."""


_NOTHING = _Notes()


class FailureDetector:
    """Calls `suspect` for each workload that may need recovery."""

    def __init__(
        self,
        cache: ClusterCache,
        live: LiveConfig,
        now: Callable[[], float],
        suspect: Callable[[RecordOwnerKey], None],
    ) -> None:
        self._cache = cache
        self._live = live
        self._now = now
        self._suspect = suspect
        self.vanished = VanishedPods(now)
        """Failed pods that may be gone before they can be read."""
        self._on = False
        self._notes: dict[RecordOwnerKey, _Notes] = {}
        """By workload, if it has any."""
        self._lost: set[str] = set()
        """Nodes that have been not ready, or gone, for too long."""
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        """For nodes, by name, and for starting pods, by key."""
        self._new_nodes: set[str] = set()
        self._new_workloads: set[RecordOwnerKey] = set()
        """Workloads whose pods must be scanned."""
        self._unclaimed: defaultdict[RecordOwnerKey, set[ObjectKey]] = defaultdict(set)
        """Pods whose controller is not in the cache yet, because kinds are watched one by one."""
        self._suspected: dict[ObjectKey, RecordOwnerKey] = {}
        """Pods that were reported: the record may wait for them to go."""
        self._wake = asyncio.Event()
        self._restart = False
        """Whether to start over, because the configuration may have changed."""
        cache.listen(self._changed)

    def restart(self) -> None:
        """Start over with the current configuration."""
        self._restart = True
        self._wake.set()

    async def run(self) -> None:
        """Scan everything once, then follow changes until cancelled; idle while recovery is disabled."""
        try:
            while True:
                self._restart = False
                self._on = self._live.recovery().enabled
                if self._on:
                    await self._scan_everything()
                else:
                    self._suspected.clear()
                    self.vanished.clear()
                await self._follow()
                self._forget()
        finally:
            self._forget()
            self.vanished.clear()

    async def _follow(self) -> None:
        """Follow changes until a restart is requested."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._wake.wait()
            await asyncio.sleep(_DEBOUNCE)
            self._wake.clear()
            if self._restart:
                return
            started = clock()
            await self._scan_affected()
            await asyncio.sleep(max(_REST, _SHARE * (clock() - started)))

    def _forget(self) -> None:
        """Ignore events and drop state that depends on the configuration; reported and vanished pods stay."""
        self._on = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._lost.clear()
        self._notes.clear()

    async def _scan_everything(self) -> None:
        for node in self._cache.rows("Node"):
            self._node_changed(node.name)
        for kind in sorted(WORKLOADS):
            async for workload in self._rows(kind):
                self._workload_changed((kind, workload.namespace, workload.name))
        self._new_workloads.clear()
        async for pod in self._rows("Pod"):
            self._pod_changed((pod.namespace, pod.name))

    async def _scan_affected(self) -> None:
        """Scan the pods of newly lost nodes and of workloads that newly ask for recovery."""
        nodes, controllers = self._new_nodes, self._controllers(self._new_workloads)
        self._new_nodes, self._new_workloads = set(), set()
        if not nodes and not controllers:
            return
        async for pod in self._rows("Pod"):
            owner = pod.owner
            if pod.node in nodes or (owner and (owner.kind, pod.namespace, owner.name) in controllers):
                self._pod_changed((pod.namespace, pod.name))
        self._lost -= {name for name in nodes if self._cache.row("Node", name) is None}  # no pod comes there

    async def _rows(self, kind: str) -> AsyncIterator[Any]:
        """The cached rows of a kind; other tasks get a turn after each slice."""
        for index, row in enumerate(self._cache.rows(kind)):
            yield row
            if index % _SLICE == 0:
                await asyncio.sleep(0)

    def _controllers(self, workloads: set[RecordOwnerKey]) -> set[RecordOwnerKey]:
        """The controllers of the pods of these workloads."""
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
                # Only on a change: it is unknown when earlier failures happened.
                self.vanished.observe(self._cache.row("Pod", key))
        elif kind == "Node":
            self._node_changed(key)
        elif kind in WORKLOADS:
            self._workload_changed(key)

    def _pod_changed(self, key: ObjectKey) -> None:
        pod: Pod | None = self._cache.row("Pod", key)
        if pod is None:
            self._cancel_timer(key)
            if (suspected := self._suspected.pop(key, None)) is not None:
                self._suspect(suspected)
            return
        starts = pod.phase == "Pending" and bool(pod.node) and not pod.deleting
        if not starts:
            self._cancel_timer(key)
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
            self._await_controller(key, holder)
        elif fails:
            self._look_at(holder, key)
        elif key not in self._timers:
            due = (pod.created if pod.created is not None else self._now()) + self._live.recovery().start_timeout
            self._start_timer(key, due, lambda: self._not_started(key))

    def _look_at(self, holder: RecordOwnerKey, pod: ObjectKey) -> None:
        """Report a workload because of a pod; it is reported again when the pod is gone."""
        self._suspected[pod] = holder
        self._suspect(holder)

    def _await_controller(self, key: ObjectKey, controller: RecordOwnerKey) -> None:
        """Look at a pod again when its controller is cached, if the controller is missing now."""
        if controller[0] in CONTROLLERS and self._cache.row(controller[0], controller) is None:
            if len(self._unclaimed) > _MOST:
                self._unclaimed.clear()  # a Job of another API group is never cached
            self._unclaimed[controller].add(key)

    def _not_started(self, key: ObjectKey) -> None:
        """Report a pod that was created too long ago; recovery checks when it came to its node."""
        pod: Pod | None = self._cache.row("Pod", key)
        holder = self.holder(pod) if pod is not None else None
        if holder is not None:
            self._look_at(holder, key)

    def _node_changed(self, name: str) -> None:
        node: Node | None = self._cache.row("Node", name)
        if node is not None and node.ready:
            self._cancel_timer(name)
            self._lost.discard(name)
        elif name not in self._lost and name not in self._timers:
            since = node.unready_since if node is not None and node.unready_since is not None else self._now()
            self._start_timer(name, since + self._live.recovery().node_not_ready, lambda: self._is_lost(name))

    def _is_lost(self, name: str) -> None:
        self._lost.add(name)
        self._new_nodes.add(name)
        self._wake.set()

    def _workload_changed(self, key: RecordOwnerKey) -> None:
        workload: Workload | None = self._cache.row(key[0], key)
        notes = _notes(workload) if workload is not None else _NOTHING
        before = self._notes.pop(key, _NOTHING)
        if notes != _NOTHING:
            self._notes[key] = notes
        if workload is not None and key in self._unclaimed:
            for pod in self._unclaimed.pop(key):
                self._pod_changed(pod)
        deployment = _deployment_of(workload) if workload is not None else None
        if deployment is not None:
            # A copy that the Deployment's controller has made. If it outlives the record, it must be removed; if the
            # events come in the other order, the change of the Deployment reports it.
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
            self._wake.set()

    def _job_changed(self, key: RecordOwnerKey, job: Workload) -> None:
        """Report a completed Job with a record: its pods may not change any more."""
        above = job.owner
        holder = (above.kind, key[1], above.name) if above is not None and above.kind == "CronJob" else key
        for each in {key, holder}:
            if self._notes.get(each, _NOTHING).record:
                self._suspect(each)

    def holder(self, pod: Pod) -> RecordOwnerKey | None:
        """The owner of a pod's failure record, by the cache; None for pods of foreign controllers."""
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
        """Whether the pod, its controller or the owner of that asks for recovery.

        A ReplicaSet's copy of a Deployment's annotation does not count: it outlives the original.
        """
        if asks_for_retries(pod.annotations):
            return True
        if pod.owner is None:
            return False
        keys = {holder} if holder[0] == "Deployment" else {holder, (pod.owner.kind, pod.namespace, pod.owner.name)}
        return any(self._notes.get(key, _NOTHING).retries is not None for key in keys)

    def _start_timer(self, what: Hashable, due: float, ring: Callable[[], None]) -> None:
        def rung() -> None:
            self._timers.pop(what, None)
            ring()

        loop = asyncio.get_running_loop()
        self._timers[what] = loop.call_later(max(0.0, due - self._now()), rung)

    def _cancel_timer(self, what: Hashable) -> None:
        timer = self._timers.pop(what, None)
        if timer is not None:
            timer.cancel()


def _notes(workload: Workload) -> _Notes:
    said = workload.annotations
    kind = "Deployment" if _deployment_of(workload) is not None else workload.kind  # the kind whose record it copies
    foreign = said.get(labels.KSE_RECORDS.get(kind, ""), "")
    retries = said.get(labels.SCHEDULING_RETRIES, said.get(labels.MISSPELT_RETRIES))
    return _Notes(retries, said.get(labels.FAILURES, ""), foreign)


def _deployment_of(workload: Workload) -> RecordOwnerKey | None:
    """The Deployment that owns a ReplicaSet."""
    above = workload.owner
    if workload.kind != "ReplicaSet" or above is None or above.kind != "Deployment":
        return None
    return (above.kind, workload.namespace, above.name)
