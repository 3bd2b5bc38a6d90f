"""The scheduling queue: which pod is tried next, and which pods wait for a change first.

Pods come out by priority, then by age in the queue. A pod that was refused stays out until something changes in the
cluster, and then for a back-off that doubles with every refusal, so that a crowd of hopeless pods costs little.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from itertools import count

from kubemini.store import Key

_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.1, 10.0


@dataclass(slots=True)
class _Refused:
    attempts: int
    retry_at: float
    """When its back-off ends."""
    due: float = math.inf
    """When it is tried again; never, until something changes."""


class SchedulingQueue:
    """Pods that have no node. Times are those of the event loop's clock."""

    def __init__(self) -> None:
        self._numbers = count()
        self._ready: list[tuple[int, int, Key]] = []
        self._number: dict[Key, int] = {}
        """Ready pods with their newest number: the heap may still hold older ones."""
        self._refused: dict[Key, _Refused] = {}
        self._priority: dict[Key, int] = {}
        self.next_due = math.inf
        """When to look for refused pods that become ready; a pod that was dropped meanwhile may make it too early."""

    def add(self, key: Key, priority: int) -> None:
        """Queue a pod that is new or has changed."""
        self._refused.pop(key, None)
        self._priority[key] = priority
        self._make_ready(key)

    def drop(self, key: Key) -> None:
        """Forget a pod that needs no node any more."""
        self._number.pop(key, None)
        self._refused.pop(key, None)
        self._priority.pop(key, None)

    def pop(self, now: float) -> Key | None:
        """The next pod to try, if there is one."""
        if self.next_due <= now:
            self._end_backoffs(now)
        while self._ready:
            _, number, key = heapq.heappop(self._ready)
            if self._number.get(key) == number:
                del self._number[key]
                return key
        return None

    def refuse(self, key: Key, now: float, *, retry: bool = False) -> None:
        """Keep a pod that could not be placed until something changes; with `retry` only until its back-off ends."""
        if key not in self._priority:
            return
        before = self._refused.get(key)
        attempts = before.attempts + 1 if before else 1
        retry_at = now + min(_FIRST_BACKOFF * 2.0 ** min(attempts - 1, 20), _LONGEST_BACKOFF)
        self._refused[key] = refused = _Refused(attempts, retry_at, retry_at if retry else math.inf)
        self.next_due = min(self.next_due, refused.due)

    def retry_refused(self) -> None:
        """Try all refused pods again when their back-off ends: something has changed in the cluster."""
        for key, refused in self._refused.items():
            refused.due = refused.retry_at
            if key not in self._number:
                self.next_due = min(self.next_due, refused.due)

    def _end_backoffs(self, now: float) -> None:
        self.next_due = math.inf
        for key, refused in self._refused.items():
            if key in self._number:
                continue
            if refused.due <= now:
                self._make_ready(key)
            else:
                self.next_due = min(self.next_due, refused.due)

    def _make_ready(self, key: Key) -> None:
        self._number[key] = number = next(self._numbers)
        heapq.heappush(self._ready, (-self._priority[key], number, key))
