"""What a strategy sees: the cluster as it would be with the moves accepted so far.

Utilisation is in per cent of allocatable, by requests; a later source of measured usage replaces `utilisation` here and
nothing else. Everything is by position: node 0..N-1, pod 0..P-1, in the snapshot's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rescheduler.model.objects import Node, Pod
from rescheduler.model.policy import Thresholds
from rescheduler.planning.columns import Columns, Floats, Ints, Mask
from rescheduler.planning.whatif import WhatIf

CPU, MEMORY = 0, 1
RESOURCES = ("CPU", "memory")


class View:
    """Read-only; follows the what-if."""

    def __init__(self, whatif: WhatIf, thresholds: Thresholds, reach: Callable[[int], Mask]) -> None:
        self._whatif = whatif
        self.reach = reach
        """[N] for a pod: where the nodes' own rules (taints, labels, readiness) let it be; room is another matter."""
        self._columns: Columns = whatif.columns
        self.moved: set[int] = set()
        """Pods that the plan moves already: they are not moved again."""
        self.nodes: tuple[Node, ...] = whatif.columns.nodes
        self.pods: Sequence[Pod] = whatif.columns.pods
        self.thresholds: Floats = np.array([thresholds.cpu, thresholds.memory])
        """[2]: per cent of CPU and memory above which a node is hot."""
        self.capacity: Ints = whatif.columns.allocatable[:2]
        """[2, N]: allocatable CPU (thousandths) and memory (bytes)."""
        self.limit: Ints = np.floor(self.capacity * self.thresholds[:, None] / 100.0).astype(np.int64)
        """[2, N]: the most that keeps a node from being hot."""
        self._inverse: Floats = 100.0 / np.maximum(self.capacity, 1)
        self.workers: Mask = np.array([n.ready and not n.problem and not n.control_plane for n in self.nodes], np.bool_)
        """[N]: nodes that run, the control plane's aside."""
        self.open: Mask = self.workers & np.array(
            [not (node.unschedulable or node.maintenance or node.deleting) for node in self.nodes], np.bool_
        )
        """[N]: nodes that pods may be moved to, as far as the node itself goes."""

    @property
    def used(self) -> Ints:
        """[2, N]: CPU and memory that pods hold."""
        return self._whatif.used[:2]

    @property
    def utilisation(self) -> Floats:
        """[2, N]: per cent of allocatable. A node without capacity is full as soon as anything is on it."""
        found: Floats = self.used * self._inverse
        return found

    def utilisation_of(self, node: int) -> Floats:
        """[2]: of one node."""
        found: Floats = self.used[:, node] * self._inverse[:, node]
        return found

    def requests(self, pod: int) -> Ints:
        """[2]: CPU and memory that a pod asks."""
        found: Ints = self._columns.requests(pod)[:2]
        return found

    def relief(self, pod: int, node: int) -> Floats:
        """[2]: what a pod that leaves a node gives back of it, in per cent."""
        found: Floats = self.held([pod])[0] * self._inverse[:, node]
        return found

    def share(self, pod: int, node: int) -> Floats:
        """[2]: what a pod's requests are of a node, in per cent."""
        found: Floats = self.requests(pod) * self._inverse[:, node]
        return found

    def shares(self, pod: int, nodes: NDArray[np.intp] | None = None) -> Floats:
        """[2, n]: the same of several nodes, or of all."""
        inverse = self._inverse if nodes is None else self._inverse[:, nodes]
        found: Floats = self.requests(pod)[:, None] * inverse
        return found

    def excess(self, node: int) -> Ints:
        """[2]: CPU and memory above what keeps a node from being hot; negative when it isn't."""
        found: Ints = self.used[:, node] - self.limit[:, node]
        return found

    def pods_on(self, node: int) -> list[int]:
        """The pods on a node."""
        return self._whatif.pods_on(node)

    def held(self, pods: list[int]) -> Ints:
        """[n, 2]: CPU and memory that each of these pods gives back when it leaves."""
        found: Ints = self._columns.shape_requests[self._columns.pod_shape[pods], :2]
        for position, pod in enumerate(pods):
            if pod in self._columns.resized:
                found[position] = self._columns.resized[pod][:2]
        return found
