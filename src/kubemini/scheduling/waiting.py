"""Who is to be scheduled next, and who waits for something to change first.

Pods come out by priority, then by how long they have been queued. A pod that was refused stays out until something
happens that may cure it (`Cause`), and then for a moment longer the more often it was refused, so that a crowd of
hopeless pods costs little. As a last resort it is tried again every five minutes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from kubemini.scheduling.causes import Cause
from kubemini.store import Key

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 10.0
_LAST_RESORT = 300.0


@dataclass(slots=True)
class _Refused:
    rules: frozenset[str]
    refusals: int
    since: float
    due: float


class Waiting:
    """The queue. Times are those of the event loop's clock."""

    def __init__(self) -> None:
        self._turns = count()
        self._ready: list[tuple[int, int, Key]] = []
        self._turn: dict[Key, int] = {}
        """The pods that are ready, with the turn that counts: the heap may hold older ones of the same pod."""
        self._refused: dict[Key, _Refused] = {}
        self._priority: dict[Key, int] = {}
        self._due: list[tuple[float, Key]] = []

    def __len__(self) -> int:
        """How many could be tried now."""
        return len(self._turn)

    def add(self, key: Key, priority: int) -> None:
        """A pod is to be scheduled; one that is new, or not the same as before."""
        self._refused.pop(key, None)
        self._priority[key] = priority
        self._make_ready(key)

    def drop(self, key: Key) -> None:
        """A pod is no longer to be scheduled."""
        self._turn.pop(key, None)
        self._refused.pop(key, None)
        self._priority.pop(key, None)

    def next(self, now: float) -> Key | None:
        """Whose turn it is, if anybody's."""
        while self._due and self._due[0][0] <= now:
            due, key = heapq.heappop(self._due)
            refused = self._refused.get(key)
            if refused is not None and refused.due == due and key not in self._turn:
                self._make_ready(key)
        while self._ready:
            _, turn, key = heapq.heappop(self._ready)
            if self._turn.get(key) == turn:
                del self._turn[key]
                return key
        return None

    def refuse(self, key: Key, rules: Iterable[str], now: float) -> None:
        """It could not be placed, because of these rules."""
        before = self._refused.get(key)
        refusals = before.refusals + 1 if before else 1
        self._refused[key] = _Refused(frozenset(rules), refusals, now, math.inf)
        self._wake(key, now + _LAST_RESORT)

    def failed(self, key: Key, now: float) -> None:
        """It could not be tried: what failed may work the next time, so that is soon."""
        self.refuse(key, (), now)
        self._wake(key, now + _pause(self._refused[key]))

    def happened(self, causes: set[Cause]) -> None:
        """Something has changed in the cluster."""
        for key, refused in self._refused.items():
            if key not in self._turn and any(cause.cures(refused.rules) for cause in causes):
                self._wake(key, refused.since + _pause(refused))

    def next_due(self) -> float:
        """When somebody has waited long enough."""
        while self._due:
            due, key = self._due[0]
            refused = self._refused.get(key)
            if refused is not None and refused.due == due and key not in self._turn:
                return due
            heapq.heappop(self._due)
        return math.inf

    def _wake(self, key: Key, due: float) -> None:
        refused = self._refused[key]
        if due < refused.due:
            refused.due = due
            heapq.heappush(self._due, (due, key))

    def _make_ready(self, key: Key) -> None:
        self._turn[key] = turn = next(self._turns)
        heapq.heappush(self._ready, (-self._priority[key], turn, key))


def _pause(refused: _Refused) -> float:
    return min(_FIRST_PAUSE * 2.0 ** min(refused.refusals, 20), _LONGEST_PAUSE)
