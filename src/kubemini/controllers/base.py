"""How the embedded controllers run: changes become keys, keys wait in a queue, each key is reconciled by itself.

A controller is a class with three things: the kinds that it looks at, the keys of its own objects that a change
concerns, and what to do about one key. `Runner` does the rest as client-go's work queues do: a key waits at most once,
is never worked on twice at a time, and comes back later, and ever later, when its reconciliation fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from kubemini.kinds import Kind
from kubemini.refusals import Refusal
from kubemini.store import Change, Key, Store

_log = logging.getLogger(__name__)
_WORKERS = 4  # so that one slow webhook does not hold up every workload
_FIRST_DELAY, _LONGEST_DELAY = 0.01, 10.0


class Controller(Protocol):
    """What a controller has to say."""

    @property
    def name(self) -> str:
        """What it is called in the log."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds whose changes it wants to see."""

    def concerned(self, change: Change) -> Iterable[Key]:
        """The keys of its own objects that a change concerns."""

    async def reconcile(self, key: Key) -> float | None:
        """Bring one object towards what its spec says; the answer is in how many seconds to look again, if at all."""


class Runner:
    """One controller at work."""

    def __init__(self, store: Store, controller: Controller, rest: float = 0.0) -> None:
        self._store = store
        self._controller = controller
        self._rest = rest
        """Seconds for which a key that was just looked at is left alone: then many changes at once count as one."""
        self._waiting: deque[Key] = deque()
        self._queued: set[Key] = set()
        self._active: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._resting: dict[Key, bool] = {}
        """Keys that were just looked at, and whether they are to be looked at again."""
        self._wake = asyncio.Semaphore(0)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do now; keys that wait for their time do not count."""
        return not self._waiting and not self._active and not any(self._resting.values())

    async def run(self) -> None:
        """Work until cancelled."""
        unsubscribe = self._store.subscribe(self._changed, *self._controller.kinds)
        try:
            for kind in self._controller.kinds:
                for entry in self._store.entries(kind):
                    self._changed(Change("ADDED", kind, entry, None))
            async with asyncio.TaskGroup() as workers:
                for _ in range(_WORKERS):
                    workers.create_task(self._work())
        finally:
            unsubscribe()
            for timer in self._timers.values():
                timer.cancel()

    def add(self, key: Key) -> None:
        """Have a key looked at soon."""
        if key in self._active:
            self._again.add(key)
        elif key in self._resting:
            self._resting[key] = True
        elif key not in self._queued:
            self._queued.add(key)
            self._waiting.append(key)
            self._wake.release()

    def add_later(self, key: Key, seconds: float) -> None:
        """Have a key looked at after a while; the sooner of two such wishes counts."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    def _rested(self, key: Key) -> None:
        if self._resting.pop(key):
            self.add(key)

    def _due(self, key: Key) -> None:
        del self._timers[key]
        self.add(key)

    def _changed(self, change: Change) -> None:
        for key in self._controller.concerned(change):
            self.add(key)

    async def _work(self) -> None:
        while True:
            await self._wake.acquire()
            key = self._waiting.popleft()
            self._queued.discard(key)
            self._active.add(key)
            try:
                await self._reconcile(key)
            finally:
                self._active.discard(key)
            again = key in self._again
            self._again.discard(key)
            if self._rest:
                self._resting[key] = again
                asyncio.get_running_loop().call_later(self._rest, self._rested, key)
            elif again:
                self.add(key)
            await asyncio.sleep(0)  # reconciling seldom waits for anything: let others have their turn

    async def _reconcile(self, key: Key) -> None:
        try:
            again = await self._controller.reconcile(key)
        except Refusal as refusal:
            _log.info("%s: %s: %s; tried again", self._controller.name, "/".join(key), refusal)
            self._retry(key)
        except Exception:  # noqa: BLE001  one object that trips a controller must not stop it for the others
            _log.exception("%s: %s failed; tried again", self._controller.name, "/".join(key))
            self._retry(key)
        else:
            self._failures.pop(key, None)
            if again is not None:
                self.add_later(key, again)

    def _retry(self, key: Key) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_later(key, min(_FIRST_DELAY * 2 ** min(failures, 20), _LONGEST_DELAY))
