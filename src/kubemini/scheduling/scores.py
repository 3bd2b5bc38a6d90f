"""Which of the nodes that are left for a pod is best: kube-scheduler's scores, with the weights of its default profile.

Each score gives 0 to 100, or nothing where it would give every node the same. Of equal nodes the real one takes one by
chance; here the one with the fewest pods is taken, and of those the first by name, so that the same cluster always
comes out the same and its nodes fill evenly. ImageLocality is left out: nodes here report no images.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kubemini.scheduling.company import Company
from kubemini.scheduling.evenness import Evenness
from kubemini.scheduling.liking import Liking
from kubemini.scheduling.load import Load
from kubemini.scheduling.siblings import Siblings
from kubemini.scheduling.wishes import Wishes
from rescheduler.model.shape import Shape
from rescheduler.planning.carriers import Growth
from rescheduler.planning.columns import PODS, Ints, Mask
from rescheduler.planning.feasibility import Feasibility

_TAINTS, _PREFERENCE, _SPREAD, _COMPANY = 3, 2, 2, 2
_LOWEST = np.iinfo(np.int64).min


class Scores:
    """All scores over one what-if."""

    def __init__(self, feasibility: Feasibility, wishes: Mapping[Shape, Wishes], siblings: Siblings) -> None:
        whatif = feasibility.whatif
        self._whatif = whatif
        self._pods = whatif.columns.resource_index[PODS]
        self._load = Load(whatif, wishes)
        self._liking = Liking(whatif.columns, feasibility.node_masks)
        self._company = Company(whatif, feasibility.matching, wishes)
        self._evenness = Evenness(whatif.columns, feasibility.matching, feasibility.node_masks, siblings)

    def grown(self, growth: Growth) -> None:
        """The columns have taken in more pods."""
        self._company.grown(growth.carriers)

    def services_changed(self) -> None:
        """Which pods belong together has changed."""
        self._evenness.forget()

    def total(self, pod: int, left: Mask) -> Ints:
        """[N]: the weighted sum; it means something only where `left` is set, and at least one node must be."""
        total = self._load.scores(pod)
        for weight, score in (
            (_TAINTS, self._liking.welcome(pod, left)),
            (_PREFERENCE, self._liking.preference(pod, left)),
            (_SPREAD, self._evenness.score(pod, left)),
            (_COMPANY, self._company.score(pod, left)),
        ):
            if score is not None:
                total += weight * score
        return total

    def best(self, total: Ints, left: Mask) -> int:
        """The node with the highest total among those that are left."""
        ranked = np.where(left, total, _LOWEST)
        equal = np.flatnonzero(ranked == ranked.max())
        return int(equal[np.argmin(self._whatif.used[self._pods, equal])])
