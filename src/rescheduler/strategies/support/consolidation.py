"""Which nodes can be emptied onto the others, found in a trial of the what-if.

Consolidation runs the trial before it proposes anything. A node is emptied whole or not at all. A node that took pods
may be emptied later like any other, as in a next cycle. Only the final node of each pod counts: it can go there
directly, since nothing leaves a node that stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from rescheduler.model.plan import Method
from rescheduler.planning.columns import Floats, Ints, Mask
from rescheduler.planning.view import View

# Targets at which the rules would not survive are passed over for the next fullest, this often.
_TARGETS_TRIED = 8
_DEVICES = 100.0  # a node with free devices (GPUs and the like) that the pod does not ask for comes after the others
_AVOIDED = 1000.0  # and one that would rather not have the pod (PreferNoSchedule) after all of these
_Look = tuple[int, int, str]


@dataclass(slots=True)
class PackingResult:
    """The result of the trial."""

    emptied: list[int] = field(default_factory=list)
    """The nodes in the order in which they were emptied."""
    target: dict[int, int] = field(default_factory=dict)
    """The final node of each of their pods."""
    held: dict[int, int] = field(default_factory=dict)
    """Nodes that a pod keeps which may not be moved: that pod."""
    full: list[int] = field(default_factory=list)
    """Nodes whose pods do not all fit elsewhere, or are too many for one plan."""


class PackingTrial:
    """Empties nodes, fullest targets first."""

    def __init__(self, view: View, most_nodes: int) -> None:
        self._view = view
        self._most_nodes = most_nodes
        self._found = PackingResult()
        self._moves = 0
        self._objections: dict[int, bool] = {}
        self._hopeless: dict[_Look, set[int]] = {}
        """Pods of one look that no node takes: the nodes from which that was found."""

    def run(self, in_order: Callable[[], Iterable[int]]) -> PackingResult:
        """Empty nodes in the given order, repeatedly, until no more can be emptied."""
        again = True
        with self._view.whatif.trial():
            while again:
                again = False
                self._found.full.clear()
                for node in in_order():
                    if node in self._found.held or self._view.vacant[node]:
                        continue
                    emptied = self._empty(node)
                    if emptied is None:
                        again = False  # no more moves or nodes are allowed: the next cycle goes on
                        break
                    again |= emptied
            for pod in self._found.target:
                self._found.target[pod] = int(self._view.at[pod])
        return self._found

    def _empty(self, node: int) -> bool | None:
        """Move all pods of a node away, or none; return None when the plan is full."""
        pods = self.residents(node)
        if self._is_held(node, pods):
            return False
        fresh = [pod for pod in pods if pod not in self._found.target]
        left = self._view.moves_left
        if left is not None and self._moves + len(fresh) > left:
            self._found.full.append(node)
            return False if len(fresh) > left else None
        if len(self._found.emptied) >= self._most_nodes:
            return None
        done: list[tuple[int, int]] = []
        for pod in pods:
            target = self._move(pod, node)
            if target is None:
                for moved, to in reversed(done):
                    self._view.whatif.remove(moved, to)
                    self._view.whatif.place(moved, node)
                self._found.full.append(node)
                return False
            done.append((pod, target))
        self._moves += len(fresh)
        self._found.target.update(done)
        self._found.emptied.append(node)
        return True

    def residents(self, node: int) -> list[int]:
        """Return the pods that have to leave, the largest first, while there is most room."""
        view = self._view
        pods = view.residents.on(node)
        sizes = (view.held(pods) / np.maximum(view.capacity[:, node], 1)).max(axis=1).tolist() if pods else []
        return [pod for _, pod in sorted(zip((-size for size in sizes), pods, strict=True))]

    def _is_held(self, node: int, pods: list[int]) -> bool:
        """Whether a pod that may not be moved keeps the node."""
        for pod in pods:
            if pod not in self._objections:
                self._objections[pod] = pod in self._view.moved or self._view.objection(pod) is not None
            if self._objections[pod]:
                self._found.held[node] = pod
                return True
        return False

    def _move(self, pod: int, source: int) -> int | None:
        """Move a pod to the fullest node that fits, and return it."""
        view = self._view
        row = view.pods[pod]
        look = (id(row.shape), id(row.labels), row.namespace)
        if len(self._hopeless.get(look, ())) > 1:
            return None
        could_be = view.feasible_targets(pod) & nodes_in_use(view)
        could_be[source] = False
        nodes = np.flatnonzero(could_be)
        if not len(nodes):
            # Room on nodes that stay only shrinks, so this holds. Its own node aside: that takes two to see.
            self._hopeless.setdefault(look, set()).add(source)
            return None
        costs = packing_cost(view, pod)[nodes]
        side_by_side = view.method(pod) is not Method.EVICT
        for _ in range(min(len(nodes), _TARGETS_TRIED)):
            best = int(costs.argmin())
            target = int(nodes[best])
            if not view.feasibility.try_move(pod, target, side_by_side=side_by_side):
                return target
            view.whatif.remove(pod, target)
            view.whatif.place(pod, source)
            costs[best] = np.inf
        return None


def nodes_in_use(view: View) -> Mask:
    """[N]: nodes that pods may be packed onto: open nodes with pods."""
    found: Mask = view.open & ~view.vacant
    return found


def packing_cost(view: View, pod: int) -> Floats:
    """[N]: lower for fuller nodes, by their most used resource; nodes that others need more cost extra."""
    cost: Floats = 100.0 - view.utilisation.max(axis=0)
    asked = view.columns.requests(pod)
    for name, resource in view.columns.resource_index.items():
        if "/" in name and not asked[resource]:
            cost[view.whatif.free[resource] > 0] += _DEVICES
    avoided = view.feasibility.node_masks.discouraged(view.columns.shape(pod))
    if avoided.any():
        cost[avoided] += _AVOIDED
    return cost


class UnderusedNodes:
    """Nodes at or below the low thresholds of all resources; follows the view."""

    def __init__(self, view: View, pool: str | None, low: Mapping[str, float]) -> None:
        self._view = view
        self._limit: Ints = view.levels.low(pool, low)
        self.first: Mask = np.asarray((view.first <= self._limit).all(axis=0))
        """[N]: before any move."""

    def cost(self, pod: int) -> Floats:
        """[N]: the costs of targets for a pod from a hot node; infinite for nodes that are not underused."""
        return np.where(self.first | self._view.within(self._limit), self._view.cost(pod), np.inf)


def explain_too_few(found: int, wanted: int, what: str) -> str:
    """Return why a strategy that needs so many underused nodes waits; empty if there are enough."""
    if found >= wanted:
        return ""
    return f"{found} {'node is' if found == 1 else 'nodes are'} {what}, and minUnderusedNodes is {wanted}"


class OtherResources:
    """[R]: per cent of allocatable of resources that nodes have and that do not count; follows the view."""

    def __init__(self, view: View) -> None:
        self._view = view
        columns = view.columns
        had: Mask = np.asarray(columns.allocatable.any(axis=1))
        found = [(name, row) for name, row in columns.resource_index.items() if had[row] and name not in view.names]
        self.names = [name for name, _ in found]
        self._rows = np.array([row for _, row in found], np.intp)
        self._inverse: Floats = 100.0 / np.maximum(columns.allocatable[self._rows], 1)

    @property
    def first(self) -> Floats:
        """[R, N]: before any move."""
        found: Floats = self._view.columns.used[self._rows] * self._inverse
        return found

    @property
    def now(self) -> Floats:
        """[R, N]: now, without pods that are only expected: they may come elsewhere, or never."""
        whatif = self._view.whatif
        used: Ints = whatif.used[self._rows]
        for pod, node in whatif.expected.items():
            used[:, node] -= self._view.columns.requests(pod)[self._rows]
        found: Floats = used * self._inverse
        return found

    def within(self, use: Floats, limits: Mapping[str, float], default: float) -> Mask:
        """[N]: nodes whose use [R, N] is within these limits."""
        most: Floats = np.array([limits.get(name, default) for name in self.names], np.float64)
        return np.asarray((use <= most[:, None]).all(axis=0))
