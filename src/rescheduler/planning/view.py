"""What strategies see: the cluster with the plan's moves so far, read-only, with questions that the planner answers.

Pods and nodes are positions in arrays. Residents and PodGroups are computed when a strategy first asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rescheduler.model.objects import Node, Pod
from rescheduler.model.plan import Method
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.budgets import Budgets
from rescheduler.planning.columns import Columns, Floats, Indexes, Ints, Mask
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.load import Load
from rescheduler.planning.thresholds import NodeThresholds
from rescheduler.planning.whatif import WhatIf
from rescheduler.planning.workloads import Workloads, belongs_to_node

if TYPE_CHECKING:
    from rescheduler.planning.planner import Planner


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
        key = self._key_of(pod)
        return key[2] if key is not None else ""

    def members(self, pod: int) -> tuple[int, ...]:
        """Return the members of the pod's group that are on nodes, including itself; none if it is in no group.

        Members that are only expected on a node, or have ended, cannot be moved, and do not hold the others back.
        """
        key = self._key_of(pod)
        return self._members.get(key, ()) if key is not None else ()

    def _key_of(self, pod: int) -> _Key | None:
        return self._keys.get(int(self._columns.pod_group[pod])) if self._keys else None

    @cached_property
    def _keys(self) -> dict[int, _Key]:
        """The keys of the column groups that have one of the labels."""
        found: dict[int, _Key] = {}
        for group, (namespace, labels) in enumerate(self._columns.groups):
            label = next((label for label in self._labels if labels.get(label)), None)
            if label is not None:
                found[group] = (namespace, label, labels[label])
        return found

    @cached_property
    def _members(self) -> dict[_Key, tuple[int, ...]]:
        columns = self._columns
        found: dict[_Key, list[int]] = {}
        for group, key in self._keys.items():
            pods: list[int] = columns.pods_of_group(group).tolist()
            found.setdefault(key, []).extend(pod for pod in pods if columns.pod_at[pod] >= 0 and columns.pods[pod].node)
        return {key: tuple(sorted(pods)) for key, pods in found.items()}


CPU, MEMORY = 0, 1
Look = tuple[int, int, str]
"""The shape, labels and namespace of pods that all rules treat alike."""


class View:
    """What a strategy sees. Read-only; follows the what-if."""

    def __init__(self, planner: Planner, scope: Mask) -> None:
        self._load: Load = planner.load
        self._budgets: Budgets = planner.budgets
        self.scope = scope
        """[N]: the nodes of the strategy's pool; it proposes pods on these."""
        self.feasibility: Feasibility = planner.feasibility
        self.whatif: WhatIf = planner.whatif
        """Strategies may try changes within `with view.whatif.trial()`, but must not yield there."""
        self.columns: Columns = planner.columns
        self.snapshot: ClusterSnapshot = planner.snapshot
        """The input of the plan."""
        self.workloads: Workloads = planner.workloads
        self.groups: PodGroups = planner.groups
        self.moved: set[int] = planner.moved
        """Pods that the plan moves already; they are not moved again."""
        self.nodes: tuple[Node, ...] = self.columns.nodes
        self.pods: Sequence[Pod] = self.columns.pods
        self.resources: list[str] = self._load.labels
        """[R]: display names of the resources that count: CPU, memory, then others with a threshold."""
        self.names: list[str] = self._load.names
        """[R]: their names in Kubernetes."""
        self.levels: NodeThresholds = planner.levels
        """Thresholds by node, and what they are computed from."""
        self.first: Ints = self._load.first
        """[R, N]: what was used before any move."""
        self.thresholds: Floats = self.levels.percent
        """[R, N]: per cent above which a node is hot."""
        self.capacity: Ints = self._load.capacity
        """[R, N]: allocatable CPU (thousandths), memory (bytes) and so on."""
        self.limit: Ints = self.levels.limit
        """[R, N]: the most that keeps a node from being hot."""
        self._inverse: Floats = 100.0 / np.maximum(self.capacity, 1)
        self.node_mask: Callable[[int], Mask] = self.feasibility.node_mask
        """[N] for a pod: where rules about nodes (taints, labels, readiness) let it be, whatever room there is."""
        self.pods_on: Callable[[int], list[int]] = self.whatif.pods_on
        """Lists the pods on a node."""
        self.requests: Callable[[int], Ints] = self._load.requests
        """[R] for a pod: what it would use of another node."""
        self.held: Callable[[Sequence[int]], Ints] = self._load.held
        """[n, R] for n pods: what each gives back when it leaves."""
        self.method: Callable[[int], Method] = planner.method
        """Chooses the method by which a pod would be moved."""
        self.objection: Callable[[int], tuple[str, str] | None] = planner.objection
        """Finds the guard or limit that objects to moving a pod, and why; None if there is none."""
        self.feasible_targets: Callable[[int], Mask] = planner.feasible_targets
        """[N] for a pod: nodes that it could be moved to now, within thresholds and limits."""
        self.accepted_by_others = planner.accepted_by_others
        """[N] for a pod: nodes on which all strategies would leave it, but the running one; None means all of them."""
        self.cost: Callable[[int], Floats] = planner.cost
        """[N] for a pod: the usual ranking of targets; lower is better. Copy it before changing it."""

    @property
    def now(self) -> float | None:
        """When the snapshot was taken, if that is known."""
        return self.snapshot.taken_at

    @cached_property
    def workers(self) -> Mask:
        """[N]: Ready nodes in scope, without the control plane."""
        return self.scope & self.levels.workers

    @cached_property
    def open(self) -> Mask:
        """[N]: workers in scope that are schedulable and not under maintenance."""
        closed = [node.unschedulable or node.maintenance or node.deleting for node in self.nodes]
        return self.workers & ~np.array(closed, np.bool_)

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
        return self._load.used

    @property
    def utilisation(self) -> Floats:
        """[R, N]: per cent of allocatable. A node without capacity is full as soon as anything is on it.

        Expected pods don't count: until they come, there is nothing to do.
        """
        found: Floats = self._load.present * self._inverse
        return found

    @property
    def utilisation_ahead(self) -> Floats:
        """[R, N]: the same with expected pods: what targets are at if they come."""
        found: Floats = self._load.used * self._inverse
        return found

    def utilisation_of(self, node: int) -> Floats:
        """[R]: the utilisation of one node."""
        found: Floats = self._load.present_of(node) * self._inverse[:, node]
        return found

    def within(self, limit: Ints) -> Mask:
        """[N]: nodes that use no more than this limit [R, N] of any resource."""
        found: Mask = np.asarray((self._load.present <= limit).all(axis=0))
        return found

    @property
    def hot(self) -> Mask:
        """[N]: nodes in scope that are over a threshold, and have been for hotAfterCycles."""
        found: Mask = (self._load.present > self.limit).any(axis=0) & self.workers & self.levels.hot_long_enough
        return found

    @cached_property
    def has(self) -> Mask:
        """[R, N]: nodes that have any of a resource; every node has CPU and memory."""
        found: Mask = self.capacity > 0
        found[: MEMORY + 1] = True
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
        found: Ints = self._load.present_of(node) - self.limit[:, node]
        return found

    def look(self, pod: int) -> Look:
        """Return what the pod has in common with those that all rules treat alike."""
        row = self.pods[pod]
        return id(row.shape), id(row.labels), row.namespace

    @property
    def moves_left(self) -> int | None:
        """How many moves the plan may still make; None means no limit."""
        return self._budgets.moves_left

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
