"""Columns that take in more pods, so that a what-if can go on when pods come instead of being built anew.

The embedded scheduler keeps one for as long as nodes stay as they are: pods that come are added at the end, pods that
go are taken off their node and keep their position. Positions are never used again.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rescheduler.model.objects import Pod
from rescheduler.model.shape import Shape
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.carriers import Pair
from rescheduler.planning.columns import PODS, Columns, Indexes


class GrowingColumns(Columns):
    """The columns of a snapshot and of the pods that came after it."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        super().__init__(snapshot)
        self._taken_in = list(snapshot.pods)
        self.pods = self._taken_in
        self._shape_number = {shape: number for number, shape in enumerate(self.shapes)}
        self._group_number = {(ns, id(labels)): number for number, (ns, labels) in enumerate(self.groups)}
        self._pairs: set[Pair] = set(zip(self.pod_shape.tolist(), self.pod_group.tolist(), strict=True))

    def knows(self, pod: Pod) -> bool:
        """Whether there was a pod of the same shape, namespace and labels."""
        shape = self._shape_number.get(pod.shape)
        group = self._group_number.get((pod.namespace, id(pod.labels)))
        return shape is not None and group is not None and (shape, group) in self._pairs

    def measures(self, shape: Shape) -> bool:
        """Whether every resource that pods of this shape ask for has a row."""
        return all(name in self.resource_index for name, _ in shape.requests)

    def add(self, pods: list[Pod]) -> list[int]:
        """Take in pods that are nowhere yet, one position each at the end; the answer is the groups that are new."""
        groups_before = len(self.groups)
        self._add_shapes(pod.shape for pod in pods)
        for pod in pods:
            key = (pod.namespace, id(pod.labels))
            if key not in self._group_number:
                self._group_number[key] = len(self.groups)
                self.groups.append((pod.namespace, pod.labels))
        shapes = _indexes([self._shape_number[pod.shape] for pod in pods])
        groups = _indexes([self._group_number[pod.namespace, id(pod.labels)] for pod in pods])
        self._pairs.update(zip(shapes.tolist(), groups.tolist(), strict=True))
        for position, pod in enumerate(pods, len(self.pods)):
            if pod.held is not pod.shape.requests and pod.held != pod.shape.requests:
                self.resized[position] = self.vector(pod.held)
        self._taken_in += pods
        self.pod_shape = np.concatenate([self.pod_shape, shapes])
        self.pod_group = np.concatenate([self.pod_group, groups])
        self.pod_at = np.concatenate([self.pod_at, np.full(len(pods), -1, np.int32)])
        self.__dict__.pop("_by_group", None)
        self.__dict__.pop("pod_index", None)
        return list(range(groups_before, len(self.groups)))

    def swap(self, position: int, pod: Pod) -> None:
        """A newer row for a pod of which nothing has changed that any array here holds."""
        self._taken_in[position] = pod

    def _add_shapes(self, shapes: Iterable[Shape]) -> None:
        new = list(dict.fromkeys(shape for shape in shapes if shape not in self._shape_number))
        if not new:
            return
        self._shape_number.update({shape: number for number, shape in enumerate(new, len(self.shapes))})
        self.shapes += new
        requests = self._matrix([shape.requests for shape in new])
        requests[:, self.resource_index[PODS]] = 1
        self.shape_requests = np.concatenate([self.shape_requests, requests])


def _indexes(numbers: list[int]) -> Indexes:
    return np.array(numbers, np.int32).reshape(-1)
