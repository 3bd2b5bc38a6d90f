"""How many moves a spread constraint is away from holding, and what one more move would change of that.

Counts are even enough when all domains are within a band of maxSkew: between some level and that much above it. The
moves that takes are as many as pods are missing below the band or too many above it, whichever is more; the best level
counts. A single move changes that number by one at most, so whoever lowers it with every move makes the fewest moves
that there can be. Domains with the same count are alike, so everything goes by distinct counts: 5,000 nodes make few.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rescheduler.planning.columns import Floats, Indexes, Ints
from rescheduler.planning.predicates.spread import Constraint


class Bounds(NamedTuple):
    """What limits the band: how far down it may begin, because of pods that stay, and how far up, for want of room."""

    least: int = 0
    most: int = 2**31


class Evening:
    """What would even out one constraint, as its counts are now; make a new one when a counted pod has moved."""

    def __init__(self, constraint: Constraint, bounds: Bounds) -> None:
        self.constraint = constraint
        counts = constraint.counts.counts
        domains = counts[constraint.present]
        values, number = np.unique(domains, return_counts=True)
        self._values = values.astype(np.int64)
        self._number = number.astype(np.int64)
        self._nowhere = len(values)
        # A node that does not count is "nowhere": what leaves it or comes to it is not counted there.
        place = np.full(len(counts), self._nowhere, np.int32)
        place[constraint.present] = np.searchsorted(values, domains)
        place[-1] = self._nowhere
        self.place: Indexes = place
        """For the number of each domain (-1 for none) the number of its count, to look up in `change`."""
        self.change: Floats
        """[V+1, V+1]: what a move from a domain of one count to another domain of another count adds to `need`."""
        self.need: float
        """The fewest moves after which the constraint holds, as far as one can tell from counts and bounds."""
        self._reckon(self._levels(bounds))

    def places(self) -> Indexes:
        """[N]: for each node the number of its domain's count, to look up in `change`."""
        counts = self.constraint.counts
        found = self.place[counts.domain]
        return found if counts.eligible is None else np.where(counts.eligible, found, self._nowhere)

    def _levels(self, bounds: Bounds) -> Ints:
        """Where the band may begin. Where the bounds leave no band that all pods fit into, the nearest to one."""
        total, domains = int((self._values * self._number).sum()), len(self.constraint.present)
        if domains < max(self.constraint.min_domains, 1):
            return np.zeros(1, np.int64)  # the emptiest domain counts as empty, whatever is in it
        first, last = max(0, -(-total // domains) - self.constraint.max_skew), total // domains
        first = min(max(first, bounds.least), last)
        last = min(last, bounds.most)
        return np.arange(min(first, last), last + 1)

    def _reckon(self, level: Ints) -> None:
        values, number, skew = self._values[:, None], self._number[:, None], self.constraint.max_skew
        low, high = values < level, values >= level + skew
        below = (number * np.where(low, level - values, 0)).sum(axis=0)
        above = (number * np.where(high, values - level - skew, 0)).sum(axis=0)
        nowhere = np.zeros((1, len(level)), np.int64)
        leaves_below = np.vstack([values <= level, nowhere])
        leaves_above = np.vstack([-(values > level + skew).astype(np.int64), nowhere])
        comes_below = np.vstack([-low.astype(np.int64), nowhere])
        comes_above = np.vstack([high, nowhere])
        after = np.maximum(below + leaves_below[:, None] + comes_below, above + leaves_above[:, None] + comes_above)
        best = after.min(axis=2).astype(np.float64)
        self.need = float(best[self._nowhere, self._nowhere])
        self.change = best - self.need
