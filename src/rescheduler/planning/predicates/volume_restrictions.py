from __future__ import annotations

from collections import Counter

import numpy as np

from rescheduler.planning.columns import Mask
from rescheduler.planning.predicates.base import Predicate, PredicateContext
from rescheduler.planning.predicates.support.claims import claiming_pods, claims_of

ONE_POD = "ReadWriteOncePod"


class VolumeRestrictions(Predicate):
    """A claim for one pod only is not in use by another."""

    name = "VolumeRestrictions"
    order = 160
    caption = "Volume is in use"

    def __init__(self, context: PredicateContext) -> None:
        super().__init__(context)
        self._users: Counter[tuple[str, str]] | None = None
        self._whatif.add_listener(self)

    def _exclusive_claims(self, pod: int) -> list[tuple[str, str]]:
        return [
            (claim.namespace, claim.name)
            for _, claim in claims_of(self._columns, pod)
            if claim is not None and ONE_POD in claim.access_modes
        ]

    def on_change(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        if self._users is not None and self._columns.shape(pod).claims:
            for claim in self._exclusive_claims(pod):
                self._users[claim] += delta

    def mask(self, pod: int) -> Mask | None:
        if not self._columns.shape(pod).claims:
            return None
        claimed = self._exclusive_claims(pod)
        if self._users is None:
            placed = (p for p in claiming_pods(self._columns) if self._whatif.at[p] >= 0)
            self._users = Counter(claim for p in placed for claim in self._exclusive_claims(p))
        if not any(self._users[claim] for claim in claimed):
            return None
        return np.zeros(len(self._columns.nodes), np.bool_)

    def reason(self, pod: int, node: int) -> str:
        return f"claim {self._exclusive_claims(pod)[0][1]} is for one pod only, and in use"
