"""Who a pod belongs to, looked up in the cache: as `planning.workloads` does it in a snapshot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

import numpy as np
import structlog

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.structs import WORKLOADS
from rescheduler.model.objects import Node, Owner, Pod, Workload
from rescheduler.model.policy import Policy, Utilization
from rescheduler.model.shape import Requests
from rescheduler.model.snapshot import ClusterSnapshot, WorkloadKey
from rescheduler.model.usage import MeasuredUsage
from rescheduler.planning.columns import CAP, PODS, Ints
from rescheduler.planning.load import Amounts, PodMeasure
from rescheduler.runtime.usage_poller import UsagePoller
from rescheduler.web.node_snapshot import COUNT, NodeInfo, NodeStats, NodeTable, ThresholdRules


def workload_of(cache: ClusterCache, pod: Pod) -> str:
    """`Deployment/web`; empty for a pod that nobody manages."""
    if pod.owner is None:
        return ""
    kind, _, name = workload_key(cache, pod)
    return f"{kind}/{name}"


def workload_key(cache: ClusterCache, pod: Pod) -> WorkloadKey:
    """What the pod's workload is called; a pod without a controller is its own."""
    if pod.owner is None:
        return ("Pod", pod.namespace, pod.name)
    controller = _known(cache, pod.owner, pod.namespace)
    above = _known(cache, controller.owner, pod.namespace) if controller is not None and controller.owner else None
    found = above or controller or pod.owner
    return found.kind, pod.namespace, found.name


def _known(cache: ClusterCache, owner: Owner, namespace: str) -> Workload | None:
    if owner.kind not in WORKLOADS:
        return None  # of a kind that somebody has made up: its name is all that is known
    found: Workload | None = cache.row(owner.kind, (owner.kind, namespace, owner.name))
    return found


_PIECE = 32  # nodes that are summed before others have a turn: with 30 pods each, about 3 ms


class MeasuredSums:
    """Sums by one measurement. `slots` tells where each node's figures stand, `pods_on` which pods count there."""

    def __init__(
        self, measure: PodMeasure, resources: int, slots: Mapping[str, int], pods_on: Callable[[str], Iterable[Pod]]
    ) -> None:
        self.measure = measure
        self._slots = slots
        self._pods_on = pods_on
        self._used: Ints = np.zeros((resources, max(len(slots), 1)), np.int64)
        self.due: set[str] = set(slots)
        """The nodes that have to be summed, again."""

    def used(self) -> Ints:
        """[R, slots]: what is used of each node."""
        for _ in self.pieces():
            pass
        return self._used

    def pieces(self) -> Iterator[int]:
        """Sum what is due, a piece at a time: how many nodes there are left."""
        while self.due:
            for name in list(islice(self.due, _PIECE)):
                self.due.discard(name)
                if (slot := self._slots.get(name)) is not None:  # it may have gone
                    self._reserve(slot)
                    self._used[:, slot] = self._sum(name)
            yield len(self.due)

    def _sum(self, name: str) -> Amounts:
        """The pods of a node, and what it uses besides them: as `planning.load` has it."""
        each = [self.measure.requests(pod) for pod in self._pods_on(name) if not pod.finished]
        pods = tuple(map(sum, zip(*each, strict=True))) if each else (0,) * len(self._used)
        return self.measure.whole(name, pods)

    def _reserve(self, slot: int) -> None:
        while slot >= self._used.shape[1]:
            self._used = np.concatenate([self._used, np.zeros_like(self._used)], axis=1)


PodKey = tuple[str, str]
"""Namespace and name."""
_FIRST = 64  # nodes that there is room for at first
_NO_PODS: frozenset[PodKey] = frozenset()


class NodeStatsTracker:
    """The nodes and what their pods hold, as the cache has told it so far."""

    def __init__(self, cache: ClusterCache, policy: Policy) -> None:
        self._cache = cache
        self._judging = ThresholdRules(policy)
        self._rows = _rows_of(self._judging)
        self._nodes: dict[str, Node] = {}
        self._traits: dict[str, NodeInfo] = {}
        self._pods: dict[PodKey, Pod] = {}
        self._on: dict[str, set[PodKey]] = {}
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._used: Ints = np.zeros((len(self._judging.resources), _FIRST), np.int64)
        self._reckoning: MeasuredSums | None = None
        """By measured use; None where requests count."""
        self._coming: MeasuredSums | None = None
        """The next one, while it is filled."""
        self._summing: tuple[MeasuredSums, ...] = ()
        """Both, as far as there are any: told of each change, so it is no detour."""
        self._order: dict[str, int] | None = None
        self._frame: NodeTable | None = None
        self._standing: NodeStats | None = None
        self.layout = 0
        """Grows when nodes come or go, or stand elsewhere on the map."""
        self.changes = 0
        """Grows with every change of anything that is shown of nodes."""
        self.touched: set[str] = set()
        """Names of nodes about which something has changed; whoever tells others of it clears it."""
        for node in cache.rows("Node"):
            self._node(node.name)
        for pod in cache.rows("Pod"):
            self._pod((pod.namespace, pod.name))
        cache.listen(self._hear)

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)

    @property
    def pods(self) -> int:
        """How many pods there are."""
        return len(self._pods)

    def node(self, name: str) -> Node | None:
        """One node."""
        return self._nodes.get(name)

    def pod(self, key: PodKey) -> Pod | None:
        """One pod."""
        return self._pods.get(key)

    @property
    def utilization(self) -> Utilization:
        """What use is to be reckoned by."""
        return self._judging.policy.utilization

    @property
    def measured(self) -> bool:
        """Whether it is reckoned by anything else than requests."""
        return self._reckoning is not None

    def usage(self, pod: Pod) -> Requests | None:
        """What was measured of a pod, or of its workload, where that counts."""
        return self._reckoning.measure.known(pod) if self._reckoning is not None else None

    def pods_on(self, name: str) -> list[Pod]:
        """The pods that are on a node or nominated to it, those that have ended included."""
        return [self._pods[key] for key in sorted(self._on.get(name, _NO_PODS))]

    def by_place(self) -> Iterator[list[PodKey]]:
        """All pods, in no order, those of a node at a time: what has changed since the last ones may be missed."""
        for place in list(self._on):
            yield list(self._on.get(place, _NO_PODS))

    def names(self) -> list[str]:
        """All nodes, sorted."""
        return list(self._places())

    def indexes(self, names: Iterable[str]) -> list[int]:
        """Where these nodes stand among all; those that are gone stand nowhere."""
        places = self._places()
        return sorted(places[name] for name in names if name in places)

    def stats(self) -> NodeStats:
        """All nodes as they stand now; the same object until something changes."""
        if self._standing is None:
            if self._frame is None:
                traits = {name: self._traits[name] for name in self._places()}
                self._frame = NodeTable.of(traits, [self._slots[name] for name in traits], self._judging)
            used = self._reckoning.used() if self._reckoning is not None else self._used
            self._standing = NodeStats(self._frame, used[:, self._frame.slots])
        return self._standing

    def use_policy(self, policy: Policy) -> None:
        """Judge nodes by another policy from now on. What is measured counts again when it is next measured."""
        if policy == self._judging.policy:
            return
        before, self._judging = self._judging, ThresholdRules(policy)
        if before.resources != self._judging.resources:
            self._rows = _rows_of(self._judging)
            self._used = np.zeros((len(self._judging.resources), self._used.shape[1]), np.int64)
            for pod in self._pods.values():
                self._add(pod, 1)
        if before.resources != self._judging.resources or before.policy.utilization is not policy.utilization:
            self._go_by(None, None)
        self._traits = {name: NodeInfo.of(node, self._judging) for name, node in self._nodes.items()}
        self._frame = self._standing = None
        self.layout += 1
        for name in self._nodes:
            self.touch(name)

    async def use_measured(self, measured: MeasuredUsage | None) -> None:
        """Go by what was measured now; None where nothing is. It is summed in pieces, so that nobody waits for it."""
        coming = None
        if measured is not None and self.utilization is not Utilization.REQUESTS:
            coming = self._reckoned_by(measured)
            self._go_by(self._reckoning, coming)
            for _ in coming.pieces():  # nodes that change meanwhile are due again
                await asyncio.sleep(0)
            if self._coming is not coming:
                return  # the policy has changed meanwhile
        before = self.stats()
        self._go_by(coming, None)
        self._standing = None
        for index in np.flatnonzero((self.stats().used != before.used).any(axis=0)).tolist():
            self.touch(before.frame.names[index])

    def touch(self, name: str) -> None:
        """Note that something about a node has changed."""
        self.changes += 1
        self.touched.add(name)

    def _places(self) -> dict[str, int]:
        if self._order is None:
            self._order = {name: index for index, name in enumerate(sorted(self._nodes))}
        return self._order

    def _hear(self, kind: str, key: PodKey | str, version: str) -> None:
        if kind == "Pod" and not isinstance(key, str):
            self._pod(key)
        elif kind == "Node" and isinstance(key, str):
            self._node(key)

    def _node(self, name: str) -> None:
        known, node = self._nodes.get(name), self._cache.row("Node", name)
        if known == node:
            return  # heartbeats change nothing that is shown
        self._frame = self._standing = None
        self.touch(name)
        traits = self._traits.pop(name, None)
        if node is None:
            del self._nodes[name]
            self._free.append(self._slots.pop(name))
            self._order = None
            self.layout += 1
            return
        self._nodes[name] = node
        self._traits[name] = now = NodeInfo.of(node, self._judging)
        if traits is None or traits.layout != now.layout:
            self.layout += 1
        if known is None:
            self._order = None
            self._slots[name] = slot = self._new_slot()
            self._used[:, slot] = 0
            for key in self._on.get(name, _NO_PODS):
                self._add(self._pods[key], 1)
            for reckoning in self._summing:
                reckoning.due.add(name)

    def _pod(self, key: PodKey) -> None:
        known, pod = self._pods.get(key), self._cache.row("Pod", key)
        if pod is not None:
            self._pods[key] = pod
        elif known is not None:
            del self._pods[key]
        before, after = _place(known), _place(pod)
        if before != after:
            if before is not None:
                self._leave(before, key)
            if after is not None:
                self._on.setdefault(after, set()).add(key)
        elif known is None or pod is None or (known.held == pod.held and known.finished == pod.finished):
            return  # what it holds, and where, is as it was
        if known is not None:
            self._weigh(known, -1)
        if pod is not None:
            self._weigh(pod, 1)

    def _leave(self, place: str, key: PodKey) -> None:
        others = self._on[place]
        others.discard(key)
        if not others:
            del self._on[place]

    def _weigh(self, pod: Pod, sign: int) -> None:
        """Put what a pod holds onto its node, or take it off."""
        if self._add(pod, sign):
            place = pod.node or pod.nominated
            for reckoning in self._summing:
                reckoning.due.add(place)
            self._standing = None
            self.touch(place)

    def _add(self, pod: Pod, sign: int) -> bool:
        """The same, told to nobody; whether it counts on a node at all."""
        slot = self._slots.get(pod.node or pod.nominated)
        if slot is None or pod.finished:
            return False
        used, rows = self._used, self._rows
        for resource, amount in pod.held:
            row = rows.get(resource)
            if row is not None:
                used[row, slot] += sign * min(amount, CAP)
        used[COUNT, slot] += sign
        return True

    def _go_by(self, reckoning: MeasuredSums | None, coming: MeasuredSums | None) -> None:
        self._reckoning, self._coming = reckoning, coming
        self._summing = tuple(each for each in (reckoning, coming) if each is not None)

    def _reckoned_by(self, measured: MeasuredUsage) -> MeasuredSums:
        resources = self._judging.resources
        measure = PodMeasure(measured, self.utilization, resources, self._workload)
        return MeasuredSums(measure, len(resources), self._slots, self._counting_on)

    def _counting_on(self, name: str) -> Iterator[Pod]:
        pods = self._pods
        return (pods[key] for key in self._on.get(name, _NO_PODS))

    def _workload(self, pod: Pod) -> WorkloadKey:
        return workload_key(self._cache, pod)

    def _new_slot(self) -> int:
        if self._free:
            return self._free.pop()
        taken = len(self._slots)
        if taken == self._used.shape[1]:
            self._used = np.concatenate([self._used, np.zeros_like(self._used)], axis=1)
        return taken


def _place(pod: Pod | None) -> str | None:
    """The node on which a pod counts; empty for one that waits for a node."""
    return (pod.node or pod.nominated) if pod is not None else None


def _rows_of(judging: ThresholdRules) -> dict[str, int]:
    """Where what pods ask for is kept; each pod is one pod, whatever it asks."""
    return {name: row for row, name in enumerate(judging.resources) if name != PODS}


_log = structlog.stdlib.get_logger(__name__)
_LOOKS = 1.0  # seconds between looks
_RENEWED = 30.0  # seconds after which it is taken anew even if nothing was measured: what is too old must not stay

Copied = Callable[[], Callable[[], ClusterSnapshot]]


class UsageRefresher:
    """What the loads go by. `copied` copies the cluster; `metering` gives whoever measures, None where nobody does."""

    def __init__(self, loads: NodeStatsTracker, copied: Copied, metering: Callable[[], UsagePoller | None]) -> None:
        self._loads = loads
        self._copied = copied
        self._metering = metering
        self._seen: tuple[UsagePoller | None, float | None] = (None, None)
        self._at = 0.0

    async def run(self) -> None:
        """Look until cancelled. What goes wrong once is tried again."""
        while True:
            await asyncio.sleep(_LOOKS)
            try:
                await self.refresh()
            except Exception:  # noqa: BLE001 - as said
                _log.exception("the page could not take what is measured: a bug of ours")

    async def refresh(self) -> None:
        """Take what is measured, if there is anything new."""
        metering = self._metering()
        seen, now = (metering, metering.last if metering is not None else None), time.monotonic()
        if seen == self._seen and (metering is None or now - self._at < _RENEWED):
            return
        self._seen, self._at = seen, now
        if metering is None or metering.last is None:  # nobody measures, or nobody has answered yet
            await self._loads.use_measured(None)
            return
        copied = self._copied()
        measured = await asyncio.to_thread(lambda: metering.with_usage(copied()).measured)
        await self._loads.use_measured(measured)

    def invalidate(self) -> None:
        """Take it anew at the next look: the operator wants something else by now."""
        self._seen = (None, None)
        self._at = 0.0
