"""Carries one migration out, as far as it goes now: looks, decides, records, acts, and looks again.

The runtime's workers call it with a key, never two at once with the same; decisions come from the lifecycle. It says
when to be called again. Errors that it has no answer to are the caller's, who tries again later with back-off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

import structlog
from msgspec import structs

from rescheduler.kube.migrations import StaleError
from rescheduler.migration.commands import Command, Verb
from rescheduler.migration.lifecycle import Lifecycle, Transition
from rescheduler.migration.observation import FailedCommand, Observation, ObservedPart, StepContext
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from rescheduler.runtime.reconciler import KeyedLock

_log = structlog.stdlib.get_logger(__name__)
_LOOKS = 50  # decisions for one migration in a row; more would mean that it goes round in a circle
_PAUSE = 1.0  # after what passes by itself: a conflict, a spent budget, a journal entry that somebody else has changed
_REFUSED_PAUSE = 5.0  # after a refusal that looking again did not cure
_LATE = 5.0  # how long after its end a migration is looked at once more, for what controllers wrote late
_PASSING = frozenset({409, 429})

Members = Callable[[PodMigration], tuple[PodMigration, ...]]


class Journal(Protocol):
    """Where migrations are kept."""

    async def read(self, namespace: str, name: str) -> PodMigration | None: ...
    async def store(self, migration: PodMigration, progress: MigrationStatus) -> PodMigration: ...


class Observer(Protocol):
    """Who looks at the cluster."""

    async def look(self, migration: PodMigration, parts: frozenset[ObservedPart]) -> Observation: ...


class Writer(Protocol):
    """Who acts."""

    async def carry_out(self, command: Command) -> FailedCommand | None: ...


@dataclass(frozen=True, slots=True)
class StartDecision:
    """May a pending migration begin? With this progress; or, for this reason, not yet or never."""

    progress: MigrationStatus | None
    reason: str = ""
    wait: float = 5.0
    never: bool = False
    known: MigrationStatus | None = None
    """What is known of one that may not begin yet, so that it can be told and counted while it waits."""


CheckStart = Callable[[StepContext], Awaitable[StartDecision]]


class MigrationExecutor:
    """Works on migrations; it holds nothing of them between two calls."""

    def __init__(
        self,
        journal: Journal,
        observer: Observer,
        writer: Writer,
        lifecycle: Callable[[], Lifecycle],
        admit: CheckStart,
    ) -> None:
        self._journal = journal
        self._observer = observer
        self._writer = writer
        self._lifecycle = lifecycle
        self._admit = admit
        self._turns = KeyedLock()

    async def execute(self, key: ObjectKey, now: Callable[[], float], members: Members) -> float | None:
        """Take a migration as far as it goes now; the answer is in how many seconds to look again, if at all."""
        try:
            return await self._execute(key, now, members)
        except StaleError as error:
            _log.info("changed by somebody else meanwhile; looked at again", migration="/".join(key), why=str(error))
            return _PAUSE

    async def _execute(self, key: ObjectKey, now: Callable[[], float], members: Members) -> float | None:
        migration, life = await self._journal.read(*key), self._lifecycle()
        refused: FailedCommand | None = None
        done: list[str] = []
        for _ in range(_LOOKS):
            if migration is None:
                return None
            seen = await self._observer.look(migration, life.needs(migration))
            scene = StepContext(migration, replace(seen, members=members(migration), refused=refused), now())
            if migration.status.over:
                return await self._afterwards(scene, life)
            if migration.status.phase is Phase.PENDING:
                decision = await self._admitted(scene, life)
            else:
                decision = life.advance(scene)
            begins = migration.status.phase is Phase.PENDING and decision.status.phase is Phase.IN_PROGRESS
            if decision.status != migration.status:
                migration = await self._store(migration, decision.status)
            if begins:
                return 0.0  # whoever calls knows now whose pod it is, and has moves of one controller take turns
            if migration.status.over:
                return _LATE
            if not decision.commands:
                if decision.wait:
                    return decision.wait
                refused, done = None, []
                continue
            wanted = [migration.status.step, *(str(command) for command in decision.commands)]
            if wanted == done and refused is None:
                _log.warning("it was done, and nothing came of it", migration="/".join(key), done=wanted[1])
                return _REFUSED_PAUSE
            done = wanted
            again, refused = refused is not None, await self._act(scene, decision.commands)
            if refused is not None and (again or refused.code in _PASSING):
                return _PAUSE if refused.code in _PASSING else _REFUSED_PAUSE
        _log.warning("still not at rest; looked at later", migration="/".join(key), decisions=_LOOKS)
        return _REFUSED_PAUSE

    async def _admitted(self, scene: StepContext, life: Lifecycle) -> Transition:
        """Whether a pending migration may begin, as a decision."""
        progress = scene.migration.status
        if held := life.check_hold(scene):
            return Transition(structs.replace(progress, message=held.reason), wait=held.seconds)
        admitted = await self._admit(scene)
        if admitted.progress is not None:
            if unapproved := life.check_approval(scene):  # whatever the gatekeeper goes by
                return Transition(structs.replace(progress, message=unapproved.reason), wait=unapproved.seconds)
            return Transition(life.begin(scene, admitted.progress))
        told = structs.replace(admitted.known or progress, message=admitted.reason)
        if admitted.never:
            return Transition(structs.replace(told, phase=Phase.FAILED, completion_time=scene.now))
        return Transition(told, wait=admitted.wait)

    async def _afterwards(self, scene: StepContext, life: Lifecycle) -> float | None:
        """One more look at what a migration that is over touched."""
        todo = life.clean_up(scene)
        if todo:
            await self._act(scene, todo)
            return _PAUSE
        left = (scene.migration.status.completion_time or 0.0) + _LATE - scene.now
        return left if left > 0 else None

    async def _store(self, migration: PodMigration, progress: MigrationStatus) -> PodMigration:
        before = migration.status
        stored = await self._journal.store(migration, progress)
        if (progress.phase, progress.step) != (before.phase, before.step):
            _log.info(
                "migration " + (f"in step {progress.step}" if progress.step else f"is {progress.phase.value}"),
                migration=migration.full_name,
                pod=f"{migration.namespace}/{migration.spec.pod.name}",
                source=progress.source,
                target=progress.target,
                method=progress.method.value if progress.method else None,
                message=progress.message or None,
            )
        return stored

    async def _act(self, scene: StepContext, commands: tuple[Command, ...]) -> FailedCommand | None:
        for command in commands:
            async with self._turn(scene, command):
                refused = await self._writer.carry_out(command)
            told = {"migration": scene.migration.full_name, "command": str(command)}
            if refused is not None:
                _log.info("refused", **told, code=refused.code, why=refused.message)
                return refused
            _log.debug("done", **told)
        return None

    def _turn(self, scene: StepContext, command: Command) -> AbstractAsyncContextManager[None]:
        """Evictions against one disruption budget go one after the other, against different ones together."""
        if command.verb is not Verb.EVICT:
            return nullcontext()
        own = (scene.seen.temporary_budget,) if scene.seen.temporary_budget is not None else ()
        budgets: list[Hashable] = [budget["metadata"]["uid"] for budget in (*scene.seen.budgets, *own)]
        return self._turns.acquire(budgets)
