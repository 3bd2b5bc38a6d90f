"""Which of the nodes that let a pod in is best.

Four of kube-scheduler's scores, each from 0 to 100 and simplified: preferred node affinity, PreferNoSchedule taints,
few replicas of the same workload, and little CPU and memory requested. The weights put them in this order, so that a
preference always decides: steering relies on it. Of equal nodes the one with the fewest pods is taken, and of those
the first by name, so that the same cluster always comes out the same.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from rescheduler.planning.columns import PODS, Ints, Mask
from rescheduler.planning.feasibility import Feasibility

_PREFERENCE, _TAINTS, _REPLICAS, _ROOM = 8, 4, 2, 1


class Scores:
    """Scores nodes in one what-if of the cluster."""

    def __init__(self, feasibility: Feasibility) -> None:
        self._whatif = feasibility.whatif
        self._columns = feasibility.whatif.columns
        self._masks = feasibility.node_masks

    def score(self, pod: int, feasible: Mask) -> Ints:
        """[N]: the score of every node for a pod; only those of feasible nodes mean something."""
        shape = self._columns.shape(pod)
        total = _ROOM * self._room(pod) + _REPLICAS * self._replicas(pod, feasible)
        total[self._masks.discouraged(shape)] -= _TAINTS * 100
        if shape.preferred_nodes:
            total += _PREFERENCE * self._preference(pod, feasible)
        return total

    def best(self, total: Ints, feasible: Mask) -> int:
        """The feasible node with the highest score."""
        nodes = np.flatnonzero(feasible)
        pods = self._whatif.used[self._columns.resource_index[PODS]]
        return int(nodes[np.lexsort((pods[nodes], -total[nodes]))[0]])

    def _room(self, pod: int) -> Ints:
        """Least allocated: the mean over CPU and memory of (capacity - requested) · 100 / capacity."""
        capacity = self._columns.allocatable[:2]
        left = np.maximum(self._whatif.free[:2] - self._columns.requests(pod)[:2, None], 0)
        room: Ints = (left * 100 // np.maximum(capacity, 1)).sum(axis=0) // 2
        return room

    def _replicas(self, pod: int, feasible: Mask) -> Ints:
        """100 where no pod has the same controller, 0 where the most have it."""
        owner = self._columns.pods[pod].owner
        places = self._whatif.at[self._by_owner[owner.uid]] if owner is not None else np.zeros(0, np.int32)
        counts = np.bincount(places[places >= 0], minlength=len(self._columns.nodes))
        most = int(counts[feasible].max())
        return 100 * (most - counts) // most if most else np.full(len(counts), 100)

    @cached_property
    def _by_owner(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, pod in enumerate(self._columns.pods):
            if pod.owner is not None and not pod.deleting:
                found.setdefault(pod.owner.uid, []).append(number)
        return found

    def _preference(self, pod: int, feasible: Mask) -> Ints:
        """The weights of the preferred terms that a node meets, as a share of the most that one does."""
        weights = np.zeros(len(self._columns.nodes), np.int64)
        for weight, term in self._columns.shape(pod).preferred_nodes:
            weights[self._masks.any_of((term,))] += weight
        return weights * 100 // max(int(weights[feasible].max()), 1)
