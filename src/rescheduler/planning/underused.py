"""Which nodes are used so little that they may take pods from hot ones, by the `lowThresholds` of a strategy.

A node that was underused before any move stays so for the plan, up to its upper thresholds: else it would take one pod
and be done with, and a hot node with many small pods would stay hot. One that becomes underused by the plan's own moves
counts as well, so that the next plan finds no target that this one had not.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rescheduler.planning.columns import Floats, Ints, Mask
from rescheduler.planning.view import View


class Underused:
    """Nodes that use no more than their low thresholds of any resource; follows the view."""

    def __init__(self, view: View, pool: str | None, low: Mapping[str, float]) -> None:
        self._view = view
        self._limit: Ints = view.levels.low(pool, low)
        self.first: Mask = np.asarray((view.first <= self._limit).all(axis=0))
        """[N]: before any move."""

    def cost(self, pod: int) -> Floats:
        """[N]: what targets are worth to a pod from a hot node; infinite for those that are not underused."""
        return np.where(self.first | self._view.within(self._limit), self._view.cost(pod), np.inf)


def too_few(found: int, wanted: int, what: str) -> str:
    """Why a strategy waits that acts only if so many nodes are underused; empty if enough are."""
    if found >= wanted:
        return ""
    return f"{found} {'node is' if found == 1 else 'nodes are'} {what}, and minUnderusedNodes is {wanted}"
