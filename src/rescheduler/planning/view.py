"""Which pods are on a node because they were placed there, and not because they belong to it.

DaemonSet and static pods come and go with their node: a node that bears nothing else is vacant, and an autoscaler takes
it away. The view makes one when a strategy asks for it; it follows the what-if from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rescheduler.model.objects import Node, Pod
from rescheduler.model.plan import Method
from rescheduler.model.selector import Labels
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import Columns, Floats, Indexes, Ints, Mask
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.load import Load
from rescheduler.planning.thresholds import NodeThresholds
from rescheduler.planning.whatif import WhatIf
from rescheduler.planning.workloads import Workloads

_OF_THEIR_NODE = ("DaemonSet", "Node")


class Residents:
    """Counts of the pods that were placed, by node; a listener of the what-if."""

    def __init__(self, whatif: WhatIf) -> None:
        self._whatif = whatif
        pods = whatif.columns.pods
        self.placed: Mask = ~np.fromiter((_belongs(pod) for pod in pods), np.bool_, len(pods))
        """[P]: pods that do not belong to their node."""
        self.first: Ints = self._counted(whatif.columns.pod_at)
        """[N]: how many there were before any move."""
        self.counts: Ints = self._counted(whatif.at)
        """[N]: how many pods would have to go for the node to be vacant."""
        whatif.add_listener(self)

    def _counted(self, at: Indexes) -> Ints:
        here = at[self.placed & (at >= 0)]
        return np.bincount(here, minlength=len(self._whatif.columns.nodes)).astype(np.int64)

    def changed(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        if self.placed[pod]:
            self.counts[node] += delta

    def on(self, node: int) -> list[int]:
        """The pods that would have to go."""
        return [pod for pod in self._whatif.pods_on(node) if self.placed[pod]]


def _belongs(pod: Pod) -> bool:
    """Whether the pod's place is its node, whatever happens."""
    of_its_node = pod.owner is not None and pod.owner[0] in _OF_THEIR_NODE
    return of_its_node or (bool(pod.annotations) and pod.static)


_Key = tuple[str, str, str]
"""Namespace, label, value."""


class PodGroups:
    """Looks up the groups of pods."""

    def __init__(self, columns: Columns, labels: Sequence[str]) -> None:
        self._columns = columns
        self._labels = labels

    def name(self, pod: int) -> str:
        """What the pod's group is called; empty when it is in none."""
        key = self._by_group[self._columns.pod_group[pod]] if self._grouped else None
        return key[2] if key is not None else ""

    def members(self, pod: int) -> tuple[int, ...]:
        """The pods of the pod's group that are on nodes, itself among them; none when it is in no group.

        One that is still expected on a node, or has ended, has no place to be moved from: it neither moves nor holds.
        """
        key = self._by_group[self._columns.pod_group[pod]] if self._grouped else None
        return self._members.get(key, ()) if key is not None else ()

    @cached_property
    def _grouped(self) -> bool:
        return any(key is not None for key in self._by_group)

    @cached_property
    def _by_group(self) -> list[_Key | None]:
        return [self._key(namespace, labels) for namespace, labels in self._columns.groups]

    def _key(self, namespace: str, labels: Labels) -> _Key | None:
        return next(((namespace, label, labels[label]) for label in self._labels if labels.get(label)), None)

    @cached_property
    def _members(self) -> dict[_Key, tuple[int, ...]]:
        found: dict[_Key, list[int]] = {}
        for group, key in enumerate(self._by_group):
            if key is not None:
                pods: list[int] = self._columns.pods_of_group(group).tolist()
                found.setdefault(key, []).extend(pod for pod in pods if self._is_placed(pod))
        return {key: tuple(sorted(pods)) for key, pods in found.items()}

    def _is_placed(self, pod: int) -> bool:
        return bool(self._columns.pod_at[pod] >= 0) and bool(self._columns.pods[pod].node)


CPU, MEMORY = 0, 1


class PlannerQueries(Protocol):
    """Who decides: the planner."""

    def method(self, pod: int) -> Method:
        """How the pod would be moved."""

    def objection(self, pod: int) -> tuple[str, str] | None:
        """Which guard or budget objects to moving the pod, and why; None when none does."""

    def feasible_targets(self, pod: int) -> Mask:
        """[N]: where the pod could be moved now, within thresholds and limits."""

    def accepted_by_others(self, pod: int, besides: str = "") -> Mask | None:
        """[N]: where no other strategy would want the pod away again, `besides` left out; None for anywhere."""

    def cost(self, pod: int) -> Floats:
        """[N]: how targets rank where a strategy leaves it open; lower is better."""

    @property
    def moves_left(self) -> int | None:
        """How many moves the plan may still make; None without a limit."""


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """What views stand on: one for a whole plan."""

    feasibility: Feasibility
    load: Load
    levels: NodeThresholds
    workloads: Workloads
    groups: PodGroups
    judge: PlannerQueries
    ripe: Mask
    """[N]: nodes that have been hot for long enough, if they are hot now."""
    moved: set[int]


class View:
    """Read-only; follows the what-if."""

    def __init__(self, ground: PlanningContext, scope: Mask) -> None:
        self._ground = ground
        self.scope = scope
        """[N]: the nodes that the strategy is responsible for; it proposes pods that stand on these."""
        self.feasibility: Feasibility = ground.feasibility
        self.whatif: WhatIf = ground.feasibility.whatif
        """Strategies that look ahead may change it within `with view.whatif.trial()`, and yield nothing in there."""
        self.columns: Columns = self.whatif.columns
        self.workloads: Workloads = ground.workloads
        self.groups: PodGroups = ground.groups
        self.node_mask: Callable[[int], Mask] = ground.feasibility.node_mask
        """[N] for a pod: where the nodes' own rules (taints, labels, readiness) let it be; room is another matter."""
        self.moved: set[int] = ground.moved
        """Pods that the plan moves already: they are not moved again."""
        self.nodes: tuple[Node, ...] = self.columns.nodes
        self.pods: Sequence[Pod] = self.columns.pods
        self.resources: list[str] = ground.load.labels
        """[R]: the resources that count, as people call them: CPU, memory, then those with a threshold of their own."""
        self.names: list[str] = ground.load.names
        """[R]: the same, as Kubernetes calls them."""
        self.levels: NodeThresholds = ground.levels
        """What thresholds are reckoned from."""
        self.first: Ints = ground.load.first
        """[R, N]: what was used before any move."""
        self.thresholds: Floats = ground.levels.percent
        """[R, N]: per cent above which a node is hot."""
        self.capacity: Ints = ground.load.capacity
        """[R, N]: allocatable CPU (thousandths), memory (bytes) and so on."""
        self.limit: Ints = ground.levels.limit
        """[R, N]: the most that keeps a node from being hot."""
        self._inverse: Floats = 100.0 / np.maximum(self.capacity, 1)
        self.workers: Mask = scope & np.array(
            [n.ready and not n.problem and not n.control_plane for n in self.nodes], np.bool_
        )
        """[N]: nodes in scope that run, the control plane's aside."""
        self.open: Mask = self.workers & np.array(
            [not (node.unschedulable or node.maintenance or node.deleting) for node in self.nodes], np.bool_
        )
        """[N]: nodes in scope that pods may be moved to, as far as the node itself goes."""

    @property
    def snapshot(self) -> ClusterSnapshot:
        """What the plan is made of."""
        return self.columns.snapshot

    @property
    def now(self) -> float | None:
        """When the snapshot was taken, where that is known."""
        return self.columns.snapshot.taken_at

    @property
    def at(self) -> Indexes:
        """[P]: the node of each pod; -1 for none."""
        return self.whatif.at

    def pods_in_scope(self) -> list[int]:
        """The pods on nodes in scope that are not moved yet, in the snapshot's order."""
        at = self.whatif.at
        found: list[int] = np.flatnonzero((at >= 0) & self.scope[at]).tolist()
        return [pod for pod in found if pod not in self.moved] if self.moved else found

    @property
    def used(self) -> Ints:
        """[R, N]: what is used, by pending pods too that are expected on a node: what others may not take."""
        return self._ground.load.used

    @property
    def utilisation(self) -> Floats:
        """[R, N]: per cent of allocatable. A node without capacity is full as soon as anything is on it.

        Pods that are only expected do not count here: as long as they have not come, there is nothing to put right.
        """
        found: Floats = self._ground.load.present * self._inverse
        return found

    @property
    def utilisation_ahead(self) -> Floats:
        """[R, N]: the same, with pods that are only expected: what a target would be at if they come."""
        found: Floats = self._ground.load.used * self._inverse
        return found

    def utilisation_of(self, node: int) -> Floats:
        """[R]: of one node."""
        found: Floats = self._ground.load.present_of(node) * self._inverse[:, node]
        return found

    def within(self, limit: Ints) -> Mask:
        """[N]: nodes that use no more than this [R, N] of any resource."""
        found: Mask = np.asarray((self._ground.load.present <= limit).all(axis=0))
        return found

    @property
    def hot(self) -> Mask:
        """[N]: nodes in scope that are over a threshold, and have been for as long as the operator wants."""
        found: Mask = (self._ground.load.present > self.limit).any(axis=0) & self.workers & self._ground.ripe
        return found

    @cached_property
    def has(self) -> Mask:
        """[R, N]: nodes that have any of a resource; CPU and memory every node has."""
        found: Mask = self.capacity > 0
        found[: MEMORY + 1] = True
        return found

    def requests(self, pod: int) -> Ints:
        """[R]: what a pod would count for on another node."""
        return self._ground.load.requests(pod)

    def relief(self, pod: int, node: int) -> Floats:
        """[R]: what a pod that leaves a node gives back of it, in per cent."""
        found: Floats = self.held([pod])[0] * self._inverse[:, node]
        return found

    def share(self, pod: int, node: int) -> Floats:
        """[R]: what a pod would take of a node, in per cent."""
        found: Floats = self.requests(pod) * self._inverse[:, node]
        return found

    def shares(self, pod: int, nodes: NDArray[np.intp] | None = None) -> Floats:
        """[R, n]: the same of several nodes, or of all."""
        inverse = self._inverse if nodes is None else self._inverse[:, nodes]
        found: Floats = self.requests(pod)[:, None] * inverse
        return found

    def excess(self, node: int) -> Ints:
        """[R]: what is used above what keeps a node from being hot; negative when it isn't."""
        found: Ints = self._ground.load.present_of(node) - self.limit[:, node]
        return found

    def pods_on(self, node: int) -> list[int]:
        """The pods on a node."""
        return self.whatif.pods_on(node)

    def held(self, pods: list[int]) -> Ints:
        """[n, R]: what each of these pods gives back when it leaves."""
        return self._ground.load.held(pods)

    def method(self, pod: int) -> Method:
        """How the pod would be moved."""
        return self._ground.judge.method(pod)

    def objection(self, pod: int) -> tuple[str, str] | None:
        """Which guard or budget objects to moving the pod, and why; None when none does."""
        return self._ground.judge.objection(pod)

    def feasible_targets(self, pod: int) -> Mask:
        """[N]: where the pod could be moved now, within thresholds and limits."""
        return self._ground.judge.feasible_targets(pod)

    def accepted_by_others(self, pod: int, besides: str = "") -> Mask | None:
        """[N]: where no other strategy would want the pod away again; None for anywhere.

        The strategy that is asked now has no say, nor the one named `besides`.
        """
        return self._ground.judge.accepted_by_others(pod, besides)

    def cost(self, pod: int) -> Floats:
        """[N]: how targets rank where a strategy leaves it open; lower is better. Not to be changed: copy it."""
        return self._ground.judge.cost(pod)

    @property
    def moves_left(self) -> int | None:
        """How many moves the plan may still make; None without a limit."""
        return self._ground.judge.moves_left

    @property
    def vacant(self) -> Mask:
        """[N]: nodes that bear nothing but pods that belong to their node (DaemonSet and static pods), or may come."""
        counts, expected = self.residents.counts, self.whatif.expected
        if expected:
            counts = counts - np.bincount([*expected.values()], minlength=len(counts))
        found: Mask = counts == 0
        return found

    @cached_property
    def residents(self) -> Residents:
        """The pods that do not belong to their node."""
        return Residents(self.whatif)
