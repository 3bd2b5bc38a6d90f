"""The janitor: forgets migrations that ended long ago, and puts right what dead ones left behind.

The leader runs it: at once, since a predecessor may have died anywhere; then every minute; and soon after somebody
has deleted a migration in the middle, because then nobody else knows of it any more. Cordons are `maintenance`'s.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Protocol

import structlog

from rescheduler.kube.errors import ClusterError
from rescheduler.kube.migrations import JournalError
from rescheduler.model.migration import Migration, Phase
from rescheduler.runtime.board import Board, Key
from rescheduler.runtime.sweeping import Fate, Marked

_log = structlog.stdlib.get_logger(__name__)
_EVERY = 60.0
_SETTLED = 10.0  # how long a migration must be over: until then its own last look at what came late is due
_LATE = 5.0  # after a deletion: what was on its way is done, and controllers have copied what they copy late

Needed = Callable[[float], Set[Key]]
"""Which finished migrations are still needed at a time: a rest depends on them, or nobody has looked at them yet."""


def nothing(_: float) -> Set[Key]:
    """Of nobody who remembers outcomes."""
    return frozenset()


class Journal(Protocol):
    """Where migrations are kept."""

    async def read(self, namespace: str, name: str) -> Migration | None: ...
    async def remove(self, migration: Migration) -> None: ...


class Sweeper(Protocol):
    """Who puts right what dead migrations left."""

    async def sweep(self, fate: Fate) -> int: ...


@dataclass
class Janitor:
    """Cleans up."""

    _board: Board
    _journal: Journal
    _sweeper: Sweeper
    _keep: Callable[[], float]
    """For how many seconds finished migrations stay."""
    _in_hand: Callable[[Key], bool]
    """Whether somebody works on a migration just now."""
    _now: Callable[[], float] = time.time
    _needed: Needed = nothing

    def __post_init__(self) -> None:
        self._active = {(each.namespace, each.name) for each in self._board.active()}
        self._deserted = asyncio.Event()
        self._board.listen(self._changed)

    async def run(self) -> None:
        """Clean up until cancelled."""
        while True:
            self._deserted.clear()
            await self.sweep(self._now())
            try:
                async with asyncio.timeout(_EVERY):
                    await self._deserted.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(_LATE)

    async def sweep(self, now: float) -> int:
        """Forget what ended long ago and put right what was left; how many things were put right."""
        await self._forget(now)

        async def fate(marked: Marked, name: str) -> Phase | None:
            return await self._fate(marked, name, now)

        done = await self._sweeper.sweep(fate)
        if done:
            _log.info("cleaned up after dead migrations", things=done)
        return done

    async def _forget(self, now: float) -> None:
        needed, keep = self._needed(now), self._keep()
        for migration in self._board.all():
            finished = migration.progress.finished
            if not migration.progress.over or finished is None or now - finished < keep:
                continue
            if any(not each.progress.over for each in self._board.members(migration)):
                continue  # they still count it
            if (migration.namespace, migration.name) in needed:
                continue
            try:
                await self._journal.remove(migration)
            except ClusterError as error:
                _log.warning("a finished migration could not be removed", migration=migration.full_name, why=str(error))

    async def _fate(self, marked: Marked, name: str, now: float) -> Phase | None:
        """How a migration ended; None if it is not dead, or that is not sure."""
        if not name:  # only a mark is left: it is nobody's unless somebody moves this very pod
            keys = self._board.about((marked.namespace, marked.name))
            moving = (self._board.get(key) for key in keys)
            return None if any(each and not each.progress.over for each in moving) else Phase.FAILED
        key = (marked.namespace, name)
        known = self._board.get(key)
        if self._in_hand(key) or (known is not None and not known.progress.over):
            return None
        try:
            migration = await self._journal.read(*key)
        except JournalError as error:
            _log.warning("left alone", why=str(error))
            return None
        if migration is None:
            return Phase.FAILED
        ended = migration.progress.finished or 0.0
        return migration.progress.phase if migration.progress.over and now - ended >= _SETTLED else None

    def _changed(self, key: Key, _ours: bool) -> None:  # noqa: FBT001  the board's listeners are called so
        """Notice migrations that go though they are not over."""
        migration = self._board.get(key)
        if migration is not None and not migration.progress.over:
            self._active.add(key)
            return
        if migration is None and key in self._active:
            self._deserted.set()
        self._active.discard(key)
