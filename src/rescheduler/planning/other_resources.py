"""What nodes are used for in resources that have no threshold: pod count, devices, ephemeral storage and the like.

They make no node hot and are not balanced, so `planning.load` leaves them out. Of a node that is to be emptied all that
it has is looked at, though: one whose devices are all in use is not idle. None of it is measured: requests count.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rescheduler.planning.columns import Floats, Ints, Mask
from rescheduler.planning.view import View


class OtherResources:
    """Per cent of allocatable by resource [R], of those that a node has and that do not count; follows the view."""

    def __init__(self, view: View) -> None:
        self._view = view
        columns = view.columns
        had: Mask = np.asarray(columns.allocatable.any(axis=1))
        found = [(name, row) for name, row in columns.resource_index.items() if had[row] and name not in view.names]
        self.names = [name for name, _ in found]
        self._rows = np.array([row for _, row in found], np.intp)
        self._inverse: Floats = 100.0 / np.maximum(columns.allocatable[self._rows], 1)

    @property
    def first(self) -> Floats:
        """[R, N]: before any move."""
        found: Floats = self._view.columns.used[self._rows] * self._inverse
        return found

    @property
    def now(self) -> Floats:
        """[R, N]: by those who are there; pods that are only expected may come elsewhere, or never."""
        whatif = self._view.whatif
        used: Ints = whatif.used[self._rows]
        for pod, node in whatif.expected.items():
            used[:, node] -= self._view.columns.requests(pod)[self._rows]
        found: Floats = used * self._inverse
        return found

    def within(self, use: Floats, limits: Mapping[str, float], default: float) -> Mask:
        """[N]: nodes that are used up to these limits, if this [R, N] is what they use."""
        most: Floats = np.array([limits.get(name, default) for name in self.names], np.float64)
        return np.asarray((use <= most[:, None]).all(axis=0))
