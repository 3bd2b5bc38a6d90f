"""Two of kube-scheduler's scores that look at the node alone: what the pod prefers, and taints to be avoided.

NodeAffinity and TaintToleration. Both depend on nothing that moves, so what they count is kept per shape; it is turned
into 0 to 100 among the nodes that are left for the pod.
"""

from __future__ import annotations

import numpy as np

from rescheduler.model.shape import Toleration
from rescheduler.planning.columns import Columns, Ints, Mask
from rescheduler.planning.predicates.nodes import NodeMasks

_AVOID = "PreferNoSchedule"


class Liking:
    """What pods and nodes would rather have."""

    def __init__(self, columns: Columns, masks: NodeMasks) -> None:
        self._columns = columns
        self._masks = masks
        self._preferred: dict[int, Ints | None] = {}
        self._unwelcome: dict[tuple[Toleration, ...], Ints] = {}
        self._avoided = any(taint.effect == _AVOID for node in columns.nodes for taint in node.taints)

    def preference(self, pod: int, left: Mask) -> Ints | None:
        """[N]: the weights of the preferred terms that a node meets, as a share of the most that one does."""
        number = int(self._columns.pod_shape[pod])
        if number not in self._preferred:
            self._preferred[number] = self._weights(number)
        weights = self._preferred[number]
        if weights is None:
            return None
        most = int(weights[left].max())
        return weights * 100 // most if most else None

    def _weights(self, shape: int) -> Ints | None:
        preferred = self._columns.shapes[shape].preferred_nodes
        if not preferred:
            return None
        weights = np.zeros(len(self._columns.nodes), np.int64)
        for weight, term in preferred:
            weights[self._masks.any_of((term,))] += weight
        return weights

    def welcome(self, pod: int, left: Mask) -> Ints | None:
        """[N]: 100 less the taints to be avoided that the pod doesn't tolerate, as a share of the most on one node."""
        if not self._avoided:
            return None
        tolerations = self._columns.shape(pod).tolerations
        if tolerations not in self._unwelcome:
            self._unwelcome[tolerations] = self._count(pod)
        taints = self._unwelcome[tolerations]
        most = int(taints[left].max())
        return 100 - taints * 100 // most if most else None

    def _count(self, pod: int) -> Ints:
        shape = self._columns.shape(pod)
        found = [
            sum(taint.effect == _AVOID and not shape.tolerates(taint) for taint in node.taints)
            for node in self._columns.nodes
        ]
        return np.array(found, np.int64)
