"""A snapshot as numpy arrays: nodes and pods are positions, and a question is answered for all of them at once.

Built once per plan and never changed; `planning.whatif` adds planned moves on top. Amounts are capped far below 64
bits, so that sums cannot overflow, whatever the input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from rescheduler.model import labels as label_keys
from rescheduler.model.objects import Pod
from rescheduler.model.selector import Labels
from rescheduler.model.shape import Requests, Shape
from rescheduler.model.snapshot import ClusterSnapshot

Ints = NDArray[np.int64]
Indexes = NDArray[np.int32]
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]

PODS = "pods"
CAP = 2**52
"""The upper bound of every amount."""


class Columns:
    """Arrays over nodes [N], pods [P], shapes [S] and groups [G]: pods with one namespace and one set of labels."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.snapshot = snapshot
        self.nodes = snapshot.nodes
        self.pods: Sequence[Pod] = snapshot.pods
        self.node_index = {node.name: index for index, node in enumerate(self.nodes)}
        self._domains: dict[str, tuple[Indexes, list[str]]] = {}
        self._without_pin: dict[tuple[int, int], Shape] = {}
        self.shapes: list[Shape]
        self.groups: list[tuple[str, Labels]]
        self.pod_at: Indexes
        """Where each pod counts: its node, or the node that it is nominated to; -1 for none."""
        self.pod_shape: Indexes
        self.pod_group: Indexes
        self._index_pods()
        names = {name for node in self.nodes for name, _ in node.allocatable}
        names.update(name for shape in self.shapes for name, _ in shape.requests)
        self.resources = ["cpu", "memory", PODS, *sorted(names - {"cpu", "memory", PODS})]
        self.resource_index = {name: index for index, name in enumerate(self.resources)}
        self.allocatable = self._matrix([node.allocatable for node in self.nodes]).T.copy()
        self.shape_requests = self._matrix([shape.requests for shape in self.shapes])
        # Each pod takes one place of its node's pod count, whatever else it requests.
        self.shape_requests[:, self.resource_index[PODS]] = 1

    def _index_pods(self) -> None:
        """Find each pod's node, shape and group. Column by column, because a loop over pods is slow."""
        pods = self.pods
        index, placeless = self.node_index, -1
        places = [pod.node or pod.nominated for pod in pods]
        at: Indexes = np.array([index.get(place, placeless) for place in places], np.int32).reshape(-1)
        phases = [pod.phase for pod in pods]
        for ended in (i for i, phase in enumerate(phases) if phase not in ("Running", "Pending") and pods[i].finished):
            at[ended] = placeless
        self.pod_at = at
        shapes = [pod.shape for pod in pods]
        labels = [pod.labels for pod in pods]
        for i in (i for i, found in enumerate(labels) if label_keys.MIGRATION_ID in found):
            shapes[i] = self._unpin(pods[i])
        self.pod_shape, first_of_shape = _number(_identities(shapes))
        self.shapes = [shapes[i] for i in first_of_shape]
        by_labels, _ = _number(_identities(labels))
        by_namespace, _ = _number(_identities([pod.namespace for pod in pods]))
        self.pod_group, first_of_group = _number(by_labels.astype(np.int64) * len(pods) + by_namespace)
        self.groups = [(pods[i].namespace, pods[i].labels) for i in first_of_group]

    def _unpin(self, pod: Pod) -> Shape:
        """Return the shape of a replacement without the node that we pinned it to: its workload's template counts."""
        owner = pod.owner
        template = owner and self.snapshot.workloads.get((owner.kind, pod.namespace, owner.name))
        shape = pod.shape
        if not template or (template.node_selector, template.node_affinity) == (
            shape.node_selector,
            shape.node_affinity,
        ):
            return shape
        key = (id(shape), id(template))
        if key not in self._without_pin:
            self._without_pin[key] = msgspec.structs.replace(
                shape, node_selector=template.node_selector, node_affinity=template.node_affinity
            )
        return self._without_pin[key]

    def _matrix(self, rows: list[Requests]) -> Ints:
        matrix = np.zeros((len(rows), len(self.resources)), np.int64)
        for index, amounts in enumerate(rows):
            for name, number in amounts:
                matrix[index, self.resource_index[name]] = min(number, CAP)
        return matrix

    def vector(self, amounts: Requests) -> Ints:
        """Convert requests to amounts by resource; a pod also takes one place of its node."""
        taken: Ints = self._matrix([tuple((n, a) for n, a in amounts if n in self.resource_index)])[0]
        taken[self.resource_index[PODS]] = 1
        return taken

    @cached_property
    def resized(self) -> dict[int, Ints]:
        """Pods that hold other amounts than they request, because they were resized in place."""
        differ = [i for i, pod in enumerate(self.pods) if pod.held is not pod.shape.requests]
        return {i: self.vector(self.pods[i].held) for i in differ if self.pods[i].held != self.pods[i].shape.requests}

    def shape(self, pod: int) -> Shape:
        """Return what the scheduler looks at in the pod, or in its replacement."""
        return self.shapes[int(self.pod_shape[pod])]

    def held(self, pod: int) -> Ints:
        """Return what a pod holds on its node."""
        resized = self.resized.get(pod)
        return resized if resized is not None else self.requests(pod)

    def requests(self, pod: int) -> Ints:
        """Return what a pod requests of a new node."""
        row: Ints = self.shape_requests[self.pod_shape[pod]]
        return row

    @cached_property
    def used(self) -> Ints:
        """[R, N]: what the pods hold on each node."""
        used = np.zeros((len(self.nodes), len(self.resources)), np.int64)
        order, starts = self._by_node
        taken = np.flatnonzero(np.diff(starts))  # nodes with pods: an empty slice has no sum
        if len(taken):
            placed = order[starts[0] :]
            amounts = self.shape_requests[self.pod_shape[placed]]
            used[taken] = np.add.reduceat(amounts, starts[taken] - starts[0], axis=0)
        for pod, held in self.resized.items():
            if self.pod_at[pod] >= 0:
                used[self.pod_at[pod]] += held - self.requests(pod)
        return used.T.copy()

    @cached_property
    def _by_node(self) -> tuple[Indexes, NDArray[np.intp]]:
        return _sort_by(self.pod_at, len(self.nodes))

    def pods_on(self, node: int) -> Indexes:
        """Return the pods that count on a node in the snapshot, in the snapshot's order."""
        order, starts = self._by_node
        found: Indexes = order[starts[node] : starts[node + 1]]
        return found

    @cached_property
    def _by_group(self) -> tuple[Indexes, NDArray[np.intp]]:
        return _sort_by(self.pod_group, len(self.groups))

    def pods_of_group(self, group: int) -> Indexes:
        """Return the pods with this namespace and these labels."""
        order, starts = self._by_group
        found: Indexes = order[starts[group] : starts[group + 1]]
        return found

    def pods_with(self, test: Callable[[Shape], bool]) -> Indexes:
        """Return the pods whose shape passes a test, in the snapshot's order."""
        passes = np.array([test(shape) for shape in self.shapes], np.bool_)
        found = np.flatnonzero(passes[self.pod_shape]) if passes.any() else np.zeros(0)
        return found.astype(np.int32)

    @cached_property
    def pod_index(self) -> dict[tuple[str, str], int]:
        """Namespace and name → position."""
        return {(pod.namespace, pod.name): index for index, pod in enumerate(self.pods)}

    def domains(self, key: str) -> Indexes:
        """[N]: the number of each node's domain of a topology key; -1 for nodes without the label."""
        return self._domain(key)[0]

    def domain_values(self, key: str) -> list[str]:
        """The label values that the numbers of `domains` stand for."""
        return self._domain(key)[1]

    def _domain(self, key: str) -> tuple[Indexes, list[str]]:
        known = self._domains.get(key)
        if known is None:
            numbers: dict[str, int] = {}
            values = [node.labels.get(key) for node in self.nodes]
            found = [-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values]
            known = self._domains[key] = (np.array(found, np.int32), list(numbers))
        return known


def _sort_by(numbers: Indexes, count: int) -> tuple[Indexes, NDArray[np.intp]]:
    """Sort positions by number, below `count`; also return where each number starts."""
    order = np.argsort(numbers, kind="stable").astype(np.int32)
    return order, np.searchsorted(numbers[order], np.arange(count + 1))


def _identities(things: Sequence[object]) -> Ints:
    """Number objects by identity: readers intern what pods share. Equal objects that are not shared cost one number."""
    return np.array([id(thing) for thing in things], np.int64)


def _number(keys: Ints) -> tuple[Indexes, list[int]]:
    """Number distinct keys in the order of their first appearance; also return where that is."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    fresh = np.ones(len(keys), np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    first = order[fresh]
    rank = np.empty(len(first), np.int32)
    by_appearance = np.argsort(first)
    rank[by_appearance] = np.arange(len(first), dtype=np.int32)
    numbers = np.empty(len(keys), np.int32)
    numbers[order] = rank[np.cumsum(fresh) - 1] if len(keys) else []
    return numbers, [int(i) for i in first[by_appearance]]
