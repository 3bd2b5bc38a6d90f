"""Node statistics for the page: what each node uses, kept up to date pod by pod from the cache.

`NodeStatsTracker` listens to the cache and adds up requests, so that a changed pod costs the same in any cluster.
Measured usage is not additive, so the nodes that changed are summed again when they are next read (`MeasuredSums`).
Thresholds, spread and hot nodes come from `planning.thresholds`; a property test compares the figures with a plan's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
import structlog
from numpy.typing import NDArray

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.structs import WORKLOADS
from rescheduler.model.json import ObjectKey
from rescheduler.model.objects import Node, Owner, Pod, Workload
from rescheduler.model.plan import ClusterLoad
from rescheduler.model.policy import Policy, ThresholdMode, Utilization
from rescheduler.model.shape import Requests
from rescheduler.model.snapshot import ClusterSnapshot, WorkloadKey
from rescheduler.model.usage import MeasuredUsage
from rescheduler.planning.columns import CAP, PODS, Floats, Indexes, Ints, Mask
from rescheduler.planning.load import Amounts, PodMeasure
from rescheduler.planning.thresholds import (
    NodeUse,
    count_hot_by_pool,
    counted_resources,
    describe_other_spreads,
    describe_spread,
    limit_of,
    percent_by_pool,
    pool_number,
)
from rescheduler.runtime.usage_poller import UsagePoller

ZONE = "topology.kubernetes.io/zone"
POOLS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "node.kubernetes.io/pool",
    "node.kubernetes.io/instance-type",
)
"""The first of these labels on a node names its pool: clouds have no common label for it."""
CPU, MEMORY, COUNT = 0, 1, 2
"""Rows of the resources that are always shown; the others follow."""
Numbered = tuple[list[int], list[str]]
"""Texts by their numbers, and the distinct texts that these stand for."""
_log = structlog.stdlib.get_logger(__name__)
_FIRST_SLOTS = 64
_NODES_AT_ONCE = 32  # summed before the event loop runs again: with 30 pods each, about 3 ms
_REFRESH_EVERY = 1.0  # seconds
_REFRESH_ANYWAY = 30.0  # seconds after which usage is taken again even without new samples, so that old ones expire
_NO_PODS: frozenset[ObjectKey] = frozenset()


class NodeFlag(IntEnum):
    """What the map marks on a node. The numbers are bits, and part of the API, which gives their sum."""

    NOT_READY = 1
    CORDONED = 2
    MAINTENANCE = 4
    CONTROL_PLANE = 8
    DELETING = 16
    SOURCE = 32
    TARGET = 64


WORDS = {
    NodeFlag.NOT_READY: "not ready",
    NodeFlag.CORDONED: "cordoned",
    NodeFlag.MAINTENANCE: "maintenance",
    NodeFlag.CONTROL_PLANE: "control plane",
    NodeFlag.DELETING: "being deleted",
    NodeFlag.SOURCE: "source of a move",
    NodeFlag.TARGET: "target of a move",
}


@dataclass(frozen=True)
class ThresholdRules:
    """How nodes are judged: the policy, and the resources that are counted for it."""

    policy: Policy

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """CPU, memory and pods, which are always shown, and whatever else has a threshold."""
        return ("cpu", "memory", PODS, *(name for name in self.counted[2:] if name != PODS))

    @cached_property
    def counted(self) -> tuple[str, ...]:
        """The resources that can make a node hot."""
        return tuple(counted_resources(self.policy))

    @cached_property
    def rows(self) -> list[int]:
        """The rows of `counted` among `resources`."""
        return [self.resources.index(name) for name in self.counted]

    @cached_property
    def request_rows(self) -> dict[str, int]:
        """The row of each resource that is added up from requests; pods are counted instead."""
        return {name: row for row, name in enumerate(self.resources) if name != PODS}

    @property
    def relative(self) -> bool:
        """Whether any threshold is above a mean, which changes with every pod."""
        every = (self.policy.node_thresholds, *(pool.thresholds for pool in self.policy.node_pools))
        return any(each.mode is ThresholdMode.DEVIATION for each in every)


class NodeInfo(NamedTuple):
    """What the map shows of a node besides its usage."""

    capacity: Amounts
    zone: str
    pool: str
    state: int
    """The sum of its flags."""
    pool_number: int
    """Of its pool in the configuration; -1 for none."""
    in_mean: bool
    """Whether the mean of its pool includes it."""

    @classmethod
    def of(cls, node: Node, rules: ThresholdRules) -> NodeInfo:
        """Read it from the node."""
        number = pool_number(rules.policy.node_pools, node.labels)
        pool = rules.policy.node_pools[number].name if number >= 0 else cloud_pool(node)
        allocatable = dict(node.allocatable)
        return cls(
            capacity=tuple([min(allocatable.get(name, 0), CAP) for name in rules.resources]),
            zone=node.labels.get(ZONE, ""),
            pool=pool,
            state=state_of(node),
            pool_number=number,
            in_mean=node.ready and not node.problem and not node.control_plane,
        )

    @property
    def layout(self) -> tuple[str, str, int]:
        """What decides its place on the map: zone, pool, and how many pods it can take."""
        return self.zone, self.pool, self.capacity[COUNT]


def state_of(node: Node) -> int:
    """Add up the flags of the node itself; those of moves are in `MigrationTracker`."""
    flags = (
        (NodeFlag.NOT_READY, not node.ready),
        (NodeFlag.CORDONED, node.unschedulable),
        (NodeFlag.MAINTENANCE, node.maintenance),
        (NodeFlag.CONTROL_PLANE, node.control_plane),
        (NodeFlag.DELETING, node.deleting),
    )
    return sum(flag.value for flag, is_set in flags if is_set)


def cloud_pool(node: Node) -> str:
    """Find the pool by the labels that clouds use; empty if there is none."""
    return next((node.labels[key] for key in POOLS if key in node.labels), "")


@dataclass(frozen=True)
class NodeTable:
    """All nodes by name, and everything about them that does not change with pods."""

    rules: ThresholdRules
    names: tuple[str, ...]
    infos: tuple[NodeInfo, ...]
    slots: NDArray[np.intp]
    """[N]: the column of each node in the tracker's sums."""
    capacity: Ints
    """[R, N]: what is allocatable."""
    workers: Mask
    in_mean: Mask
    pool_number: Indexes
    """[N]: of the pool of the configuration; -1 for none."""
    zone: Numbered
    pool: Numbered

    @classmethod
    def of(cls, nodes: Mapping[str, NodeInfo], slots: list[int], rules: ThresholdRules) -> NodeTable:
        """Build the table from nodes in the order of their names."""
        infos = tuple(nodes.values())
        capacity: Ints = np.array([each.capacity for each in infos], np.int64).reshape(-1, len(rules.resources)).T
        return cls(
            rules,
            tuple(nodes),
            infos,
            np.array(slots, np.intp),
            capacity,
            workers=np.array([not each.state & NodeFlag.CONTROL_PLANE for each in infos], np.bool_),
            in_mean=np.array([each.in_mean for each in infos], np.bool_),
            pool_number=np.array([each.pool_number for each in infos], np.int32),
            zone=_number_texts([each.zone for each in infos]),
            pool=_number_texts([each.pool for each in infos]),
        )

    def thresholds(self, used: Ints) -> Floats:
        """[C, 1 + pools]: per cent above which nodes of no pool, then of each pool, are hot."""
        return self._thresholds(used) if self.rules.relative else self._absolute

    def limit(self, used: Ints) -> Ints:
        """[C, N]: the most that each node may use without being hot."""
        return self._limit(self.thresholds(used)) if self.rules.relative else self._absolute_limit

    @cached_property
    def _absolute(self) -> Floats:
        return self._thresholds(self.capacity)  # absolute thresholds do not depend on usage

    @cached_property
    def _absolute_limit(self) -> Ints:
        return self._limit(self._absolute)

    def _thresholds(self, used: Ints) -> Floats:
        rows = self.rules.rows
        use = NodeUse(self.rules.counted, self.capacity[rows], used[rows], self.in_mean)
        return percent_by_pool(self.rules.policy, self.pool_number, use)

    def _limit(self, thresholds: Floats) -> Ints:
        return limit_of(self.capacity[self.rules.rows], thresholds[:, self.pool_number + 1])


def _number_texts(texts: Sequence[str]) -> Numbered:
    """Number each text among the distinct ones, which are sorted."""
    distinct = sorted(set(texts))
    numbers = {text: number for number, text in enumerate(distinct)}
    return [numbers[text] for text in texts], distinct


@dataclass(frozen=True)
class NodeStats:
    """All nodes and their usage at one moment."""

    table: NodeTable
    used: Ints
    """[R, N]"""

    @cached_property
    def percent(self) -> Floats:
        """[R, N]: usage in per cent of allocatable."""
        found: Floats = self.used * 100.0 / np.maximum(self.table.capacity, 1)
        return found

    @cached_property
    def thresholds(self) -> list[dict[str, float]]:
        """Per cent above which nodes of no pool, then of each pool of the configuration, are hot, by resource."""
        counted = self.table.rules.counted
        return [dict(zip(counted, each, strict=True)) for each in self.table.thresholds(self.used).T.tolist()]

    @cached_property
    def over(self) -> Mask:
        """[C, N]: whether usage is above the threshold."""
        found: Mask = self.used[self.table.rules.rows] > self.table.limit(self.used)
        return found

    @cached_property
    def hot(self) -> Mask:
        """[N]: worker nodes with any resource above its threshold."""
        found: Mask = self.over.any(axis=0) & self.table.workers
        return found

    @cached_property
    def load(self) -> ClusterLoad:
        """The spread over worker nodes, without the list of nodes."""
        table, rules = self.table, self.table.rules
        percent = self.percent[:, table.workers]
        capacity = table.capacity[:, table.workers][rules.rows]
        pools = [pool.name for pool in rules.policy.node_pools]
        return ClusterLoad(
            cpu=describe_spread(percent[CPU]),
            memory=describe_spread(percent[MEMORY]),
            hot_nodes=int(self.hot.sum()),
            loads=(),
            others=describe_other_spreads(rules.counted, percent[rules.rows], capacity),
            hot_nodes_by_pool=count_hot_by_pool(pools, table.pool_number, self.hot),
        )

    def thresholds_of(self, index: int) -> dict[str, float]:
        """Per cent above which this node is hot, by resource."""
        return self.thresholds[self.table.infos[index].pool_number + 1]

    def by_resource(self, figures: Ints | Floats, index: int) -> dict[str, float]:
        """One node's column of [R, N] figures, by resource."""
        return dict(zip(self.table.rules.resources, figures[:, index].tolist(), strict=True))


class MeasuredSums:
    """Measured usage of each node, summed when it is read. Columns are the tracker's slots."""

    def __init__(
        self, measure: PodMeasure, resources: int, slots: Mapping[str, int], pods_on: Callable[[str], Iterable[Pod]]
    ) -> None:
        self.measure = measure
        self._slots = slots
        self._pods_on = pods_on
        self._used: Ints = np.zeros((resources, max(len(slots), 1)), np.int64)
        self.stale: set[str] = set(slots)
        """The nodes that must be summed again."""

    def used(self) -> Ints:
        """[R, slots]: what each node uses."""
        for _ in self.sum_in_steps():
            pass
        return self._used

    def sum_in_steps(self) -> Iterator[None]:
        """Sum what is stale, a few nodes at a step."""
        while self.stale:
            for name in list(islice(self.stale, _NODES_AT_ONCE)):
                self.stale.discard(name)
                if (slot := self._slots.get(name)) is not None:  # the node may be gone
                    while slot >= self._used.shape[1]:
                        self._used = _doubled(self._used)
                    self._used[:, slot] = self._sum(name)
            yield

    def _sum(self, name: str) -> Amounts:
        """Sum the pods of a node and its overhead, as `planning.load` does."""
        each = [self.measure.requests(pod) for pod in self._pods_on(name) if not pod.finished]
        pods = tuple(map(sum, zip(*each, strict=True))) if each else (0,) * len(self._used)
        return self.measure.whole(name, pods)


class NodeStatsTracker:
    """Nodes and what their pods hold, updated with every change of the cache."""

    def __init__(self, cache: ClusterCache, policy: Policy) -> None:
        self._cache = cache
        self._rules = ThresholdRules(policy)
        self._nodes: dict[str, Node] = {}
        self._infos: dict[str, NodeInfo] = {}
        self._pods: dict[ObjectKey, Pod] = {}
        self._on: dict[str, set[ObjectKey]] = {}
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._requested: Ints = np.zeros((len(self._rules.resources), _FIRST_SLOTS), np.int64)
        self._measured: MeasuredSums | None = None
        """None where requests count."""
        self._next: MeasuredSums | None = None
        """The sums of a newer measurement, while they are computed."""
        self._indexes: dict[str, int] | None = None
        self._table: NodeTable | None = None
        self._stats: NodeStats | None = None
        self.layout = 0
        """Grows when nodes come or go, or move on the map."""
        self.changes = 0
        """Grows with every change of anything that is shown of nodes."""
        self.touched: set[str] = set()
        """Names of nodes that have changed; `Broadcaster` clears it."""
        for node in cache.rows("Node"):
            self._update_node(node.name)
        for pod in cache.rows("Pod"):
            self._update_pod((pod.namespace, pod.name))
        cache.listen(self._on_change)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self._nodes)

    @property
    def pods(self) -> int:
        """The number of pods."""
        return len(self._pods)

    def node(self, name: str) -> Node | None:
        """Get a node."""
        return self._nodes.get(name)

    def pod(self, key: ObjectKey) -> Pod | None:
        """Get a pod."""
        return self._pods.get(key)

    @property
    def utilization(self) -> Utilization:
        """The configured source of usage."""
        return self._rules.policy.utilization

    @property
    def measured(self) -> bool:
        """Whether measured usage counts now."""
        return self._measured is not None

    def usage(self, pod: Pod) -> Requests | None:
        """Get the measured usage of a pod, or of its workload, where that counts."""
        return self._measured.measure.find_measured(pod) if self._measured is not None else None

    def pods_on(self, name: str) -> list[Pod]:
        """List the pods on a node or nominated to it, finished ones included."""
        return [self._pods[key] for key in sorted(self._on.get(name, _NO_PODS))]

    def by_place(self) -> Iterator[list[ObjectKey]]:
        """Yield all pods, those of one node at a time. Changes between two steps may be missed."""
        for place in list(self._on):
            yield list(self._on.get(place, _NO_PODS))

    def names(self) -> list[str]:
        """List all nodes, sorted."""
        return list(self._index())

    def indexes(self, names: Iterable[str]) -> list[int]:
        """Find the positions of these nodes among all; nodes that are gone are left out."""
        index = self._index()
        return sorted(index[name] for name in names if name in index)

    def stats(self) -> NodeStats:
        """Get the statistics of all nodes; the same object until something changes."""
        if self._stats is None:
            if self._table is None:
                infos = {name: self._infos[name] for name in self._index()}
                self._table = NodeTable.of(infos, [self._slots[name] for name in infos], self._rules)
            used = self._measured.used() if self._measured is not None else self._requested
            self._stats = NodeStats(self._table, used[:, self._table.slots])
        return self._stats

    def use_policy(self, policy: Policy) -> None:
        """Apply another policy. Measured usage counts again from the next measurement."""
        before = self._rules
        if policy == before.policy:
            return
        self._rules = ThresholdRules(policy)
        if before.resources != self._rules.resources:
            self._requested = np.zeros((len(self._rules.resources), self._requested.shape[1]), np.int64)
            for pod in self._pods.values():
                self._add(pod, 1)
        if before.resources != self._rules.resources or before.policy.utilization is not policy.utilization:
            self._measured = self._next = None
        self._infos = {name: NodeInfo.of(node, self._rules) for name, node in self._nodes.items()}
        self._table = self._stats = None
        self.layout += 1
        for name in self._nodes:
            self.touch(name)

    async def use_measured(self, measured: MeasuredUsage | None) -> None:
        """Apply a measurement, or None for requests. It is summed in steps, so that the event loop is not blocked."""
        sums = None
        if measured is not None and self.utilization is not Utilization.REQUESTS:
            resources = self._rules.resources
            measure = PodMeasure(measured, self.utilization, resources, lambda pod: workload_key(self._cache, pod))
            sums = self._next = MeasuredSums(measure, len(resources), self._slots, self._pods_counted_on)
            for _ in sums.sum_in_steps():  # nodes that change meanwhile become stale again
                await asyncio.sleep(0)
            if self._next is not sums:
                return  # the policy has changed meanwhile
        before = self.stats()
        self._measured, self._next, self._stats = sums, None, None
        for index in np.flatnonzero((self.stats().used != before.used).any(axis=0)).tolist():
            self.touch(before.table.names[index])

    def touch(self, name: str) -> None:
        """Note that something about a node has changed."""
        self.changes += 1
        self.touched.add(name)

    def _index(self) -> dict[str, int]:
        if self._indexes is None:
            self._indexes = {name: index for index, name in enumerate(sorted(self._nodes))}
        return self._indexes

    def _on_change(self, kind: str, key: ObjectKey | str, version: str) -> None:
        if kind == "Pod" and not isinstance(key, str):
            self._update_pod(key)
        elif kind == "Node" and isinstance(key, str):
            self._update_node(key)

    def _update_node(self, name: str) -> None:
        before, node = self._nodes.get(name), self._cache.row("Node", name)
        if before == node:
            return  # heartbeats change nothing that is shown
        self._table = self._stats = None
        self.touch(name)
        info_before = self._infos.pop(name, None)
        if node is None:
            del self._nodes[name]
            self._free.append(self._slots.pop(name))
            self._indexes = None
            self.layout += 1
            return
        self._nodes[name] = node
        self._infos[name] = info = NodeInfo.of(node, self._rules)
        if info_before is None or info_before.layout != info.layout:
            self.layout += 1
        if before is None:
            self._indexes = None
            self._slots[name] = slot = self._new_slot()
            self._requested[:, slot] = 0
            for key in self._on.get(name, _NO_PODS):
                self._add(self._pods[key], 1)
            self._mark_stale(name)

    def _update_pod(self, key: ObjectKey) -> None:
        before, pod = self._pods.get(key), self._cache.row("Pod", key)
        if pod is not None:
            self._pods[key] = pod
        elif before is not None:
            del self._pods[key]
        place_before, place = _place(before), _place(pod)
        if place_before != place:
            if place_before is not None:
                self._on[place_before].discard(key)
                if not self._on[place_before]:
                    del self._on[place_before]
            if place is not None:
                self._on.setdefault(place, set()).add(key)
        elif before is None or pod is None or (before.held == pod.held and before.finished == pod.finished):
            return  # nothing that counts has changed
        for each, sign in ((before, -1), (pod, 1)):
            if each is not None and self._add(each, sign):
                name = each.node or each.nominated
                self._mark_stale(name)
                self._stats = None
                self.touch(name)

    def _mark_stale(self, name: str) -> None:
        for sums in (self._measured, self._next):
            if sums is not None:
                sums.stale.add(name)

    def _add(self, pod: Pod, sign: int) -> bool:
        """Add or subtract what a pod holds; False if it counts on no node."""
        slot = self._slots.get(pod.node or pod.nominated)
        if slot is None or pod.finished:
            return False
        requested, rows = self._requested, self._rules.request_rows
        for resource, amount in pod.held:
            row = rows.get(resource)
            if row is not None:
                requested[row, slot] += sign * min(amount, CAP)
        requested[COUNT, slot] += sign
        return True

    def _pods_counted_on(self, name: str) -> Iterator[Pod]:
        return (self._pods[key] for key in self._on.get(name, _NO_PODS))

    def _new_slot(self) -> int:
        if self._free:
            return self._free.pop()
        if len(self._slots) == self._requested.shape[1]:
            self._requested = _doubled(self._requested)
        return len(self._slots)


def _doubled(sums: Ints) -> Ints:
    return np.concatenate([sums, np.zeros_like(sums)], axis=1)


def _place(pod: Pod | None) -> str | None:
    """The node on which a pod counts; empty for a pod without a node."""
    return (pod.node or pod.nominated) if pod is not None else None


def workload_of(cache: ClusterCache, pod: Pod) -> str:
    """Name the pod's workload, such as `Deployment/web`; empty for a pod without a controller."""
    if pod.owner is None:
        return ""
    kind, _, name = workload_key(cache, pod)
    return f"{kind}/{name}"


def workload_key(cache: ClusterCache, pod: Pod) -> WorkloadKey:
    """Find the pod's workload as `planning.workloads` does in a snapshot; a pod without a controller is its own."""
    if pod.owner is None:
        return ("Pod", pod.namespace, pod.name)
    controller = _owner_row(cache, pod.owner, pod.namespace)
    above = _owner_row(cache, controller.owner, pod.namespace) if controller is not None and controller.owner else None
    found = above or controller or pod.owner
    return found.kind, pod.namespace, found.name


def _owner_row(cache: ClusterCache, owner: Owner, namespace: str) -> Workload | None:
    if owner.kind not in WORKLOADS:
        return None  # a custom kind, of which only the name is known
    found: Workload | None = cache.row(owner.kind, (owner.kind, namespace, owner.name))
    return found


class UsageRefresher:
    """Gives the tracker what the poller measured. `copied` copies the cluster; `poller` gives None without a source."""

    def __init__(
        self,
        tracker: NodeStatsTracker,
        copied: Callable[[], Callable[[], ClusterSnapshot]],
        poller: Callable[[], UsagePoller | None],
    ) -> None:
        self._tracker = tracker
        self._copied = copied
        self._poller = poller
        self._seen: tuple[UsagePoller | None, float | None] = (None, None)
        self._at = 0.0

    async def run(self) -> None:
        """Refresh until cancelled. An error is logged and tried again."""
        while True:
            await asyncio.sleep(_REFRESH_EVERY)
            try:
                await self.refresh()
            except Exception:  # noqa: BLE001 - as said
                _log.exception("refreshing the page's usage failed: internal error")

    async def refresh(self) -> None:
        """Take what was measured, if there is anything new."""
        poller = self._poller()
        seen, now = (poller, poller.last if poller is not None else None), time.monotonic()
        if seen == self._seen and (poller is None or now - self._at < _REFRESH_ANYWAY):
            return
        self._seen, self._at = seen, now
        if poller is None or poller.last is None:  # there is no source, or it has not answered yet
            await self._tracker.use_measured(None)
            return
        copied = self._copied()
        await self._tracker.use_measured(await asyncio.to_thread(lambda: poller.with_usage(copied()).measured))

    def invalidate(self) -> None:
        """Take everything again at the next refresh, because the policy has changed."""
        self._seen = (None, None)
        self._at = 0.0
