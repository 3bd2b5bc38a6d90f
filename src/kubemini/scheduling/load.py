"""Two of kube-scheduler's scores: nodes of which little is taken, and nodes that a pod leaves in better balance.

NodeResourcesFit (least allocated) and NodeResourcesBalancedAllocation, for CPU and memory; the formulas beside them
are those of v1.37. A listener of the what-if, so that what the first supposes to be taken is always at hand.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kubemini.scheduling.wishes import Wishes
from rescheduler.model.shape import Shape
from rescheduler.planning.columns import Floats, Ints
from rescheduler.planning.whatif import WhatIf


class Load:
    """The scores that look at CPU and memory."""

    def __init__(self, whatif: WhatIf, wishes: Mapping[Shape, Wishes]) -> None:
        self._whatif = whatif
        self._columns = whatif.columns
        self._wishes = wishes
        self._capacity: Ints = self._columns.allocatable[:2]
        self._sized: Ints = (self._capacity > 0).astype(np.int64)
        self._divisor: Ints = np.maximum(self._capacity, 1)
        self._resources: Ints = np.maximum(self._sized.sum(axis=0), 1)
        """[N]: how many of the two resources a node has at all: the others don't count."""
        self._both = self._sized.all(axis=0)
        self.supposed: Ints = np.zeros_like(self._capacity)
        """[2, N]: what is taken, where a container that asks for nothing is supposed to need something."""
        self._count_all()
        whatif.listen(self)

    def _count_all(self) -> None:
        by_shape = np.array([self._wishes[shape].supposed for shape in self._columns.shapes], np.int64).reshape(-1, 2)
        placed = np.flatnonzero(self._whatif.at >= 0)
        for resource in (0, 1):
            amounts = by_shape[self._columns.pod_shape[placed], resource]
            np.add.at(self.supposed[resource], self._whatif.at[placed], amounts)

    def changed(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        cpu, memory = self._wishes[self._columns.shape(pod)].supposed
        self.supposed[0, node] += delta * cpu
        self.supposed[1, node] += delta * memory

    def scores(self, pod: int) -> Ints:
        """[N]: both scores together, each of 0 to 100."""
        shape = self._columns.shape(pod)
        least = self._least_allocated(np.array(self._wishes[shape].supposed, np.int64)[:, None])
        asked: Ints = self._columns.requests(pod)[:2, None]
        return least + self._balance(asked) if asked.any() else least

    def _least_allocated(self, supposed: Ints) -> Ints:
        """The mean over resources of (capacity - taken) · 100 / capacity, in whole numbers."""
        left = np.maximum(self._capacity - self.supposed - supposed, 0)
        found: Ints = (left * 100 // self._divisor).sum(axis=0) // self._resources
        return found

    def _balance(self, asked: Ints) -> Ints:
        """50 + (50 + balance with the pod - balance without it) / 2, in whole numbers."""
        used = self._whatif.used[:2]
        found: Ints = 50 + (50 + self._balanced(used + asked) - self._balanced(used)) // 2
        return found

    def _balanced(self, used: Ints) -> Ints:
        """(1 - standard deviation of the shares taken) · 100; of two that is half of their difference."""
        shares: Floats = np.minimum(used / self._divisor, 1.0)
        deviation = np.where(self._both, np.abs((shares[0] - shares[1]) / 2), 0.0)
        found: Ints = ((1 - deviation) * 100).astype(np.int64)
        return found
