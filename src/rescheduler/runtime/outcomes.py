"""Assesses the outcome of completed moves after a while, and stores it in their PodMigrations.

The leader runs this. What is due follows from the cached migrations, so a new leader continues where the last one
ended. The outcome is stored over the cached version: a migration that has changed is assessed again the next time, and
a deleted one stays deleted. A move that a later move undoes gets a new outcome, even if it had paid off before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from msgspec import structs

from rescheduler.config.live import LiveConfig
from rescheduler.kube.migrations import StaleError
from rescheduler.migration.crd import CURE
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import MoveOutcome, OutcomeVerdict, Phase, PodMigration
from rescheduler.planning import outcomes
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.migration_cache import MigrationStore

_log = structlog.stdlib.get_logger(__name__)
ASSESS_EVERY = 10.0
"""Seconds between two runs."""

Tell = Callable[[str, float | None, float | None, str], None]
"""Called with strategy, predicted gain, realised gain and verdict; a second verdict on a move has no gains."""


class OutcomeAssessor:
    """Assesses completed moves."""

    def __init__(
        self,
        informers: Informers,
        live: LiveConfig,
        store: MigrationStore,
        now: Callable[[], float],
        tell: Tell,
        why_unmeasured: Callable[[], str] = lambda: "",
    ) -> None:
        """`why_unmeasured` says why usage is unknown where it counts; then only moves that came back are assessed."""
        self._informers = informers
        self._live = live
        self._store = store
        self._now = now
        self._tell = tell
        self._why_unmeasured = why_unmeasured
        self._dropped = False
        """Whether the API server dropped the last outcome."""
        self._stale = ""
        """Why nothing could be assessed the last time."""

    def needed(self, now: float) -> set[ObjectKey]:
        """The finished migrations that must be kept."""
        after = self._live.config.fields.outcomes.assess_after
        return outcomes.find_needed(self._informers.migrations.all(), self._live.policy(), after, now)

    async def assess(self) -> int:
        """Assess what is due; return the number of stored outcomes."""
        now, policy = self._now(), self._live.policy()
        after = self._live.config.fields.outcomes.assess_after
        known = [each for each in self._informers.migrations.all() if each.status.phase is Phase.COMPLETED]
        # This takes long with thousands of migrations: not in the event loop.
        returned = await asyncio.to_thread(outcomes.find_undone, known, policy)
        due = [each for each in known if outcomes.is_due(each, after, now)]
        undone = [each for each in known if each.key in returned and _has_other_verdict(each)]
        if not due and not undone:
            return 0
        stale = self._informers.stale()
        before, self._stale = self._stale, stale or self._why_unmeasured()
        if self._stale and self._stale != before:  # it may last for hours
            _log.info("outcomes not assessed, state is stale", why=self._stale)
        if stale:
            return 0
        if self._stale:  # plans use requests meanwhile; a pod that such a plan sends back must rest all the same
            due = [each for each in due if each.key in returned]
        found: list[tuple[PodMigration, MoveOutcome]] = []
        if due:
            snapshot = self._informers.capture()
            came_to = await asyncio.to_thread(
                lambda: outcomes.assess_outcomes(snapshot(), policy, due, known, returned, now)
            )
            found += zip(due, came_to, strict=True)
        for migration in undone:
            gain = migration.status.outcome.gain if migration.status.outcome is not None else None
            found.append((migration, MoveOutcome(OutcomeVerdict.CAME_BACK, gain, now)))
        stored = 0
        for migration, outcome in found:
            stored += await self._record(migration, outcome)
            if self._dropped:
                break  # the others would be dropped, too: one try at a time until the CRD is updated
        return stored

    async def _record(self, migration: PodMigration, outcome: MoveOutcome) -> bool:
        first = migration.status.outcome is None
        try:
            kept = await self._store.update_status(migration, structs.replace(migration.status, outcome=outcome))
        except StaleError as error:
            _log.info("migration changed concurrently, retrying", migration=migration.full_name, why=str(error))
            return False
        before, self._dropped = self._dropped, kept.status.outcome is None
        if self._dropped:
            if not before:
                _log.warning("outcomes not stored, the PodMigration CRD is outdated", cure=CURE)
            return False
        predicted, strategy = migration.spec.expected_gain, migration.spec.strategy
        _log.info(
            "outcome assessed",
            migration=migration.full_name,
            strategy=strategy,
            verdict=outcome.verdict.value,
            predicted=predicted,
            realised=outcome.gain,
        )
        gains = (predicted, outcome.gain) if first else (None, None)
        self._tell(strategy, *gains, outcome.verdict.value)
        return True


def _has_other_verdict(migration: PodMigration) -> bool:
    """Whether it was assessed before it came back."""
    outcome = migration.status.outcome
    return outcome is not None and outcome.verdict is not OutcomeVerdict.CAME_BACK
