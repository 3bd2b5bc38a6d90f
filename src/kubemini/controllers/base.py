"""The loop behind every controller: changes become keys, keys wait in a work queue, workers reconcile them.

A controller names the kinds that it watches, maps a change to the keys of its own objects, and reconciles one key.
`Runner` does the rest as client-go's work queue does: a key waits at most once, is never worked on twice at a time, and
comes back with growing back-off when its reconciliation fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from kubemini.errors import StatusError
from kubemini.kinds import Kind
from kubemini.store import Change, Key, Store

_log = logging.getLogger(__name__)
_WORKERS = 4  # one slow webhook must not hold up every workload
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.01, 10.0


class Controller(Protocol):
    """What `Runner` needs to know of a controller."""

    @property
    def name(self) -> str:
        """The name in the log and in Events."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds to watch; none means all."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The keys to reconcile after a change."""

    async def reconcile(self, key: Key) -> float | None:
        """Bring one object towards its spec. Returns in how many seconds to look again, if at all."""


class Runner:
    """Runs one controller: its watches, its work queue and its workers."""

    def __init__(self, store: Store, controller: Controller, rest: float = 0.0) -> None:
        self._store = store
        self._controller = controller
        self._rest = rest
        """Seconds for which a key is left alone after it was reconciled, so that a burst of changes counts as one."""
        self._queue: deque[Key] = deque()
        self._queued: set[Key] = set()
        self._busy: dict[Key, bool] = {}
        """Keys that are being reconciled or rest after it, and whether they changed since."""
        self._active = 0
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._ready = asyncio.Semaphore(0)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do now. Keys that wait for their time do not count."""
        return not self._queue and not self._active and not any(self._busy.values())

    async def run(self) -> None:
        """Work until cancelled."""
        unsubscribe = self._store.subscribe(self._enqueue, *self._controller.kinds)
        try:
            for kind in self._controller.kinds:
                for entry in self._store.entries(kind):
                    self._enqueue(Change("ADDED", kind, entry, None))
            async with asyncio.TaskGroup() as workers:
                for _ in range(_WORKERS):
                    workers.create_task(self._work())
        finally:
            unsubscribe()
            for timer in self._timers.values():
                timer.cancel()

    def add(self, key: Key) -> None:
        """Queue a key."""
        if key in self._busy:
            self._busy[key] = True
        elif key not in self._queued:
            self._queued.add(key)
            self._queue.append(key)
            self._ready.release()

    def add_later(self, key: Key, seconds: float) -> None:
        """Queue a key after a while; the earlier of two such requests counts."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._end_wait, key)

    def _enqueue(self, change: Change) -> None:
        for key in self._controller.keys_for(change):
            self.add(key)

    def _end_wait(self, key: Key) -> None:
        del self._timers[key]
        self.add(key)

    def _end_rest(self, key: Key) -> None:
        if self._busy.pop(key):
            self.add(key)

    async def _work(self) -> None:
        while True:
            await self._ready.acquire()
            key = self._queue.popleft()
            self._queued.discard(key)
            self._busy[key] = False
            self._active += 1
            try:
                await self._reconcile(key)
            finally:
                self._active -= 1
            if self._rest:
                asyncio.get_running_loop().call_later(self._rest, self._end_rest, key)
            else:
                self._end_rest(key)
            await asyncio.sleep(0)  # a reconciliation seldom waits for anything: let other tasks run

    async def _reconcile(self, key: Key) -> None:
        try:
            again = await self._controller.reconcile(key)
        except StatusError as error:
            _log.info("%s: %s: %s; tried again", self._controller.name, "/".join(key), error)
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
        self.add_later(key, min(_FIRST_BACKOFF * 2 ** min(failures, 20), _LONGEST_BACKOFF))
