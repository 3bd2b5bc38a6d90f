"""The scheduling queue: which pod is tried next, and which pods wait for a change first.

Pods come out by priority, then by age in the queue. Pods that were refused stay out until something changes in the
cluster, and then for a moment that is longer the more they are, so that a crowd of hopeless pods costs little.
"""

from __future__ import annotations

import heapq
import math
from itertools import count

from kubemini.store import Key

_PAUSE, _PAUSE_PER_POD = 0.1, 0.005  # seconds


class SchedulingQueue:
    """Pods that have no node. Times are those of the event loop's clock."""

    def __init__(self) -> None:
        self._numbers = count()
        self._ready: list[tuple[int, int, Key]] = []
        self._number: dict[Key, int] = {}
        """Ready pods with their newest number: the heap may still hold older ones."""
        self._refused: dict[Key, int] = {}
        """Refused pods with their priority."""
        self.retry_at = math.inf
        """When refused pods are tried again; never, until something changes."""

    def add(self, key: Key, priority: int) -> None:
        """Queue a pod that is new or has changed."""
        self._refused.pop(key, None)
        self._number[key] = number = next(self._numbers)
        heapq.heappush(self._ready, (-priority, number, key))

    def drop(self, key: Key) -> None:
        """Forget a pod that needs no node any more."""
        self._number.pop(key, None)
        self._refused.pop(key, None)

    def pop(self, now: float) -> Key | None:
        """The next pod to try, if there is one."""
        if self.retry_at <= now:
            self.retry_at = math.inf
            for key, priority in list(self._refused.items()):
                self.add(key, priority)
        while self._ready:
            _, number, key = heapq.heappop(self._ready)
            if self._number.get(key) == number:
                del self._number[key]
                return key
        return None

    def refuse(self, key: Key, priority: int) -> None:
        """Keep a pod that could not be placed until something changes."""
        self._refused[key] = priority

    def retry_refused(self, now: float) -> None:
        """Try refused pods again soon: something has changed in the cluster."""
        if self._refused:
            self.retry_at = min(self.retry_at, now + _PAUSE + _PAUSE_PER_POD * len(self._refused))
