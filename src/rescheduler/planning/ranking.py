"""Which of the feasible targets is best, when a strategy leaves it open: as the scheduler would score them.

Least used first; then what the pod prefers (node affinity) and what nodes would rather not have (PreferNoSchedule).
"""

from __future__ import annotations

import numpy as np

from rescheduler.model.shape import Shape
from rescheduler.planning.columns import Columns, Floats
from rescheduler.planning.predicates.nodes import NodeMasks
from rescheduler.planning.view import View

# How much use of a node a wish outweighs: a fully preferred node is chosen over one that is 25 points emptier.
_WORTH = 25.0


class Ranking:
    """Costs of targets; a listener of the what-if, so that the use of nodes is always at hand."""

    def __init__(self, columns: Columns, view: View, masks: NodeMasks) -> None:
        self._columns = columns
        self._view = view
        self._masks = masks
        self._wishes: dict[int, Floats | None] = {}
        self._per_threshold: Floats = 100.0 / np.maximum(view.thresholds, 1e-9)
        self.heat: Floats = (view.utilisation * self._per_threshold).max(axis=0, initial=0.0)
        """[N]: the use of the scarcest resource, in per cent of its threshold."""

    def changed(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        self.heat[node] = (self._view.utilisation_of(node) * self._per_threshold[:, node]).max()

    def cost(self, pod: int) -> Floats:
        """[N]: lower is better."""
        wishes = self._wished(pod)
        return self.heat if wishes is None else self.heat + wishes

    def _wished(self, pod: int) -> Floats | None:
        """[N]: what the pod's and the nodes' soft rules add to the cost; None when there are none."""
        number = int(self._columns.pod_shape[pod])
        if number not in self._wishes:
            self._wishes[number] = self._reckon(self._columns.shapes[number])
        return self._wishes[number]

    def _reckon(self, shape: Shape) -> Floats | None:
        frowned = self._masks.frowned_on(shape)
        if not shape.preferred_nodes and not frowned.any():
            return None
        cost: Floats = np.where(frowned, _WORTH, 0.0)
        total = sum(weight for weight, _ in shape.preferred_nodes)
        for weight, term in shape.preferred_nodes:
            cost[self._masks.any_of((term,))] -= _WORTH * weight / max(total, 1)
        return cost
