"""What strategies see: the cluster with the plan's moves so far, read-only, with questions that the planner answers.

Pods and nodes are positions in arrays. Residents and PodGroups are computed when a strategy first asks for them.
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
from rescheduler.planning.workloads import Workloads, belongs_to_node


class Residents:
    """Counts, by node, the pods that do not belong to their node; a listener of the what-if.

    DaemonSet and static pods come and go with their node. A node without others is vacant: an autoscaler removes it.
    """

    def __init__(self, whatif: WhatIf) -> None:
        self._whatif = whatif
        pods = whatif.columns.pods
        self.placed: Mask = ~np.fromiter((belongs_to_node(pod) for pod in pods), np.bool_, len(pods))
        """[P]: pods that do not belong to their node."""
        self.first: Ints = self._count_by_node(whatif.columns.pod_at)
        """[N]: how many there were before any move."""
        self.counts: Ints = self._count_by_node(whatif.at)
        """[N]: how many pods must go until the node is vacant."""
        whatif.add_listener(self)

    def _count_by_node(self, at: Indexes) -> Ints:
        here = at[self.placed & (at >= 0)]
        return np.bincount(here, minlength=len(self._whatif.columns.nodes)).astype(np.int64)

    def on_change(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        if self.placed[pod]:
            self.counts[node] += delta

    def on(self, node: int) -> list[int]:
        """List the pods that must go until the node is vacant."""
        return [pod for pod in self._whatif.pods_on(node) if self.placed[pod]]


_Key = tuple[str, str, str]
"""Namespace, label, value."""


class PodGroups:
    """Looks up pod groups, whose members move together."""

    def __init__(self, columns: Columns, labels: Sequence[str]) -> None:
        self._columns = columns
        self._labels = labels

    def name(self, pod: int) -> str:
        """Return the name of the pod's group; empty if it is in none."""
        key = self._by_group[self._columns.pod_group[pod]] if self._has_groups else None
        return key[2] if key is not None else ""

    def members(self, pod: int) -> tuple[int, ...]:
        """Return the members of the pod's group that are on nodes, including itself; none if it is in no group.

        Members that are only expected on a node, or have ended, cannot be moved, and do not hold the others back.
        """
        key = self._by_group[self._columns.pod_group[pod]] if self._has_groups else None
        return self._members.get(key, ()) if key is not None else ()

    @cached_property
    def _has_groups(self) -> bool:
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
    """The questions of a view that the planner answers. It keeps view and planner from importing each other."""

    def method(self, pod: int) -> Method:
        """Choose the method by which the pod would be moved."""

    def objection(self, pod: int) -> tuple[str, str] | None:
        """Find the guard or limit that objects to moving the pod, and why; None if there is none."""

    def feasible_targets(self, pod: int) -> Mask:
        """[N]: nodes that the pod could be moved to now, within thresholds and limits."""

    def accepted_by_others(self, pod: int, besides: str = "") -> Mask | None:
        """[N]: nodes on which all other strategies but `besides` would leave the pod; None means all of them."""

    def cost(self, pod: int) -> Floats:
        """[N]: the usual ranking of targets; lower is better."""

    @property
    def moves_left(self) -> int | None:
        """How many moves the plan may still make; None means no limit."""


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """What all views of a plan share."""

    feasibility: Feasibility
    load: Load
    levels: NodeThresholds
    workloads: Workloads
    groups: PodGroups
    planner: PlannerQueries
    hot_long_enough: Mask
    """[N]: nodes that have been hot for long enough, if they are hot now."""
    moved: set[int]


class View:
    """What a strategy sees. Read-only; follows the what-if."""

    def __init__(self, context: PlanningContext, scope: Mask) -> None:
        self._context = context
        self.scope = scope
        """[N]: the nodes of the strategy's pool; it proposes pods on these."""
        self.feasibility: Feasibility = context.feasibility
        self.whatif: WhatIf = context.feasibility.whatif
        """Strategies may try changes within `with view.whatif.trial()`, but must not yield there."""
        self.columns: Columns = self.whatif.columns
        self.workloads: Workloads = context.workloads
        self.groups: PodGroups = context.groups
        self.node_mask: Callable[[int], Mask] = context.feasibility.node_mask
        """[N] for a pod: where rules about nodes (taints, labels, readiness) let it be, whatever room there is."""
        self.moved: set[int] = context.moved
        """Pods that the plan moves already; they are not moved again."""
        self.nodes: tuple[Node, ...] = self.columns.nodes
        self.pods: Sequence[Pod] = self.columns.pods
        self.resources: list[str] = context.load.labels
        """[R]: display names of the resources that count: CPU, memory, then others with a threshold."""
        self.names: list[str] = context.load.names
        """[R]: their names in Kubernetes."""
        self.levels: NodeThresholds = context.levels
        """Thresholds by node, and what they are computed from."""
        self.first: Ints = context.load.first
        """[R, N]: what was used before any move."""
        self.thresholds: Floats = context.levels.percent
        """[R, N]: per cent above which a node is hot."""
        self.capacity: Ints = context.load.capacity
        """[R, N]: allocatable CPU (thousandths), memory (bytes) and so on."""
        self.limit: Ints = context.levels.limit
        """[R, N]: the most that keeps a node from being hot."""
        self._inverse: Floats = 100.0 / np.maximum(self.capacity, 1)
        self.workers: Mask = scope & np.array(
            [n.ready and not n.problem and not n.control_plane for n in self.nodes], np.bool_
        )
        """[N]: Ready nodes in scope, without the control plane."""
        self.open: Mask = self.workers & np.array(
            [not (node.unschedulable or node.maintenance or node.deleting) for node in self.nodes], np.bool_
        )
        """[N]: workers in scope that are schedulable and not under maintenance."""

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The input of the plan."""
        return self.columns.snapshot

    @property
    def now(self) -> float | None:
        """When the snapshot was taken, if that is known."""
        return self.columns.snapshot.taken_at

    @property
    def at(self) -> Indexes:
        """[P]: the node of each pod; -1 for none."""
        return self.whatif.at

    def pods_in_scope(self) -> list[int]:
        """List the pods on nodes in scope that are not moved yet, in the snapshot's order."""
        at = self.whatif.at
        found: list[int] = np.flatnonzero((at >= 0) & self.scope[at]).tolist()
        return [pod for pod in found if pod not in self.moved] if self.moved else found

    @property
    def used(self) -> Ints:
        """[R, N]: what is used, also by pending pods that are expected on a node."""
        return self._context.load.used

    @property
    def utilisation(self) -> Floats:
        """[R, N]: per cent of allocatable. A node without capacity is full as soon as anything is on it.

        Expected pods don't count: until they come, there is nothing to do.
        """
        found: Floats = self._context.load.present * self._inverse
        return found

    @property
    def utilisation_ahead(self) -> Floats:
        """[R, N]: the same with expected pods: what targets are at if they come."""
        found: Floats = self._context.load.used * self._inverse
        return found

    def utilisation_of(self, node: int) -> Floats:
        """[R]: the utilisation of one node."""
        found: Floats = self._context.load.present_of(node) * self._inverse[:, node]
        return found

    def within(self, limit: Ints) -> Mask:
        """[N]: nodes that use no more than this limit [R, N] of any resource."""
        found: Mask = np.asarray((self._context.load.present <= limit).all(axis=0))
        return found

    @property
    def hot(self) -> Mask:
        """[N]: nodes in scope that are over a threshold, and have been for hotAfterCycles."""
        found: Mask = (
            (self._context.load.present > self.limit).any(axis=0) & self.workers & self._context.hot_long_enough
        )
        return found

    @cached_property
    def has(self) -> Mask:
        """[R, N]: nodes that have any of a resource; every node has CPU and memory."""
        found: Mask = self.capacity > 0
        found[: MEMORY + 1] = True
        return found

    def requests(self, pod: int) -> Ints:
        """[R]: what a pod would use of another node."""
        return self._context.load.requests(pod)

    def relief(self, pod: int, node: int) -> Floats:
        """[R]: what a pod gives back of a node when it leaves, in per cent."""
        found: Floats = self.held([pod])[0] * self._inverse[:, node]
        return found

    def share(self, pod: int, node: int) -> Floats:
        """[R]: what a pod would use of a node, in per cent."""
        found: Floats = self.requests(pod) * self._inverse[:, node]
        return found

    def shares(self, pod: int, nodes: NDArray[np.intp] | None = None) -> Floats:
        """[R, n]: the same for several nodes, or all."""
        inverse = self._inverse if nodes is None else self._inverse[:, nodes]
        found: Floats = self.requests(pod)[:, None] * inverse
        return found

    def excess(self, node: int) -> Ints:
        """[R]: what is used above the limit of a hot node; negative below it."""
        found: Ints = self._context.load.present_of(node) - self.limit[:, node]
        return found

    def pods_on(self, node: int) -> list[int]:
        """List the pods on a node."""
        return self.whatif.pods_on(node)

    def held(self, pods: list[int]) -> Ints:
        """[n, R]: what each of these pods gives back when it leaves."""
        return self._context.load.held(pods)

    def method(self, pod: int) -> Method:
        """Choose the method by which the pod would be moved."""
        return self._context.planner.method(pod)

    def objection(self, pod: int) -> tuple[str, str] | None:
        """Find the guard or limit that objects to moving the pod, and why; None if there is none."""
        return self._context.planner.objection(pod)

    def feasible_targets(self, pod: int) -> Mask:
        """[N]: nodes that the pod could be moved to now, within thresholds and limits."""
        return self._context.planner.feasible_targets(pod)

    def accepted_by_others(self, pod: int, besides: str = "") -> Mask | None:
        """[N]: nodes on which all other strategies would leave the pod; None means all of them.

        The strategy that is running and the one named `besides` don't count.
        """
        return self._context.planner.accepted_by_others(pod, besides)

    def cost(self, pod: int) -> Floats:
        """[N]: the usual ranking of targets; lower is better. Copy it before changing it."""
        return self._context.planner.cost(pod)

    @property
    def moves_left(self) -> int | None:
        """How many moves the plan may still make; None means no limit."""
        return self._context.planner.moves_left

    @property
    def vacant(self) -> Mask:
        """[N]: nodes with nothing but DaemonSet, static and expected pods."""
        counts, expected = self.residents.counts, self.whatif.expected
        if expected:
            counts = counts - np.bincount([*expected.values()], minlength=len(counts))
        found: Mask = counts == 0
        return found

    @cached_property
    def residents(self) -> Residents:
        """Counts the pods that do not belong to their node."""
        return Residents(self.whatif)
