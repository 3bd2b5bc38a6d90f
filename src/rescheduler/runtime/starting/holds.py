"""Holds on a pending migration: missing approval, the global pause, and closed time windows.

A migration on hold takes no room in the limits, and its start timeout does not run. One that is not approved does not
wait for a window longer than that timeout: it is dropped, and planned again when the window opens. Once one move of a
proposal has started, holds no longer stop the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from rescheduler.config.live import LiveConfig
from rescheduler.kube.pause_state import PauseDetails
from rescheduler.migration.lifecycle import abandon_reason, missing_approval
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import REPLANNED, Phase, PodMigration
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.pause_watcher import PauseWatcher
from rescheduler.runtime.starting.windows import TimeWindows

_CHECK_AGAIN = 30.0  # seconds after which a waiting migration is checked again: its pod may have been replaced
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a migration may not start: not yet, or never."""

    reason: str
    never: bool = False


class Holds:
    """Finds the hold on a migration."""

    def __init__(
        self, migrations: MigrationCache, live: LiveConfig, pauses: PauseWatcher, windows: TimeWindows
    ) -> None:
        self._migrations = migrations
        self._live = live
        self._pauses = pauses
        self._windows = windows
        self._approved: dict[ObjectKey, float] = {}
        """When each migration was first seen to be approved; a new leader starts to count when it first sees it."""
        self._checked: dict[ObjectKey, float] = {}
        self._outside: dict[ObjectKey, float] = {}
        """When each migration was last found outside its time window."""

    def check(self, migration: PodMigration, now: float) -> Hold | None:
        """Return the hold on a migration, if there is one."""
        key, members = (migration.namespace, migration.name), self._migrations.members(migration)
        if reason := abandon_reason(migration, members, now, self._live.config.fields.approval_timeout):
            return Hold(reason, never=True)
        _remember(self._checked, key, now)
        if reason := missing_approval(migration, members):
            self._approved.pop(key, None)
            return Hold(reason)
        if migration.spec.approval_required and key not in self._approved:
            _remember(self._approved, key, now)
        if _has_begun(members):
            return None
        if (pause := self._pauses.current()) is not None:
            return Hold(_reason(pause))
        if (held := self._windows.check(migration)) is None:
            return None
        _remember(self._outside, key, now)
        if held.until == inf:
            return Hold(f"{held.reason}; it is given up", never=True)
        patience = migration.spec.timeout or self._live.config.fields.migration.timeout
        if held.until - now > patience and not migration.spec.approval_required:
            return Hold(f"{held.reason}; {REPLANNED}", never=True)
        return Hold(held.reason)

    def note_start(self, migration: PodMigration) -> None:
        """Count a migration that starts against the hourly limits."""
        self._windows.note_start(migration)

    def is_held(self, migration: PodMigration) -> bool:
        """Whether a hold keeps a pending migration waiting now."""
        if migration.status.phase is not Phase.PENDING:
            return False
        members = self._migrations.members(migration)
        if missing_approval(migration, members):
            return True
        if _has_begun(members):
            return False
        return self._pauses.current() is not None or self._windows.check(migration) is not None

    def has_reported(self, migration: PodMigration, now: float) -> bool:
        """Whether a migration on hold shows the current reason already, from a recent check."""
        members, said = self._migrations.members(migration), migration.status.message
        if abandon_reason(migration, members, now, self._live.config.fields.approval_timeout):
            return False
        expected = missing_approval(migration, members)
        if not expected and (pause := self._pauses.current()) is not None:
            expected = _reason(pause)
        elif not expected and (held := self._windows.check(migration)) is not None:
            expected = held.reason
        looked = self._checked.get((migration.namespace, migration.name), 0.0)
        return said == expected and 0.0 <= now - looked < _CHECK_AGAIN

    def free_since(self, migration: PodMigration) -> float:
        """Since when no hold has stopped it; its start timeout runs from then."""
        key = (migration.namespace, migration.name)
        return max(self._approved.get(key, 0.0), self._outside.get(key, 0.0), self._pauses.resumed)


def _reason(pause: PauseDetails) -> str:
    return f"{pause}; `rescheduler resume` goes on"


def _has_begun(members: tuple[PodMigration, ...]) -> bool:
    """Whether a move of the same proposal is under way, and waits for this one."""
    return any(each.status.phase is Phase.IN_PROGRESS for each in members)


def _remember(times: dict[ObjectKey, float], key: ObjectKey, now: float) -> None:
    times.pop(key, None)
    times[key] = now
    if len(times) > _MOST:
        del times[next(iter(times))]
