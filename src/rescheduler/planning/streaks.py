"""For how many cycles in a row nodes have been hot: a node that is hot for a moment is not worth a move.

The plan loop counts after each plan; the next snapshot carries the counts (`hot_for`), and the planner lets a node
count as hot when there are enough (`hotAfterCycles` of its pool). A new leader counts from nothing: it waits rather
longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rescheduler.model.snapshot import ClusterSnapshot


class Streaks:
    """The counts of one plan loop."""

    def __init__(self) -> None:
        self._cycles: Mapping[str, int] = {}

    def laid_over(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot with the counts so far."""
        return replace(snapshot, hot_for=self._cycles)

    def count(self, hot: Iterable[str]) -> None:
        """One more cycle, in which these nodes were hot; the others begin anew."""
        self._cycles = {name: self._cycles.get(name, 0) + 1 for name in hot}
