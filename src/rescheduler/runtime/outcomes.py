"""Looks at what completed moves came to, some time after each, and stores it in their PodMigrations.

A duty of the leader. What is due is read from the board, so a new leader goes on where the last one ended. The outcome
is stored over the version that is known: a migration that somebody has changed is looked at again the next time, and
one that was deleted stays so. A move that a later one undoes is told of then, even if it had paid before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog
from msgspec import structs

from rescheduler.kube.migrations import StaleError
from rescheduler.migration.crd import CURE
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import MigrationStatus, MoveOutcome, OutcomeVerdict, Phase, PodMigration
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning import outcomes
from rescheduler.runtime.migration_cache import MigrationCache

_log = structlog.stdlib.get_logger(__name__)
ASSESS_EVERY = 10.0
"""Seconds between two looks."""

Tell = Callable[[str, float | None, float | None, str], None]
"""Told the strategy, the predicted and the realised gain, and the verdict; of a second verdict on a move no gains."""


class OutcomeStore(Protocol):
    """Where progress is stored."""

    async def store(self, migration: PodMigration, progress: MigrationStatus) -> PodMigration: ...


@dataclass(frozen=True, slots=True)
class AssessmentInputs:
    """What moves are judged by."""

    board: MigrationCache
    copied: Callable[[], Callable[[], ClusterSnapshot]]
    """Copies what is known of the cluster; the snapshot can then be made of it in a thread."""
    stale: Callable[[], str]
    """Why what is known of the cluster may not be true; then nothing is judged."""
    policy: Callable[[], Policy]
    after: Callable[[], float]
    """Seconds after its end at which a move is looked at."""
    now: Callable[[], float]
    lacking: Callable[[], str] = lambda: ""
    """Why nobody can tell what is used, where that counts; then only what came back is judged."""


class OutcomeAssessor:
    """Judges completed moves."""

    def __init__(self, by: AssessmentInputs, logbook: OutcomeStore, tell: Tell) -> None:
        self._by = by
        self._logbook = logbook
        self._tell = tell
        self._lost = False
        """Whether the last outcome was not kept."""
        self._stale = ""
        """Why nothing could be judged the last time."""

    def needed(self, now: float) -> set[ObjectKey]:
        """The finished migrations that the janitor must not forget yet."""
        return outcomes.find_needed(self._by.board.all(), self._by.policy(), self._by.after(), now)

    async def assess(self) -> int:
        """Judge what is due; how many outcomes were stored."""
        by, now = self._by, self._by.now()
        policy, after = by.policy(), by.after()
        known = [each for each in by.board.all() if each.status.phase is Phase.COMPLETED]
        # With thousands of them, and in a large cluster, all this takes a while: not in the event loop.
        returned = await asyncio.to_thread(outcomes.find_undone, known, policy)
        due = [each for each in known if outcomes.is_due(each, after, now)]
        undone = [each for each in known if (each.namespace, each.name) in returned and _stands(each)]
        if not due and not undone:
            return 0
        stale = by.stale()
        before, self._stale = self._stale, stale or by.lacking()
        if self._stale and self._stale != before:  # it may last for hours
            _log.info("nothing is assessed on what may be out of date", why=self._stale)
        if stale:
            return 0
        if self._stale:  # plans go by requests meanwhile: whoever is sent back by that has to rest all the same
            due = [each for each in due if (each.namespace, each.name) in returned]
        found: list[tuple[PodMigration, MoveOutcome]] = []
        if due:
            snapshot = by.copied()
            came_to = await asyncio.to_thread(
                lambda: outcomes.assess_outcomes(snapshot(), policy, due, known, returned, now)
            )
            found += zip(due, came_to, strict=True)
        for migration in undone:
            gain = migration.status.outcome.gain if migration.status.outcome is not None else None
            found.append((migration, MoveOutcome(OutcomeVerdict.CAME_BACK, gain, now)))
        stored = 0
        for migration, outcome in found:
            stored += await self._store(migration, outcome)
            if self._lost:
                break  # the others would be, too: one try at a time, until the kind is brought up to date
        return stored

    async def _store(self, migration: PodMigration, outcome: MoveOutcome) -> bool:
        first = migration.status.outcome is None
        try:
            kept = await self._logbook.store(migration, structs.replace(migration.status, outcome=outcome))
        except StaleError as error:
            _log.info("changed meanwhile; assessed later", migration=migration.full_name, why=str(error))
            return False
        before, self._lost = self._lost, kept.status.outcome is None
        if self._lost:
            if not before:
                told = "what moves came to is not kept: the definition of PodMigration is of an older version"
                _log.warning(f"{told}; let somebody who may run `{CURE}`")
            return False
        predicted, strategy = migration.spec.expected_gain, migration.spec.strategy
        _log.info(
            "assessed",
            migration=migration.full_name,
            strategy=strategy,
            verdict=outcome.verdict.value,
            predicted=predicted,
            realised=outcome.gain,
        )
        gains = (predicted, outcome.gain) if first else (None, None)
        self._tell(strategy, *gains, outcome.verdict.value)
        return True


def _stands(migration: PodMigration) -> bool:
    """Whether it was judged before it came back."""
    outcome = migration.status.outcome
    return outcome is not None and outcome.verdict is not OutcomeVerdict.CAME_BACK
