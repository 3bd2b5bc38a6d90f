"""Columns that take in pods, so that a what-if can go on when pods come and change instead of being built anew.

The embedded scheduler keeps one for as long as nodes stay as they are. A pod that comes is given a position, at the end
or one that another pod has left; a pod that changes is taken off its node, written anew, and placed again. Whoever
keeps an index of rules that pods carry is told by a Growth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from rescheduler.model.objects import Pod
from rescheduler.model.shape import Shape
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.carriers import Carrier, Growth, Pair
from rescheduler.planning.columns import PODS, Columns


class GrowingColumns(Columns):
    """The columns of a snapshot, and of what became of its pods since."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        super().__init__(snapshot)
        self._rows = list(snapshot.pods)
        self.pods = self._rows
        self._shape_number = {shape: number for number, shape in enumerate(self.shapes)}
        self._group_number = {(ns, id(labels)): number for number, (ns, labels) in enumerate(self.groups)}
        self._pairs: set[Pair] = set(zip(self.pod_shape.tolist(), self.pod_group.tolist(), strict=True))

    def measures(self, shape: Shape) -> bool:
        """Whether every resource that pods of this shape ask for has a row."""
        return all(name in self.resource_index for name, _ in shape.requests)

    def put(self, rows: Mapping[int, Pod]) -> Growth:
        """Write pods that are nowhere at the moment to these positions; new positions follow on the last one."""
        groups_before = len(self.groups)
        self._add_shapes(row.shape for row in rows.values())
        self._extend(sum(position >= len(self._rows) for position in rows))
        carriers: list[Carrier] = []
        for position, row in sorted(rows.items()):
            pair = (self._shape_number[row.shape], self._number_of_group(row))
            self._rows[position] = row
            self.pod_shape[position], self.pod_group[position] = pair
            self.pod_at[position] = -1
            self.resized.pop(position, None)
            if row.held is not row.shape.requests and row.held != row.shape.requests:
                self.resized[position] = self.vector(row.held)
            if pair not in self._pairs:
                self._pairs.add(pair)
                pods = np.array([position], np.int32)
                carriers.append(Carrier(pair, row.shape, row.namespace, row.labels, pods))
        for outdated in ("_by_group", "pod_index"):
            self.__dict__.pop(outdated, None)
        return Growth(list(range(groups_before, len(self.groups))), carriers)

    def swap(self, position: int, row: Pod) -> None:
        """A newer row for a pod of which nothing has changed that any array here holds."""
        self._rows[position] = row

    def _number_of_group(self, row: Pod) -> int:
        key = (row.namespace, id(row.labels))
        if key not in self._group_number:
            self._group_number[key] = len(self.groups)
            self.groups.append((row.namespace, row.labels))
        return self._group_number[key]

    def _extend(self, count: int) -> None:
        if not count:
            return
        self._rows += [Pod("", "", "", Shape())] * count
        nobody = np.full(count, -1, np.int32)
        self.pod_shape = np.concatenate([self.pod_shape, nobody])
        self.pod_group = np.concatenate([self.pod_group, nobody])
        self.pod_at = np.concatenate([self.pod_at, nobody])

    def _add_shapes(self, shapes: Iterable[Shape]) -> None:
        new = list(dict.fromkeys(shape for shape in shapes if shape not in self._shape_number))
        if not new:
            return
        self._shape_number.update({shape: number for number, shape in enumerate(new, len(self.shapes))})
        self.shapes += new
        requests = self._matrix([shape.requests for shape in new])
        requests[:, self.resource_index[PODS]] = 1
        self.shape_requests = np.concatenate([self.shape_requests, requests])
