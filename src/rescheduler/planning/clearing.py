"""What a pending pod lacks on each node, and which pods there could make up for it by leaving.

`planning.room` asks for sets of pods of a given number. Whether the pods of a set have somewhere to go is its business;
here it is only reckoned whether their leaving would be enough. Resources are weighed for all nodes at once; where other
rules (host ports, anti-affinity, volumes) keep the pod away, the node is cleared in the what-if to see who breaks them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rescheduler.planning.columns import Floats, Ints, Mask
from rescheduler.planning.view import View

# How many nodes with other obstacles than room are looked at for one pending pod: each of their pods takes a look.
_OBSTRUCTED = 20


@dataclass(frozen=True, slots=True)
class Clearing:
    """A node, who must leave it in any case, who else could, and what must come free."""

    node: int
    must: tuple[int, ...]
    others: tuple[int, ...]
    need: tuple[tuple[Ints, int], ...]
    """For each resource that lacks: what every pod holds of it, and how much must come free."""

    def sets(self, number: int) -> Iterator[tuple[int, ...] | None]:
        """The sets of so many pods whose leaving would be enough, and None for each that would not be."""
        choice = number - len(self.must)
        if choice < 0:
            return
        others = list(self.others) if choice else []
        lacks: list[tuple[dict[int, int], int]] = []
        for held, amount in self.need:
            of_pods = dict(zip(others, held[others].tolist(), strict=True))
            lacking = amount - int(held[list(self.must)].sum())
            most = max(of_pods.values(), default=0)
            # Whoever is so small that the largest could not make up for it helps nobody.
            others = [pod for pod in others if of_pods[pod] + (choice - 1) * most >= lacking]
            lacks.append((of_pods, lacking))
        for pods in combinations(others, choice):
            enough = all(sum([of_pods[pod] for pod in pods]) >= lacking for of_pods, lacking in lacks)
            yield (*self.must, *pods) if enough else None


class Clearings:
    """Looks at nodes on behalf of pending pods, in the what-if as it is now."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._columns = view.columns
        self._priority: Ints = np.fromiter((pod.priority for pod in view.pods), np.int64, len(view.pods))
        standing = np.fromiter((bool(pod.node) for pod in view.pods), np.bool_, len(view.pods))
        self._standing: Mask = standing & view.residents.placed
        self._held: dict[int, Ints] = {}
        self.taken: set[int] = set()
        """Pods that have been moved out of the way already."""

    def singles(self, pending: int) -> Iterator[tuple[int, int]]:
        """Node and pod wherever the leaving of one pod is enough: the lower rank first, then the smaller."""
        pods = self._movable(pending, self._lacks_only_room(pending))
        at = self._view.at[pods]
        for resource, amount in self._view.feasibility.fit.asked(pending):
            lacking = amount - self._view.whatif.free[resource]
            enough = self._held_of(resource)[pods] >= lacking[at]
            pods, at = pods[enough], at[enough]
        order = np.lexsort((pods, self.sizes[pods], self._ranks[pods]))
        yield from zip(at[order].tolist(), pods[order].tolist(), strict=True)

    def several(self, pending: int, number: int) -> Iterator[Clearing]:
        """The nodes that lack only room and where so many pods could be enough; those that lack least first."""
        nodes = self._lacks_only_room(pending)
        pods = self._movable(pending, nodes)
        at = self._view.at[pods]
        lacks = np.zeros(len(nodes))
        for resource, amount in self._view.feasibility.fit.asked(pending):
            lacking = amount - self._view.whatif.free[resource]
            largest = np.zeros(len(nodes), np.int64)
            np.maximum.at(largest, at, self._held_of(resource)[pods])
            nodes = nodes & (number * largest >= lacking)
            lacks = np.maximum(lacks, lacking / np.maximum(self._columns.allocatable[resource], 1))
        found = np.flatnonzero(nodes)
        by_node = np.argsort(at, kind="stable")
        first, last = (np.searchsorted(at[by_node], found, side) for side in ("left", "right"))
        for number_of_node in np.argsort(lacks[found], kind="stable").tolist():
            here = pods[by_node[first[number_of_node] : last[number_of_node]]]
            node = int(found[number_of_node])
            yield Clearing(node, (), tuple(here.tolist()), self._need(pending, node))

    def obstructed(self, pending: int) -> list[Clearing]:
        """Nodes that would have the room, or might, but for other rules that pods there break by being there."""
        view, feasibility = self._view, self._view.feasibility
        roomy = feasibility.fit.fits(pending, self._columns.allocatable) & feasibility.reach(pending) & view.open
        nodes = np.flatnonzero(roomy & ~self._lacks_only_room(pending))
        fewest_first = nodes[np.argsort(view.residents.counts[nodes], kind="stable")]
        found = (self._cleared(pending, node) for node in fewest_first[:_OBSTRUCTED].tolist())
        return [clearing for clearing in found if clearing is not None]

    @cached_property
    def sizes(self) -> Floats:
        """[P]: what each pod takes of its node, of what it takes most of; CPU or memory, which every node has."""
        at = self._columns.pod_at
        whole = np.maximum(self._columns.allocatable[:2, at], 1)
        found: Floats = np.maximum(self._held_of(0) / whole[0], self._held_of(1) / whole[1])
        return found

    @cached_property
    def _ranks(self) -> Ints:
        """[P]: by priority, then by eviction cost."""
        return np.fromiter((pod.rank for pod in self._view.pods), np.int64, len(self._view.pods))

    def _cleared(self, pending: int, node: int) -> Clearing | None:
        """Let all leave who may, then let them back one by one to see who keeps the pending pod away."""
        view, whatif = self._view, self._view.whatif
        only = np.zeros(len(view.nodes), np.bool_)
        only[node] = True
        pods = self._movable(pending, only).tolist()
        for pod in pods:
            whatif.remove(pod, node)
        must: list[int] = []
        fits = bool(view.feasibility.mask(pending)[node])
        for pod in pods:
            whatif.place(pod, node)
            if fits and not view.feasibility.mask(pending, self._columns.allocatable)[node]:
                must.append(pod)
            whatif.remove(pod, node)
        for pod in pods:
            whatif.place(pod, node)
        others = tuple(pod for pod in pods if pod not in must)
        return Clearing(node, tuple(must), others, self._need(pending, node)) if fits else None

    def _need(self, pending: int, node: int) -> tuple[tuple[Ints, int], ...]:
        free = self._view.whatif.free[:, node]
        asked = self._view.feasibility.fit.asked(pending)
        return tuple((self._held_of(r), int(amount - free[r])) for r, amount in asked if amount > free[r])

    def _lacks_only_room(self, pending: int) -> Mask:
        """[N]: where the pod would fit if the node were empty, and nothing else speaks against it."""
        found: Mask = self._view.open & self._view.feasibility.mask(pending, self._columns.allocatable)
        return found

    def _movable(self, pending: int, nodes: Mask) -> NDArray[np.int64]:
        """The pods on these nodes that may have to make room for the pending one: none of higher priority."""
        view, at = self._view, self._view.at
        allowed = self._standing & (at >= 0) & nodes[at] & (self._priority <= view.pods[pending].priority)
        unavailable = [*self.taken, *view.moved]
        allowed[unavailable] = False
        return np.flatnonzero(allowed)

    def _held_of(self, resource: int) -> Ints:
        """[P]: what each pod holds of a resource."""
        if resource not in self._held:
            held: Ints = self._columns.shape_requests[self._columns.pod_shape, resource]
            for pod, amounts in self._columns.resized.items():
                held[pod] = amounts[resource]
            self._held[resource] = held
        return self._held[resource]
