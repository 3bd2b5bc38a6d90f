"""What the heat map tells of a node besides its use: its state, and the zone and pool that it is grouped by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rescheduler.model.objects import Node
from rescheduler.model.plan import LoadDistribution
from rescheduler.model.policy import Policy, ThresholdMode
from rescheduler.planning.columns import CAP, PODS, Floats, Indexes, Ints, Mask
from rescheduler.planning.thresholds import (
    NodeUse,
    count_hot_by_pool,
    counted_resources,
    describe_other_spreads,
    describe_spread,
    limit_of,
    percent_by_pool,
    pool_number,
    resources_over,
)

ZONE = "topology.kubernetes.io/zone"
POOLS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "node.kubernetes.io/pool",
    "node.kubernetes.io/instance-type",
)
"""The first of these that a node has names its pool: clouds have no common label for it."""


class NodeFlag(IntEnum):
    """What the map marks. The numbers are bits, and part of the API; several make a plain number, their sum."""

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


def state_of(node: Node) -> int:
    """What the node itself says; which moves touch it, others know."""
    said = (
        (NodeFlag.NOT_READY, not node.ready),
        (NodeFlag.CORDONED, node.unschedulable),
        (NodeFlag.MAINTENANCE, node.maintenance),
        (NodeFlag.CONTROL_PLANE, node.control_plane),
        (NodeFlag.DELETING, node.deleting),
    )
    return sum(state.value for state, holds in said if holds)


def zone_of(node: Node) -> str:
    """The zone; empty where the node tells none."""
    return node.labels.get(ZONE, "")


def pool_of(node: Node) -> str:
    """The pool; empty where the node tells none."""
    return next((node.labels[key] for key in POOLS if key in node.labels), "")


Amounts = tuple[int, ...]
"""One number a resource: thousandths of CPU, bytes of memory, pods, then the others that count."""
CPU, MEMORY, COUNT = 0, 1, 2


Numbered = tuple[list[int], list[str]]
"""Texts by their numbers, and the distinct ones that these stand for."""


@dataclass(frozen=True)
class ThresholdRules:
    """By what nodes are judged: the policy, and the resources whose use is kept."""

    policy: Policy

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """CPU, memory and pods, which are always shown, and what else has a threshold."""
        return ("cpu", "memory", PODS, *(name for name in self.counted[2:] if name != PODS))

    @cached_property
    def counted(self) -> tuple[str, ...]:
        """The resources that can make a node hot."""
        return tuple(counted_resources(self.policy))

    @cached_property
    def rows(self) -> list[int]:
        """Where those are among `resources`."""
        return [self.resources.index(name) for name in self.counted]

    @property
    def relative(self) -> bool:
        """Whether thresholds are above a mean, which changes with every pod."""
        every = (self.policy.node_thresholds, *(pool.thresholds for pool in self.policy.node_pools))
        return any(each.mode is ThresholdMode.DEVIATION for each in every)


@dataclass(frozen=True, slots=True)
class NodeSpread:
    """How evenly the nodes are used."""

    cpu: LoadDistribution
    memory: LoadDistribution
    hot_nodes: int
    others: tuple[tuple[str, LoadDistribution], ...] = ()
    pools: tuple[tuple[str, int], ...] = ()
    """Hot nodes of each pool of the configuration."""


class NodeInfo(NamedTuple):
    """What the map shows of a node besides its use."""

    capacity: Amounts
    zone: str
    pool: str
    state: int
    number: int
    """Of its pool in the configuration; -1 for none."""
    counting: bool
    """Whether the mean of its pool is taken of it, too."""

    @classmethod
    def of(cls, node: Node, judging: ThresholdRules) -> NodeInfo:
        """As its row tells it."""
        number = pool_number(judging.policy.node_pools, node.labels)
        pool = judging.policy.node_pools[number].name if number >= 0 else pool_of(node)
        counting = node.ready and not node.problem and not node.control_plane
        return cls(capacity_of(node, judging.resources), zone_of(node), pool, state_of(node), number, counting)

    @property
    def layout(self) -> tuple[str, str, int]:
        """Where it stands on the map, and how many pods it can take."""
        return self.zone, self.pool, self.capacity[COUNT]


@dataclass(frozen=True)
class NodeTable:
    """All nodes in the order of their names, and what does not change when pods do."""

    judging: ThresholdRules
    names: tuple[str, ...]
    traits: tuple[NodeInfo, ...]
    slots: NDArray[np.intp]
    capacity: Ints
    """[R, N]: what is allocatable."""
    workers: Mask
    counting: Mask
    number: Indexes
    """[N]: of the pool of the configuration; -1 for none."""
    zone: Numbered
    pool: Numbered

    @classmethod
    def of(cls, nodes: Mapping[str, NodeInfo], slots: list[int], judging: ThresholdRules) -> NodeTable:
        """These nodes; `slots` tells where their figures are kept."""
        traits = tuple(nodes.values())
        capacity: Ints = np.array([each.capacity for each in traits], np.int64).reshape(-1, len(judging.resources)).T
        return cls(
            judging,
            tuple(nodes),
            traits,
            np.array(slots, np.intp),
            capacity,
            workers=np.array([not each.state & NodeFlag.CONTROL_PLANE for each in traits], np.bool_),
            counting=np.array([each.counting for each in traits], np.bool_),
            number=np.array([each.number for each in traits], np.int32),
            zone=numbered([each.zone for each in traits]),
            pool=numbered([each.pool for each in traits]),
        )

    def rules(self, used: Ints) -> Floats:
        """[C, 1 + pools]: per cent above which nodes of no pool, then of each, are hot, of what can make them so."""
        return self._rules(used) if self.judging.relative else self._absolute

    def limit(self, used: Ints) -> Ints:
        """[C, N]: what keeps each node from being hot, at the most."""
        return self._limit(self.rules(used)) if self.judging.relative else self._most

    @cached_property
    def _absolute(self) -> Floats:
        return self._rules(self.capacity)  # what is used makes no difference

    @cached_property
    def _most(self) -> Ints:
        return self._limit(self._absolute)

    def _rules(self, used: Ints) -> Floats:
        rows = self.judging.rows
        use = NodeUse(self.judging.counted, self.capacity[rows], used[rows], self.counting)
        return percent_by_pool(self.judging.policy, self.number, use)

    def _limit(self, rules: Floats) -> Ints:
        return limit_of(self.capacity[self.judging.rows], rules[:, self.number + 1])


@dataclass(frozen=True)
class NodeStats:
    """All nodes at one moment."""

    frame: NodeTable
    used: Ints
    """[R, N]"""

    @cached_property
    def percent(self) -> Floats:
        """[R, N]: in per cent of allocatable."""
        found: Floats = self.used * 100.0 / np.maximum(self.frame.capacity, 1)
        return found

    @cached_property
    def rules(self) -> list[dict[str, float]]:
        """Per cent above which nodes of no pool, then of each pool of the configuration, are hot, by resource."""
        judging = self.frame.judging
        return [dict(zip(judging.counted, each, strict=True)) for each in self.frame.rules(self.used).T.tolist()]

    @cached_property
    def over(self) -> Mask:
        """[C, N]: what is used more than that."""
        found: Mask = self.used[self.frame.judging.rows] > self.frame.limit(self.used)
        return found

    @cached_property
    def hot(self) -> Mask:
        """[N]: the nodes, but for the control plane's, of which any is."""
        found: Mask = self.over.any(axis=0) & self.frame.workers
        return found

    @cached_property
    def spread(self) -> NodeSpread:
        """Over the nodes that are not the control plane's."""
        frame, judging = self.frame, self.frame.judging
        workers = frame.workers
        percent = self.percent[:, workers]
        capacity = frame.capacity[:, workers][judging.rows]
        return NodeSpread(
            describe_spread(percent[CPU]),
            describe_spread(percent[MEMORY]),
            int(self.hot.sum()),
            describe_other_spreads(judging.counted, percent[judging.rows], capacity),
            count_hot_by_pool([pool.name for pool in judging.policy.node_pools], frame.number, self.hot),
        )

    def at(self, index: int) -> SingleNodeStats:
        """One node of them."""
        judging = self.frame.judging
        return SingleNodeStats(
            used=dict(zip(judging.resources, self.used[:, index].tolist(), strict=True)),
            capacity=dict(zip(judging.resources, self.frame.capacity[:, index].tolist(), strict=True)),
            percent=dict(zip(judging.resources, self.percent[:, index].tolist(), strict=True)),
            thresholds=self.rules[self.frame.traits[index].number + 1],
            over=resources_over(judging.counted, self.over[:, index]) if self.hot[index] else (),
        )


@dataclass(frozen=True, slots=True)
class SingleNodeStats:
    """One node at one moment, by resource."""

    used: Mapping[str, int]
    capacity: Mapping[str, int]
    percent: Mapping[str, float]
    thresholds: Mapping[str, float]
    """Per cent, of the resources that can make it hot."""
    over: tuple[str, ...]
    """Those that do."""


def numbered(texts: Sequence[str]) -> Numbered:
    """Each text by its number among the distinct ones, which are sorted."""
    distinct = sorted(set(texts))
    numbers = {text: number for number, text in enumerate(distinct)}
    return [numbers[text] for text in texts], distinct


def capacity_of(node: Node, resources: Sequence[str]) -> Amounts:
    """What is allocatable."""
    listed = dict(node.allocatable)
    return tuple([min(listed.get(name, 0), CAP) for name in resources])
