"""How evenly the nodes were used, over time: samples that are kept for days, ever further apart as they grow old.

`pulse` takes one every few seconds. What falls out of one tier goes on to the next, if it is long enough after the last
that went there: minutes are seen in seconds, hours in minutes, days in quarters of an hour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from rescheduler.web.standing import Spread

EVERY = 5.0
"""Seconds between samples."""
_TIERS = ((240, EVERY), (240, 60.0), (240, 900.0))  # how many, and how far apart in seconds


@dataclass(frozen=True, slots=True)
class Sample:
    """The spread at one time, and how many migrations had been completed."""

    time: float
    spread: Spread
    completed: int


class Samples:
    """All that are kept: 720 at most, of 20 minutes, 4 hours and 2.5 days."""

    def __init__(self) -> None:
        self._tiers: list[deque[Sample]] = [deque() for _ in _TIERS]

    def add(self, sample: Sample) -> None:
        """Keep one more."""
        for tier, (most, apart) in zip(self._tiers, _TIERS, strict=True):
            if tier and 0 <= sample.time - tier[-1].time < apart * 0.9:  # timers are not that exact
                return
            tier.append(sample)
            if len(tier) <= most:
                return
            sample = tier.popleft()

    def all(self) -> Iterator[Sample]:
        """The oldest first."""
        for tier in reversed(self._tiers):
            yield from tier

    @property
    def last(self) -> Sample | None:
        """The newest."""
        return self._tiers[0][-1] if self._tiers[0] else None
