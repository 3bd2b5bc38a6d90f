"""Node statistics for the page: what each node uses, kept up to date from the cache.

`NodeStatsTracker` listens to the cache. `NodeSums` adds a changed pod with the measure that planning uses. Measured
usage is not additive, so nodes that changed are summed again when they are next read. Thresholds, spread and hot nodes
come from `planning.thresholds`; a property test compares the figures with a plan's.
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

from rescheduler.decode.cache import ClusterCache
from rescheduler.model.json import ObjectKey
from rescheduler.model.objects import Node, Pod
from rescheduler.model.plan import ClusterLoad
from rescheduler.model.policy import Policy, ThresholdMode, Utilization
from rescheduler.model.shape import Requests
from rescheduler.model.snapshot import MeasuredUsage, WorkloadKey
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
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.reconciler import PeriodicTask
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
        cloud_pool = next((node.labels[key] for key in POOLS if key in node.labels), "")
        flags = (  # of the node itself; those of moves are in `MigrationTracker`
            (NodeFlag.NOT_READY, not node.ready),
            (NodeFlag.CORDONED, node.unschedulable),
            (NodeFlag.MAINTENANCE, node.maintenance),
            (NodeFlag.CONTROL_PLANE, node.control_plane),
            (NodeFlag.DELETING, node.deleting),
        )
        allocatable = dict(node.allocatable)
        return cls(
            capacity=tuple([min(allocatable.get(name, 0), CAP) for name in rules.resources]),
            zone=node.labels.get(ZONE, ""),
            pool=rules.policy.node_pools[number].name if number >= 0 else cloud_pool,
            state=sum(flag.value for flag, is_set in flags if is_set),
            pool_number=number,
            in_mean=node.ready and not node.problem and not node.control_plane,
        )

    @property
    def layout(self) -> tuple[str, str, int]:
        """What decides its place on the map: zone, pool, and how many pods it can take."""
        return self.zone, self.pool, self.capacity[COUNT]


@dataclass(frozen=True)
class NodeTable:
    """All nodes by name, and everything about them that does not change with pods."""

    rules: ThresholdRules
    names: tuple[str, ...]
    infos: tuple[NodeInfo, ...]
    capacity: Ints
    """[R, N]: what is allocatable."""
    workers: Mask
    in_mean: Mask
    pool_number: Indexes
    """[N]: of the pool of the configuration; -1 for none."""
    zone: Numbered
    pool: Numbered

    @classmethod
    def of(cls, nodes: Mapping[str, NodeInfo], rules: ThresholdRules) -> NodeTable:
        """Build the table from nodes in the order of their names."""
        infos = tuple(nodes.values())
        capacity: Ints = np.array([each.capacity for each in infos], np.int64).reshape(-1, len(rules.resources)).T
        return cls(
            rules,
            tuple(nodes),
            infos,
            capacity,
            workers=np.array([not each.state & NodeFlag.CONTROL_PLANE for each in infos], np.bool_),
            in_mean=np.array([each.in_mean for each in infos], np.bool_),
            pool_number=np.array([each.pool_number for each in infos], np.int32),
            zone=_number_texts([each.zone for each in infos]),
            pool=_number_texts([each.pool for each in infos]),
        )

    def percent_by_pool(self, used: Ints) -> Floats:
        """[C, 1 + pools]: per cent above which nodes of no pool, then of each pool, are hot."""
        rows = self.rules.rows
        use = NodeUse(self.rules.counted, self.capacity[rows], used[rows], self.in_mean)
        return percent_by_pool(self.rules.policy, self.pool_number, use)

    def limit(self, percent: Floats) -> Ints:
        """[C, N]: the most that each node may use without being hot."""
        return limit_of(self.capacity[self.rules.rows], percent[:, self.pool_number + 1])

    @cached_property
    def absolute_percent(self) -> Floats:
        """The same where no threshold depends on usage: computed once."""
        return self.percent_by_pool(self.capacity)

    @cached_property
    def absolute_limit(self) -> Ints:
        """The limit of these."""
        return self.limit(self.absolute_percent)


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
        return [dict(zip(counted, each, strict=True)) for each in self._percent_by_pool.T.tolist()]

    @cached_property
    def _percent_by_pool(self) -> Floats:
        """[C, 1 + pools]: the same as an array."""
        return self.table.percent_by_pool(self.used) if self.table.rules.relative else self.table.absolute_percent

    @cached_property
    def over(self) -> Mask:
        """[C, N]: whether usage is above the threshold."""
        table = self.table
        limit = table.limit(self._percent_by_pool) if table.rules.relative else table.absolute_limit
        found: Mask = self.used[table.rules.rows] > limit
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


class NodeSums:
    """What the pods of each node count for."""

    def __init__(self, measure: PodMeasure, resources: int, pods_on: Callable[[str], Iterable[Pod]]) -> None:
        self.measure = measure
        self._pods_on = pods_on
        self._index: Mapping[str, int] = {}
        self.used: Ints = np.zeros((resources, 0), np.int64)
        """[R, N]: what each node used at the last update."""
        self.stale: set[str] = set()
        """The nodes that must be summed again."""

    def update(self, index: Mapping[str, int], most: int | None = None) -> bool:
        """Sum the stale nodes of this index, or so many of them; return whether some are left."""
        if index is not self._index:  # nodes have come or gone
            kept = [name for name in index if name in self._index]
            used: Ints = np.zeros((len(self.used), len(index)), np.int64)
            used[:, [index[name] for name in kept]] = self.used[:, [self._index[name] for name in kept]]
            self.stale = {name for name in index if name in self.stale or name not in self._index}
            self._index, self.used = index, used
        for name in list(islice(self.stale, most)):
            self.stale.discard(name)
            self.used[:, index[name]] = self._sum(name)
        return bool(self.stale)

    def add(self, pod: Pod, name: str, sign: int) -> None:
        """Add or subtract a pod of a node; measured usage is not additive, so then the node is summed again."""
        if self.measure.measured or name not in self._index:
            self.stale.add(name)
        elif name not in self.stale:
            self.used[:, self._index[name]] += sign * np.array(self.measure.held(pod), np.int64)

    def _sum(self, name: str) -> Amounts:
        """Sum the pods of a node and its overhead, as `planning.load` does."""
        count = self.measure.requests if self.measure.measured else self.measure.held
        each = [count(pod) for pod in self._pods_on(name) if not pod.finished]
        pods = tuple(map(sum, zip(*each, strict=True))) if each else (0,) * len(self.used)
        return self.measure.add_overhead(name, pods)


class NodeStatsTracker:
    """Nodes and what their pods hold, updated with every change of the cache."""

    def __init__(self, cache: ClusterCache, policy: Policy) -> None:
        self._cache = cache
        self._rules = ThresholdRules(policy)
        self._infos: dict[str, NodeInfo] = {}
        self._pods: dict[ObjectKey, Pod] = {}
        self._on: dict[str, set[ObjectKey]] = {}
        self._sums = self._make_sums(None)
        self._next: NodeSums | None = None
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
    def utilization(self) -> Utilization:
        """The configured source of usage."""
        return self._rules.policy.utilization

    @property
    def measured(self) -> bool:
        """Whether measured usage counts now."""
        return self._sums.measure.measured

    def usage(self, pod: Pod) -> Requests | None:
        """Get the measured usage of a pod, or of its workload, where that counts."""
        return self._sums.measure.find_measured(pod)

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
                self._table = NodeTable.of({name: self._infos[name] for name in self._index()}, self._rules)
            self._sums.update(self._index())
            self._stats = NodeStats(self._table, self._sums.used.copy())
        return self._stats

    def use_policy(self, policy: Policy) -> None:
        """Apply another policy. Measured usage counts again from the next measurement."""
        before = self._rules
        if policy == before.policy:
            return
        self._rules = ThresholdRules(policy)
        if before.resources != self._rules.resources or before.policy.utilization is not policy.utilization:
            self._sums, self._next = self._make_sums(None), None
        self._infos = {name: NodeInfo.of(self._cache.row("Node", name), self._rules) for name in self._infos}
        self._table = self._stats = None
        self.layout += 1
        for name in self._infos:
            self.touch(name)

    async def use_measured(self, measured: MeasuredUsage | None) -> None:
        """Apply a measurement, or None for requests. It is summed in steps, so that the event loop is not blocked."""
        if measured is None and not self.measured:
            self._next = None
            return
        sums = self._next = self._make_sums(measured)
        # Others get their turn after each step; nodes that change meanwhile become stale again.
        while any(each.update(self._index(), _NODES_AT_ONCE) for each in (sums, self._sums)):  # noqa: ASYNC110 - as said
            await asyncio.sleep(0)
        if self._next is not sums:
            return  # the policy has changed meanwhile
        before = self.stats()
        self._sums, self._next, self._stats = sums, None, None
        for index in np.flatnonzero((self.stats().used != before.used).any(axis=0)).tolist():
            self.touch(before.table.names[index])

    def touch(self, name: str) -> None:
        """Note that something about a node has changed."""
        self.changes += 1
        self.touched.add(name)

    def _make_sums(self, measured: MeasuredUsage | None) -> NodeSums:
        resources = self._rules.resources
        measure = PodMeasure(measured, self.utilization, resources, lambda pod: workload_key(self._cache, pod))
        return NodeSums(measure, len(resources), lambda name: (self._pods[key] for key in self._on.get(name, _NO_PODS)))

    def _index(self) -> dict[str, int]:
        if self._indexes is None:
            self._indexes = {name: index for index, name in enumerate(sorted(self._infos))}
        return self._indexes

    def _on_change(self, kind: str, key: ObjectKey | str, version: str) -> None:
        if kind == "Pod" and not isinstance(key, str):
            self._update_pod(key)
        elif kind == "Node" and isinstance(key, str):
            self._update_node(key)

    def _update_node(self, name: str) -> None:
        node: Node | None = self._cache.row("Node", name)
        before, info = self._infos.pop(name, None), NodeInfo.of(node, self._rules) if node is not None else None
        if info is not None:
            self._infos[name] = info
        if before == info:
            return  # heartbeats change nothing that is shown
        self._table = self._stats = None
        self.touch(name)
        if before is None or info is None:
            self._indexes = None
            for sums in filter(None, (self._sums, self._next)):
                sums.stale.add(name)
        if before is None or info is None or before.layout != info.layout:
            self.layout += 1

    def _update_pod(self, key: ObjectKey) -> None:
        before, pod = self._pods.get(key), self._cache.row("Pod", key)
        if pod is not None:
            self._pods[key] = pod
        elif before is not None:
            del self._pods[key]
        place_before, place = _place_of(before), _place_of(pod)
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
            if each is not None and not each.finished and (name := each.node or each.nominated) in self._infos:
                self._sums.add(each, name, sign)
                if self._next is not None:
                    self._next.stale.add(name)
                self._stats = None
                self.touch(name)


def _place_of(pod: Pod | None) -> str | None:
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
    controller = cache.workload(pod.namespace, pod.owner)
    above = cache.workload(pod.namespace, controller.owner) if controller is not None else None
    found = above or controller or pod.owner
    return found.kind, pod.namespace, found.name


class UsageRefresher:
    """Gives the tracker what the poller measured. `poller` gives None without a source."""

    def __init__(
        self, tracker: NodeStatsTracker, informers: Informers, poller: Callable[[], UsagePoller | None]
    ) -> None:
        self._tracker = tracker
        self._informers = informers
        self._poller = poller
        self._seen: tuple[UsagePoller | None, float | None] = (None, None)
        self._at = 0.0

    async def run(self) -> None:
        """Refresh until cancelled."""
        await PeriodicTask("refresh the page's usage", _REFRESH_EVERY, self.refresh).run()

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
        snapshot = self._informers.cache.capture(self._informers.now())
        await self._tracker.use_measured(await asyncio.to_thread(lambda: poller.with_usage(snapshot()).measured))

    def invalidate(self) -> None:
        """Take everything again at the next refresh, because the policy has changed."""
        self._seen = (None, None)
        self._at = 0.0
