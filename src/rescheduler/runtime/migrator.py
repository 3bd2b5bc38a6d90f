"""Carries migrations out: each is looked at, decided on, recorded and acted for, never by two workers at once.

Keys come from the journal's watch and from changes of the pods that migrations are about; decisions come from the
lifecycle. One migration that fails in an unforeseen way is tried again later, and never stops the others.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from rescheduler.migration.commands import Command
from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.migration.observation import Observation, Refused, Scene
from rescheduler.model.migration import Migration, Phase, Progress

_log = logging.getLogger(__name__)
_LOOKS = 50  # decisions for one migration in a row; more would mean that it goes round in a circle
_REFUSED_PAUSE = 1.0

Key = tuple[str, str]


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
    """May a pending migration begin? With this progress, or not yet, for this reason."""

    progress: Progress | None
    reason: str = ""
    wait: float = 5.0


Admit = Callable[[Scene], Awaitable[Admitted]]


class Migrator:
    """Works on one migration at a time per key."""

    def __init__(
        self, journal: Journal, observer: Observer, writer: Writer, lifecycle: Lifecycle, admit: Admit
    ) -> None:
        self._journal = journal
        self._observer = observer
        self._writer = writer
        self._lifecycle = lifecycle
        self._admit = admit

    async def work_on(
        self, key: Key, now: Callable[[], float], members: Callable[[Migration], tuple[Migration, ...]]
    ) -> float | None:
        """Take a migration as far as it goes now; the answer is in how many seconds to look again, if at all."""
        migration = await self._journal.read(*key)
        refused: Refused | None = None
        for _ in range(_LOOKS):
            if migration is None or migration.progress.over:
                return None
            seen = await self._observer.look(migration)
            scene = Scene(migration, replace(seen, members=members(migration), refused=refused), now())
            if migration.progress.phase is Phase.PENDING:
                admitted = await self._admit(scene)
                if admitted.progress is None:
                    if admitted.reason != migration.progress.message:
                        await self._journal.store(migration, replace(migration.progress, message=admitted.reason))
                    return admitted.wait
                migration = await self._journal.store(migration, self._lifecycle.begin(scene, admitted.progress))
                continue
            decision = self._lifecycle.advance(scene)
            if decision.progress != migration.progress:
                migration = await self._journal.store(migration, decision.progress)
            if not decision.commands:
                if decision.wait is not None or migration.progress.over:
                    return decision.wait
                continue
            refused = await self._act(decision.commands)
            if refused is not None and refused.code in (409, 429):
                return _REFUSED_PAUSE
        _log.warning("%s/%s: still not at rest after %d decisions; looked at later", *key, _LOOKS)
        return _REFUSED_PAUSE

    async def _act(self, commands: tuple[Command, ...]) -> Refused | None:
        for command in commands:
            _log.info("%s", command)
            refused = await self._writer.carry_out(command)
            if refused is not None:
                _log.info("%s: refused: %s %s", command, refused.code, refused.message)
                return refused
        return None
