"""What came of many rounds, as a table for people: kills and ends by method and step, and what was broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.chaos.kills import DELETED, Death, Round


@dataclass
class Tally:
    """Counts rounds as they end."""

    rounds: int = 0
    events: int = 0
    deaths: list[Death] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def add(self, done: Round) -> None:
        """One more."""
        self.rounds += 1
        self.events += done.events
        self.deaths += done.deaths
        self.broken += [f"round {self.rounds}: {each}" for each in done.broken]

    @property
    def kills(self) -> int:
        """Lives that ended where they were to."""
        return sum(death.reached for death in self.deaths)

    def table(self) -> str:
        """Rows of method and step, columns of what became of the moves."""
        rows = [_row(("method", "step", "kills", "completed", "failed", "deleted", "not reached", "points"))]
        for method, step in dict.fromkeys((death.at.method, death.at.step) for death in self._sorted()):
            here = [death for death in self.deaths if (death.at.method, death.at.step) == (method, step)]
            killed = [death for death in here if death.reached]
            ends = Counter(death.phase for death in killed)
            points = " ".join(f"{point}×{count}" for point, count in sorted(_count(killed).items()))
            counts = (len(killed), ends["Completed"], ends["Failed"], ends[DELETED], len(here) - len(killed))
            rows.append(_row((method, step, *map(str, counts), points)))
        total = f"{self.kills} kills in {self.rounds} rounds, {self.events} changes of pods watched"
        return "\n".join([*rows, total, f"broken invariants: {len(self.broken)}", *self.broken])

    def _sorted(self) -> Iterable[Death]:
        return sorted(self.deaths, key=lambda death: death.at.method)


def _count(deaths: Iterable[Death]) -> Counter[str]:
    return Counter(death.at.point for death in deaths)


def _row(cells: Iterable[str]) -> str:
    widths = (8, 18, 6, 10, 7, 8, 12, 0)
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
