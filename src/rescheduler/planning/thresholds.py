"""Thresholds, node by node: each node has those of its pool, and a deviation is from the mean of its pool.

The mean is the pool's total use divided by its total capacity. Unlike the mean of percentages it does not change when a
pod moves from a small node to a large one, so plans do not chase a goal that they move themselves. `NodeThresholds` has
them for a plan; the page's node statistics use the same functions. This module also describes the utilisation of all
nodes, and counts for how many cycles nodes have been hot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rescheduler.model.plan import ClusterLoad, LoadDistribution, NodeLoad
from rescheduler.model.policy import NodePool, Policy, ThresholdMode, Thresholds
from rescheduler.model.selector import Labels
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import PODS, Columns, Floats, Indexes, Ints, Mask
from rescheduler.planning.load import Load

_NEVER = 100.0  # per cent; for resources without a threshold in this pool


def counted_resources(policy: Policy) -> list[str]:
    """List the resources that count: CPU, memory, and all others with a threshold."""
    named = [name for each in _all(policy) for name, _ in each.others]
    return ["cpu", "memory", *sorted(set(named) - {"cpu", "memory"})]


def _all(policy: Policy) -> list[Thresholds]:
    return [policy.node_thresholds, *(pool.thresholds for pool in policy.node_pools)]


def pool_number(pools: Sequence[NodePool], labels: Labels) -> int:
    """Find the first pool that selects a node with these labels; -1 for none."""
    return next((number for number, pool in enumerate(pools) if pool.nodes.matches(labels)), -1)


@dataclass(frozen=True, slots=True)
class NodeUse:
    """Capacity and use of nodes by resource, and the nodes that count for the mean."""

    names: Sequence[str]
    capacity: Ints
    used: Ints
    counting: Mask


def percent_by_pool(policy: Policy, pool: Indexes, use: NodeUse) -> Floats:
    """[R, 1 + pools]: per cent of allocatable above which nodes are hot: outside of pools first, then by pool.

    `pool` has the number of each node's pool.
    """
    found = [_of_pool(thresholds, pool == number, use) for number, thresholds in enumerate(_all(policy), start=-1)]
    return np.array(found).T


def _of_pool(thresholds: Thresholds, here: Mask, use: NodeUse) -> Floats:
    """[R]: the thresholds of one pool."""
    named = thresholds.named()
    found: Floats = np.array([named.get(name, _NEVER) for name in use.names])
    if thresholds.mode is ThresholdMode.ABSOLUTE:
        return found
    for row, name in enumerate(use.names):
        if name in named and (mean := _mean(use, row, here)) is not None:
            found[row] = min(mean + named[name], 100.0)
    return found


def _mean(use: NodeUse, row: int, here: Mask) -> float | None:
    """Compute the total use of these nodes in per cent of their total capacity; None if no node counts."""
    counting = here & use.counting & (use.capacity[row] > 0)
    if not counting.any():
        return None
    return float(use.used[row, counting].sum() * 100.0 / use.capacity[row, counting].sum())


def limit_of(capacity: Ints, percent: Floats) -> Ints:
    """[R, N]: the most that keeps a node from being hot."""
    limit: Ints = np.floor(capacity * percent / 100.0).astype(np.int64)
    return limit


class NodeThresholds:
    """The thresholds of each node, in per cent and as amounts."""

    def __init__(self, columns: Columns, policy: Policy, load: Load) -> None:
        self._columns = columns
        self._policy = policy
        self.load = load

    @cached_property
    def pool(self) -> Indexes:
        """[N]: the number of each node's pool; -1 for nodes of none."""
        pools = self._policy.node_pools
        return np.array([pool_number(pools, node.labels) for node in self._columns.nodes], np.int32)

    @property
    def pools(self) -> list[str]:
        """Names of the pools, by number."""
        return [pool.name for pool in self._policy.node_pools]

    def within(self, name: str | None) -> Mask:
        """[N]: the nodes of a pool; nodes outside of pools for an empty name; all nodes for None."""
        if name is None:
            return np.ones(len(self._columns.nodes), np.bool_)
        numbers = {pool.name: number for number, pool in enumerate(self._policy.node_pools)}
        found: Mask = self.pool == numbers.get(name, -1)
        return found

    @cached_property
    def percent(self) -> Floats:
        """[R, N]: per cent of allocatable above which a node is hot."""
        found: Floats = percent_by_pool(self._policy, self.pool, self._use)[:, self.pool + 1]
        return found

    @cached_property
    def _use(self) -> NodeUse:
        return NodeUse(self.load.names, self.load.capacity, self.load.first, self.workers)

    @cached_property
    def workers(self) -> Mask:
        """[N]: Ready nodes without the control plane."""
        nodes = self._columns.nodes
        return np.array([n.ready and not n.problem and not n.control_plane for n in nodes], np.bool_)

    def low(self, pool: str | None, named: Mapping[str, float]) -> Ints:
        """[R, N]: the most that leaves a node underused, by the low thresholds of a strategy of this pool.

        Where that pool's thresholds are a deviation, low ones are points below the mean of each node's own pool.
        """
        capacity = self.load.capacity
        of_pool = next(
            (each.thresholds for each in self._policy.node_pools if each.name == pool), self._policy.node_thresholds
        )
        limit: Ints = np.full(capacity.shape, np.iinfo(np.int64).max)
        for row, name in enumerate(self.load.names):
            if name not in named:
                continue
            percent: Floats = np.full(len(self._columns.nodes), named[name])
            if of_pool.mode is ThresholdMode.DEVIATION:
                for number in np.unique(self.pool):
                    here = self.pool == number
                    percent[here] = max((_mean(self._use, row, here) or 0.0) - named[name], 0.0)
            limit[row] = limit_of(capacity[row], percent)
        return limit

    @cached_property
    def hot_after(self) -> Indexes:
        """[N]: for how many cycles in a row a node must be over its limit to count as hot."""
        found = [self._policy.hot_after_cycles, *(pool.hot_after for pool in self._policy.node_pools)]
        cycles: Indexes = np.array(found, np.int32)[self.pool + 1]
        return cycles

    @cached_property
    def hot_long_enough(self) -> Mask:
        """[N]: nodes that count as hot if they are hot now; all of them if earlier cycles are unknown."""
        before, nodes = self._columns.snapshot.hot_for, self._columns.nodes
        if before is None:
            return np.ones(len(nodes), np.bool_)
        found: Mask = np.array([before.get(node.name, 0) + 1 for node in nodes], np.int32) >= self.hot_after
        return found

    @cached_property
    def limit(self) -> Ints:
        """[R, N]: the most that keeps a node from being hot."""
        return limit_of(self.load.capacity, self.percent)


class HotStreaks:
    """Counts for how many cycles in a row nodes have been hot."""

    def __init__(self) -> None:
        self._cycles: Mapping[str, int] = {}

    def with_streaks(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """Return the snapshot with the counts so far."""
        return replace(snapshot, hot_for=self._cycles)

    def count(self, hot: Iterable[str]) -> None:
        """Count one more cycle in which these nodes were hot; the others start from zero."""
        self._cycles = {name: self._cycles.get(name, 0) + 1 for name in hot}


_FIRST = 2  # CPU and memory come first; every node has them


def make_picture(columns: Columns, levels: NodeThresholds, used: Ints, held: Ints) -> ClusterLoad:
    """The utilisation of the worker nodes under these amounts: of what counts, and of all that pods hold."""
    workers = [i for i, node in enumerate(columns.nodes) if not node.control_plane]
    capacity = levels.load.capacity[:, workers]
    percent = used[:, workers] * 100.0 / np.maximum(capacity, 1)
    over = used[:, workers] > levels.limit[:, workers]
    hot: Mask = np.asarray(over.any(axis=0))
    pool, names, pools = levels.pool[workers], levels.load.names, levels.pools
    cpu, memory = ([round(share, 2) for share in row.tolist()] for row in percent[:_FIRST])
    pods = held[columns.resource_index[PODS], workers].tolist()
    return ClusterLoad(
        cpu=describe_spread(percent[0]),
        memory=describe_spread(percent[1]),
        hot_nodes=int(hot.sum()),
        loads=tuple(
            NodeLoad(
                columns.nodes[i].name,
                cpu[at],
                memory[at],
                pods[at],
                resources_over(names, over[:, at]) if is_hot else (),
                pools[number] if number >= 0 else "",
                other_percents(percent[:, at], capacity[:, at]),
            )
            for at, (i, is_hot, number) in enumerate(zip(workers, hot.tolist(), pool.tolist(), strict=True))
        ),
        others=describe_other_spreads(names, percent, capacity),
        hot_nodes_by_pool=count_hot_by_pool(pools, pool, hot),
    )


def describe_spread(percent: Floats) -> LoadDistribution:
    """Describe the distribution of these nodes' utilisation."""
    if not len(percent):
        return LoadDistribution(0.0, 0.0, 0.0, 0.0)
    found = (percent.max(), percent.min(), percent.mean(), percent.std())
    return LoadDistribution(*(round(float(number), 2) for number in found))


def describe_other_spreads(names: Sequence[str], percent: Floats, capacity: Ints) -> dict[str, LoadDistribution]:
    """Describe each resource but CPU and memory, over the nodes that have any of it."""
    rows = enumerate(names)
    return {name: describe_spread(percent[row, capacity[row] > 0]) for row, name in rows if row >= _FIRST}


def count_hot_by_pool(pools: Sequence[str], pool: Indexes, hot: Mask) -> dict[str, int]:
    """Count the hot nodes of each pool."""
    return {name: int((hot & (pool == number)).sum()) for number, name in enumerate(pools)}


def resources_over(names: Sequence[str], over: Mask) -> tuple[str, ...]:
    """Name the resources of one node that are over their threshold."""
    return tuple(name for name, is_over in zip(names, over.tolist(), strict=True) if is_over)


def other_percents(percent: Floats, capacity: Ints) -> tuple[float | None, ...]:
    """Compute one node's use of each resource but CPU and memory; None if it has none of it."""
    if len(percent) == _FIRST:
        return ()
    found = zip(percent[_FIRST:].tolist(), capacity[_FIRST:].tolist(), strict=True)
    return tuple(round(share, 2) if room > 0 else None for share, room in found)
