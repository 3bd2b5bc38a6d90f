"""Hard topology spread constraints, as kube-scheduler's PodTopologySpread computes them."""

from __future__ import annotations

import numpy as np

from rescheduler.planning.columns import Mask
from rescheduler.planning.predicates.base import Predicate, PredicateContext
from rescheduler.planning.predicates.support.spread import Constraint, Constraints


class PodTopologySpread(Predicate):
    """The pod does not make its workload more uneven than its hard spread constraints allow."""

    name = "PodTopologySpread"
    order = 130
    caption = "Would be too uneven"

    def __init__(self, context: PredicateContext) -> None:
        super().__init__(context)
        self.hard = Constraints(context, hard=True)
        self.soft = Constraints(context, hard=False)

    def _own_constraints(self, pod: int) -> list[tuple[Constraint, bool]]:
        """List the pod's own hard constraints, and whether each counts the pod itself."""
        return self.hard.constraints_of((int(self._columns.pod_shape[pod]), int(self._columns.pod_group[pod])))

    def mask(self, pod: int) -> Mask | None:
        if not self._columns.shape(pod).spread:
            return None
        carried = self._own_constraints(pod)
        return self._whatif.certain_mask(lambda: _even(carried)) if carried else None

    def reason(self, pod: int, node: int) -> str:
        for constraint, itself in self._own_constraints(pod):
            if constraint.counts.domain[node] < 0:
                return f"its spread constraint: the node has no label {constraint.key}"
            if not constraint.room(counts_itself=itself)[node]:
                value = self._columns.nodes[node].labels[constraint.key]
                return f"its spread constraint: {constraint.key} {value} would be over maxSkew {constraint.max_skew}"
        return "its spread constraint, should pods that are nominated elsewhere not come"

    def skews(self, pod: int) -> list[tuple[Constraint, int]]:
        """List the constraints that count this pod, with their skew before a move."""
        return [(constraint, constraint.skew()) for constraint in self.hard.counting(pod)]

    @staticmethod
    def broken_by(before: list[tuple[Constraint, int]]) -> str:
        """Find the constraint that an applied move broke; empty if none."""
        for constraint, skew in before:
            if constraint.skew() > max(constraint.max_skew, skew):
                return f"without the original, spread over {constraint.key} would be over maxSkew {constraint.max_skew}"
        return ""


def _even(carried: list[tuple[Constraint, bool]]) -> Mask:
    found: Mask = np.logical_and.reduce([constraint.room(counts_itself=itself) for constraint, itself in carried])
    return found
