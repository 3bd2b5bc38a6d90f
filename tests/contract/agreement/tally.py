"""Counts cases, and shows in a table how many had each answer, and how often each predicate was alone in refusing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.contract.agreement.rules import RULES
from tests.contract.agreement.trial import Case


@dataclass
class Tally:
    """What was counted so far."""

    cases: int = 0
    yes: int = 0
    worlds: int = 0
    seconds: float = 0.0
    refusing: Counter[str] = field(default_factory=Counter)
    alone: Counter[str] = field(default_factory=Counter)
    unsteady: list[Case] = field(default_factory=list)
    disagreements: list[Case] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)

    def add(self, case: Case) -> None:
        self.cases += 1
        self.yes += case.theirs.yes
        self.refusing.update(case.refusals.keys())
        if len(case.refusals) == 1 and case.agreed:
            self.alone.update(case.refusals.keys())
        if not case.agreed:
            self.disagreements.append(case)
        elif case.looks > 1:
            self.unsteady.append(case)

    @property
    def yes_percent(self) -> float:
        return 100 * self.yes / max(self.cases, 1)

    def table(self) -> str:
        """For people."""
        pace = self.cases / max(self.seconds, 0.001)
        lines = [
            f"{self.cases} cases, {len(self.disagreements)} disagreements",
            f"{self.worlds} worlds, {pace:.0f} cases/s, {len(self.unsteady)} agreed only at a second look",
            f"bound {self.yes} ({self.yes_percent:.0f} %), refused {self.cases - self.yes}",
            f"{'predicate':20} {'refuses':>8} {'alone':>8}",
        ]
        lines += [f"{name:20} {self.refusing[name]:8} {self.alone[name]:8}" for name in RULES]
        return "\n".join(lines)
