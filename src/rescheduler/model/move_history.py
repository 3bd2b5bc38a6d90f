"""The outcomes of a workload's past moves, and the back-off that follows from them.

`planning.outcomes` makes it from finished migrations; the guard Outcome, `explain` and the page read it. A move that
did not pay, came back, or failed after the eviction of its pod is bad. n bad moves in a row mean a back-off of
coolDown × 2^n, up to longestRest, from the end of the last move. A move that paid ends the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from rescheduler.model.migration import OutcomeVerdict, PodMigration
from rescheduler.model.policy import Policy
from rescheduler.model.strategy_traits import is_mandatory
from rescheduler.model.time import MAX_INSTANT, Timestamp, format_instant

FAILED: Final = "Failed"
"""The verdict of a move that evicted its pod and then failed."""
_DOUBLINGS = 60  # far beyond every rest that a configuration can mean, and a float still holds it


def is_by_choice(migration: PodMigration) -> bool:
    """Whether the move was made for its gain, so that its outcome counts."""
    return not is_mandatory(migration.spec.strategy)


def is_bad(verdict: str) -> bool:
    """Whether a move with this verdict was not worth it."""
    return verdict in (OutcomeVerdict.NOT_PAID, OutcomeVerdict.CAME_BACK, FAILED)


class PastMove(msgspec.Struct, frozen=True):
    """A move that has ended; without a verdict it has not been assessed yet."""

    migration: str
    pod: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    strategy: str
    finished: Timestamp
    predicted: float | None = None
    realised: float | None = None
    verdict: OutcomeVerdict | Literal["", "Failed"] = ""
    counts: bool = True
    """False for mandatory moves: they neither start nor end a back-off."""


class MoveBackoff(msgspec.Struct, frozen=True):
    """The time in which a workload is not moved by choice, because its last moves were bad."""

    bad: int
    """How many bad ones there were in a row."""
    until: Timestamp
    why: str


@dataclass(frozen=True, slots=True)
class MoveHistory:
    """The moves of one workload that are remembered."""

    ended_moves: tuple[PastMove, ...]
    """The newest first, with those that failed after the eviction of their pod."""
    streak: tuple[PastMove, ...] = ()
    """The bad ones since the last that paid, the newest first."""

    @property
    def moves(self) -> tuple[PastMove, ...]:
        """The completed ones, the newest first."""
        return tuple(move for move in self.ended_moves if move.verdict != FAILED)

    @property
    def ended(self) -> float:
        """The end of the last move that counts."""
        return max(move.finished for move in self.ended_moves if move.counts)

    def rest(self, policy: Policy) -> MoveBackoff | None:
        """How long it rests from its last move on; None where no bad move, or no such policy, makes it rest."""
        length = backoff_after(len(self.streak), policy)
        if not self.streak or length <= max(policy.cool_down, 0.0):
            return None  # the guard CoolDown covers it
        until = min(self.ended + length, MAX_INSTANT)  # a status may contain any time
        times = f"{length / policy.cool_down:g} × coolDown" if length < policy.outcomes.longest_rest else "longestRest"
        why = f"{self._describe_streak()}: it rests until {format_instant(until)}, {times}"
        return MoveBackoff(len(self.streak), until, why)

    def _describe_streak(self) -> str:
        """What was bad of its last moves."""
        last, count = self.streak[0], len(self.streak)
        verdicts = {move.verdict for move in self.streak}
        ways = (
            (OutcomeVerdict.NOT_PAID, "did not pay"),
            (OutcomeVerdict.CAME_BACK, "came back"),
            (FAILED, "failed after the eviction"),
        )
        did = " or ".join(words for verdict, words in ways if verdict in verdicts)
        which = "its last move" if count == 1 else f"its last {count} moves"
        return f"{which} {did}{format_gains(last.predicted, last.realised)}"


def backoff_after(bad: int, policy: Policy) -> float:
    """Seconds of rest after so many bad moves in a row; none after none."""
    if bad <= 0:
        return 0.0
    return min(policy.cool_down * 2.0 ** min(bad, _DOUBLINGS), policy.outcomes.longest_rest)


def longest_streak(policy: Policy) -> int:
    """The number of bad moves in a row that leads to the longest back-off; more make no difference."""
    if policy.cool_down <= 0:
        return 1
    longest = policy.outcomes.longest_rest
    return next((bad for bad in range(1, _DOUBLINGS) if backoff_after(bad, policy) >= longest), _DOUBLINGS)


def format_gains(predicted: float | None, realised: float | None) -> str:
    """Both gains, in brackets, where both are known."""
    if predicted is None or realised is None:
        return ""
    return f" ({predicted:.1f} points predicted, {realised:.1f} came true)"
