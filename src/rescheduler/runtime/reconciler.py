"""The work queue and what runs on it: reconcilers, which work on keys, and periodic tasks.

Watches and timers add keys; workers take them. A key is given to one worker at a time: one that is added while it is
being worked on comes again afterwards. Failures are retried with exponential back-off. After too many failures in a row
a key waits for the next change, unless the reconciler says otherwise.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar
from weakref import WeakValueDictionary

import structlog

from rescheduler.kube.errors import ClusterError

_log = structlog.stdlib.get_logger(__name__)
_DEBOUNCE = 0.2  # seconds; several wake-ups in a row cause one run
K = TypeVar("K")
Key = TypeVar("Key", bound=tuple[str, ...])


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Exponential back-off with jitter, for a limited number of retries."""

    first: float = 0.5
    longest: float = 60.0
    limit: int = 20
    jitter: Callable[[], float] = random.random

    def delay(self, failures: int) -> float | None:
        """Seconds until the next try after this many failures in a row; None when there are no more tries."""
        if failures > self.limit:
            return None
        return min(self.longest, self.first * 2.0 ** (failures - 1)) * (0.5 + 0.5 * self.jitter())


class WorkQueue(Generic[K]):
    """Keys in the order in which they became due, with timers and failure counts."""

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
        """Queue a key for the next free worker."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._due.put_nowait(key)

    def add_later(self, key: K, seconds: float) -> None:
        """Queue a key after a delay; replaces an earlier timer of the same key."""
        self._cancel(key)
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(seconds, self._ring, key)

    async def take(self) -> K:
        """Return the next key; the caller must call `done` or `failed` for it."""
        key = await self._due.get()
        self._waiting.discard(key)
        self._busy.add(key)
        self._cancel(key)
        return key

    def done(self, key: K, again: float | None) -> None:
        """Release a key after success; queue it again after `again` seconds, if given."""
        self._failures.pop(key, None)
        self._free(key)
        if again is not None and key not in self._waiting:
            self.add_later(key, again)

    def failed(self, key: K) -> float | None:
        """Release a key after a failure; return the seconds until it is retried, or None."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        delay = self._retries.delay(failures)
        if delay is None and key in self._again:
            delay = self._retries.longest  # the key has changed meanwhile, and no further event will say so
        # A change during the attempt does not cause an immediate retry: our own writes would defeat the back-off.
        self._again.discard(key)
        self._free(key)
        if delay is not None:
            self.add_later(key, delay)
        return delay

    def is_busy(self, key: K) -> bool:
        """Whether a worker has the key now."""
        return key in self._busy

    @property
    def idle(self) -> bool:
        """Whether the queue is empty and all workers are free; timers may be pending."""
        return not self._waiting and not self._busy

    def close(self) -> None:
        """Cancel all timers."""
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


class Reconciler(ABC, Generic[Key]):
    """Runs workers over a queue of keys, and retries failed keys with back-off."""

    noun: ClassVar[str]
    """The log field that names a key."""

    def __init__(self, workers: int, backoff: BackoffPolicy | None = None) -> None:
        self._workers = workers
        self._queue: WorkQueue[Key] = WorkQueue(backoff)

    @abstractmethod
    async def reconcile(self, key: Key) -> float | None:
        """Bring one key forward; return the seconds until it must be looked at again, if at all."""

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            self._queue.close()

    def format_key(self, key: Key) -> str:
        """The key in log lines."""
        return "/".join(key)

    def retry_delay(self, key: Key) -> float | None:
        """Seconds between tries of a key once the back-off is exhausted; None waits for the next change."""
        return None

    def on_failure(self, key: Key, delay: float | None) -> None:
        """Called after a failure, with the seconds until the next try."""

    def on_finish(self) -> None:
        """Called after each attempt."""

    async def _work(self) -> None:
        while True:
            key = await self._queue.take()
            try:
                again = await self.reconcile(key)
            except ClusterError as error:
                self._fail(key, str(error))
            except Exception as error:  # noqa: BLE001 - one bad object never stops the loop
                _log.exception("internal error or malformed object", **{self.noun: self.format_key(key)})
                self._fail(key, f"{type(error).__name__}: {error}")
            else:
                self._queue.done(key, again)
            self.on_finish()

    def _fail(self, key: Key, why: str) -> None:
        delay = self._queue.failed(key)
        if delay is None and (delay := self.retry_delay(key)) is not None:
            self._queue.add_later(key, delay)
        self.on_failure(key, delay)
        when = "when something changes" if delay is None else f"in {delay:.1f} s"
        _log.warning("reconcile failed", **{self.noun: self.format_key(key)}, why=why, again=when)


class KeyedLock:
    """One lock per key; a lock exists while it is held or awaited."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def acquire(self, keys: Iterable[Hashable]) -> AsyncGenerator[None]:
        """Hold the locks of all these keys; a fixed order prevents deadlocks."""
        async with AsyncExitStack() as held:
            for key in sorted(set(keys), key=repr):
                await held.enter_async_context(self._locks.setdefault(key, asyncio.Lock()))
            yield


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """An action that is repeated every so many seconds."""

    name: str
    interval: float | Callable[[], float]
    """Read before each run, because the configuration may change it."""
    action: Callable[[], Awaitable[object]]
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    """Set it to run the action before the interval has passed."""

    async def run(self) -> None:
        """Repeat the action until cancelled; the interval includes the time that the action takes."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + (self.interval() if callable(self.interval) else self.interval)
            self.wake.clear()
            await self.run_once()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due - clock())):
                    await self.wake.wait()
                    await asyncio.sleep(_DEBOUNCE)

    async def run_once(self) -> bool:
        """Run the action; return whether it succeeded."""
        try:
            await self.action()
        except ClusterError as error:
            _log.warning("periodic task failed, retrying", task=self.name, why=str(error))
            return False
        except Exception:  # noqa: BLE001 - one bad object never stops the loop
            _log.exception("internal error or malformed object", task=self.name)
            return False
        return True
