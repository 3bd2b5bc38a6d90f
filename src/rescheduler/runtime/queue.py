"""The work queue: keys that something is to be done for, each given to one worker at a time.

Watches and timers add keys, workers take them. A key that is added while it is worked on comes again afterwards. What
fails comes again ever more slowly, and after too many failures in a row only when something changes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Retries:
    """How failures are repeated: exponentially, with jitter, and not for ever."""

    first: float = 0.5
    longest: float = 60.0
    limit: int = 20
    jitter: Callable[[], float] = random.random

    def delay(self, failures: int) -> float | None:
        """Seconds until the next try after so many failures in a row; None for no more tries."""
        if failures > self.limit:
            return None
        return min(self.longest, self.first * 2.0 ** (failures - 1)) * (0.5 + 0.5 * self.jitter())


class WorkQueue(Generic[K]):
    """Keys in the order in which they became due."""

    def __init__(self, retries: Retries | None = None) -> None:
        self._retries = retries or Retries()
        self._due: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        """Keys in the queue."""
        self._busy: set[K] = set()
        self._again: set[K] = set()
        """Busy keys that were added meanwhile."""
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}

    def add(self, key: K) -> None:
        """Have a key worked on as soon as a worker is free."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._due.put_nowait(key)

    def add_later(self, key: K, seconds: float) -> None:
        """Have a key worked on after some time; this replaces an earlier appointment of the same key."""
        self._cancel(key)
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(seconds, self._ring, key)

    async def take(self) -> K:
        """The next key; `done` or `failed` must be called for it."""
        key = await self._due.get()
        self._waiting.discard(key)
        self._busy.add(key)
        self._cancel(key)
        return key

    def done(self, key: K, again: float | None) -> None:
        """A key has been worked on, and is to be looked at again after so many seconds, or not."""
        self._failures.pop(key, None)
        self._free(key)
        if again is not None and key not in self._waiting:
            self.add_later(key, again)

    def failed(self, key: K) -> float | None:
        """Working on a key has failed; the answer is when it is tried again, if at all."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        delay = self._retries.delay(failures)
        if delay is None and key in self._again:
            delay = self._retries.longest  # something has changed: nobody would tell of it again
        # What changed meanwhile is no reason to try at once: a change that we make ourselves would defeat the pause.
        self._again.discard(key)
        self._free(key)
        if delay is not None:
            self.add_later(key, delay)
        return delay

    def failures(self, key: K) -> int:
        """How often in a row working on a key has failed."""
        return self._failures.get(key, 0)

    def is_busy(self, key: K) -> bool:
        """Whether somebody works on a key just now."""
        return key in self._busy

    @property
    def idle(self) -> bool:
        """Whether nothing is due and nobody works; appointments may be open."""
        return not self._waiting and not self._busy

    def close(self) -> None:
        """Forget all appointments."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _free(self, key: K) -> None:
        self._busy.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _ring(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _cancel(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
