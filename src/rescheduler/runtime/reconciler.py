"""The work queue: keys that something is to be done for, each given to one worker at a time.

Watches and timers add keys, workers take them. A key that is added while it is worked on comes again afterwards. What
fails comes again ever more slowly, and after too many failures in a row only when something changes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import structlog

from rescheduler.kube.errors import ClusterError

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
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

    def __init__(self, retries: BackoffPolicy | None = None) -> None:
        self._retries = retries or BackoffPolicy()
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


class KeyedLock:
    """One lock a key, for as long as somebody holds or awaits it."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._users: dict[Hashable, int] = {}

    @asynccontextmanager
    async def acquire(self, keys: Iterable[Hashable]) -> AsyncGenerator[None]:
        """Hold all these keys; they are taken in a fixed order, so that nobody waits for each other."""
        async with AsyncExitStack() as held:
            for key in sorted(set(keys), key=repr):
                await held.enter_async_context(self._one(key))
            yield

    @asynccontextmanager
    async def _one(self, key: Hashable) -> AsyncGenerator[None]:
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._locks[key]


_log = structlog.stdlib.get_logger(__name__)
_TOGETHER = 0.2  # seconds; what calls several times in a row is answered once


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """Something to be done every so many seconds."""

    name: str
    every: float | Callable[[], float]
    """Asked each time, where the operator may change it."""
    do: Callable[[], Awaitable[object]]
    called: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by whoever wants it done sooner."""

    async def run(self) -> None:
        """Do it until cancelled; the time that it takes counts as time waited."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + (self.every() if callable(self.every) else self.every)
            self.called.clear()
            await self.run_once()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due - clock())):
                    await self.called.wait()
                    await asyncio.sleep(_TOGETHER)

    async def run_once(self) -> bool:
        """Do it; whether it went well."""
        try:
            await self.do()
        except ClusterError as error:
            _log.warning("a duty failed; done again", duty=self.name, why=str(error))
            return False
        except Exception:  # noqa: BLE001 - one bad object never stops the loop
            _log.exception("a bug of ours, or an object that makes no sense", duty=self.name)
            return False
        return True
