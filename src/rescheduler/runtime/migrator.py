"""Carries one migration out, as far as it goes now: looks, decides, records, acts, and looks again.

The runtime's workers call it with a key, never two at once with the same; decisions come from the lifecycle. It says
when to be called again. Errors that it has no answer to are the caller's, who tries again later with back-off.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from rescheduler.cluster.journal import StaleError
from rescheduler.migration.commands import Command
from rescheduler.migration.lifecycle import Decision, Lifecycle
from rescheduler.migration.observation import Observation, Refused, Scene
from rescheduler.model.migration import Migration, Phase, Progress

_log = logging.getLogger(__name__)
_LOOKS = 50  # decisions for one migration in a row; more would mean that it goes round in a circle
_PAUSE = 1.0  # after what passes by itself: a conflict, a spent budget, a journal entry that somebody else has changed
_REFUSED_PAUSE = 5.0  # after a refusal that looking again did not cure
_LATE = 5.0  # how long after its end a migration is looked at once more, for what controllers wrote late
_PASSING = frozenset({409, 429})

Key = tuple[str, str]
Members = Callable[[Migration], tuple[Migration, ...]]


class Journal(Protocol):
    """Where migrations are kept."""

    async def read(self, namespace: str, name: str) -> Migration | None: ...
    async def store(self, migration: Migration, progress: Progress) -> Migration: ...


class Observer(Protocol):
    """Who looks at the cluster."""

    async def look(self, migration: Migration) -> Observation: ...


class Writer(Protocol):
    """Who acts."""

    async def carry_out(self, command: Command) -> Refused | None: ...


@dataclass(frozen=True, slots=True)
class Admitted:
    """May a pending migration begin? With this progress; or, for this reason, not yet or never."""

    progress: Progress | None
    reason: str = ""
    wait: float = 5.0
    never: bool = False


Admit = Callable[[Scene], Awaitable[Admitted]]


class Migrator:
    """Works on migrations; it holds nothing of them between two calls."""

    def __init__(
        self, journal: Journal, observer: Observer, writer: Writer, lifecycle: Lifecycle, admit: Admit
    ) -> None:
        self._journal = journal
        self._observer = observer
        self._writer = writer
        self._lifecycle = lifecycle
        self._admit = admit

    async def work_on(self, key: Key, now: Callable[[], float], members: Members) -> float | None:
        """Take a migration as far as it goes now; the answer is in how many seconds to look again, if at all."""
        try:
            return await self._work_on(key, now, members)
        except StaleError as error:
            _log.info("%s; looked at again later", error)
            return _PAUSE

    async def _work_on(self, key: Key, now: Callable[[], float], members: Members) -> float | None:
        migration = await self._journal.read(*key)
        refused: Refused | None = None
        done: list[str] = []
        for _ in range(_LOOKS):
            if migration is None:
                return None
            seen = await self._observer.look(migration)
            scene = Scene(migration, replace(seen, members=members(migration), refused=refused), now())
            if migration.progress.over:
                return await self._afterwards(scene)
            if migration.progress.phase is Phase.PENDING:
                decision = await self._admitted(scene)
            else:
                decision = self._lifecycle.advance(scene)
            if decision.progress != migration.progress:
                migration = await self._journal.store(migration, decision.progress)
            if migration.progress.over:
                return _LATE
            if not decision.commands:
                if decision.wait is not None:
                    return decision.wait
                refused, done = None, []
                continue
            wanted = [migration.progress.step, *(str(command) for command in decision.commands)]
            if wanted == done and refused is None:
                _log.warning("%s/%s: %s: it was done, and nothing came of it", *key, decision.commands[0])
                return _REFUSED_PAUSE
            done = wanted
            again, refused = refused is not None, await self._act(decision.commands)
            if refused is not None and (again or refused.code in _PASSING):
                return _PAUSE if refused.code in _PASSING else _REFUSED_PAUSE
        _log.warning("%s/%s: still not at rest after %d decisions; looked at later", *key, _LOOKS)
        return _REFUSED_PAUSE

    async def _admitted(self, scene: Scene) -> Decision:
        """Whether a pending migration may begin, as a decision."""
        progress = scene.migration.progress
        if held := self._lifecycle.held(scene):
            return Decision(replace(progress, message=held.reason), wait=held.seconds)
        admitted = await self._admit(scene)
        if admitted.progress is not None:
            return Decision(self._lifecycle.begin(scene, admitted.progress))
        told = replace(progress, message=admitted.reason)
        if admitted.never:
            return Decision(replace(told, phase=Phase.FAILED, finished=scene.now))
        return Decision(told, wait=admitted.wait)

    async def _afterwards(self, scene: Scene) -> float | None:
        """One more look at what a migration that is over touched."""
        todo = self._lifecycle.aftermath(scene)
        if todo:
            await self._act(todo)
            return _PAUSE
        left = (scene.migration.progress.finished or 0.0) + _LATE - scene.now
        return left if left > 0 else None

    async def _act(self, commands: tuple[Command, ...]) -> Refused | None:
        for command in commands:
            _log.info("%s", command)
            refused = await self._writer.carry_out(command)
            if refused is not None:
                _log.info("%s: refused: %s %s", command, refused.code, refused.message)
                return refused
        return None
