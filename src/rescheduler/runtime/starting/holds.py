"""Holds on a pending migration: missing approval, the global pause, and closed time windows.

A migration on hold takes no room in the limits, and its start timeout does not run. One that is not approved does not
wait for a window longer than that timeout: it is dropped, and planned again when the window opens. Once one move of a
proposal has started, holds no longer stop the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from math import inf

import structlog

from rescheduler.config.live import LiveConfig
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.pause_state import PauseDetails, PauseState, PauseStore
from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.migration.lifecycle import abandon_reason, missing_approval
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import REPLANNED, Phase, PodMigration
from rescheduler.model.time import format_instant
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.reconciler import PeriodicTask
from rescheduler.runtime.starting.windows import Hold, TimeWindows

_CHECK_AGAIN = 30.0  # seconds after which a waiting migration is checked again: its pod may have been replaced
_MOST = 10_000
_READ_EVERY = 2.0  # seconds between two reads of the pause
_UNKNOWN = PauseDetails("", None, "the pause state has not been read yet")
_log = structlog.stdlib.get_logger(__name__)


class PauseWatcher:
    """The pause state as this replica knows it: it reads the ConfigMap at short intervals.

    The start gate, the planning loop and recovery check it before they start anything; the page shows it. Nothing
    starts until the ConfigMap has been read once. Later, while it cannot be read, the last known state holds. A change
    is logged once, and recorded once as an Event of the ConfigMap: all replicas write the same Event under the same
    name.
    """

    def __init__(
        self, pausing: PauseStore, recorder: EventRecorder | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self._pausing = pausing
        self._recorder = recorder
        self._now = now
        self._seen_resumed = 0.0
        """When a pause was seen to end, if the ConfigMap does not say when."""
        self._state: PauseState | None = None
        self._failure = ""
        self._reading = asyncio.Lock()

    def current(self) -> PauseDetails | None:
        """The current pause; a placeholder that blocks starts while the state is unknown."""
        if self._state is not None:
            return self._state.pause
        return replace(_UNKNOWN, reason=f"{_UNKNOWN.reason}: {self._failure}") if self._failure else _UNKNOWN

    @property
    def known(self) -> bool:
        """Whether the ConfigMap has been read."""
        return self._state is not None

    @property
    def resumed(self) -> float:
        """When rescheduling was last resumed, by the API server's clock; 0.0 if it was never paused."""
        state = self._state
        return max(state.since or 0.0, self._seen_resumed) if state is not None and state.pause is None else 0.0

    async def run(self) -> None:
        """Watch until cancelled."""
        await PeriodicTask("read the pause", _READ_EVERY, self.refresh).run()

    async def refresh(self) -> bool:
        """Read the ConfigMap now and report changes; return whether it could be read."""
        async with self._reading:
            try:
                found = await self._pausing.look()
            except ClusterError as error:
                if str(error) != self._failure:
                    effect = "last known state holds" if self.known else "nothing starts"
                    _log.warning("pause state not readable", object=str(self._pausing), effect=effect, why=str(error))
                self._failure = str(error)
                return False
            before, self._state, self._failure = self._state, found, ""
        if before is not None and before.pause is not None and found.pause is None and not _is_dated(before, found):
            self._seen_resumed = self._now()
        if before is None or before.pause != found.pause:
            await self._changed(before, found)
        return True

    async def _changed(self, before: PauseState | None, found: PauseState) -> None:
        pause = found.pause
        if pause is not None:
            since = format_instant(pause.since) if pause.since is not None else None
            _log.warning("rescheduling paused", by=pause.by, since=since, reason=pause.reason)
        elif before is not None:
            _log.info("rescheduling resumed", by=found.by or None)
        if before is not None and self._recorder is not None and (found.uid or before.uid):
            await self._recorder.record([self._event(before, found)])

    def _event(self, before: PauseState, found: PauseState) -> ObjectEvent:
        about = Subject("ConfigMap", self._pausing.namespace, self._pausing.name, found.uid or before.uid)
        occasion = f"{found.since if _is_dated(before, found) else found.version}"
        if found.pause is not None:
            note = f"{found.pause}; nothing new is begun until `rescheduler resume`"
            return ObjectEvent(about, about, "ReschedulingPaused", "Pause", note, occasion)
        by = f" by {found.by}" if found.by else ""
        return ObjectEvent(about, about, "ReschedulingResumed", "Resume", f"rescheduling was resumed{by}", occasion)


def _is_dated(before: PauseState, found: PauseState) -> bool:
    """Whether the new state has its own time; an edit with kubectl may leave the old one."""
    return found.since is not None and found.since != before.since


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

    def find(self, migration: PodMigration) -> Hold | None:
        """What a pending migration waits for: approval, the end of the pause, or a time window."""
        members = self._migrations.members(migration)
        if reason := missing_approval(migration, members):
            return Hold(reason)
        if any(each.status.phase is Phase.IN_PROGRESS for each in members):
            return None  # a move of the same proposal is under way, and waits for this one
        if (pause := self._pauses.current()) is not None:
            return Hold(f"{pause}; `rescheduler resume` goes on")
        return self._windows.check(migration)

    def check(self, migration: PodMigration, now: float) -> Hold | None:
        """The hold on a migration just before its start; it may be one that never ends."""
        if reason := self._abandon_reason(migration, now):
            return Hold(reason, inf)
        key, hold = migration.key, self.find(migration)
        _remember(self._checked, key, now)
        if missing_approval(migration, self._migrations.members(migration)):
            self._approved.pop(key, None)
        elif migration.spec.approval_required and key not in self._approved:
            _remember(self._approved, key, now)
        if hold is None or not hold.until:
            return hold
        _remember(self._outside, key, now)
        if hold.never:
            return Hold(f"{hold.reason}; it is given up", inf)
        patience = migration.spec.timeout or self._live.config.fields.migration.timeout
        if hold.until - now > patience and not migration.spec.approval_required:
            return Hold(f"{hold.reason}; {REPLANNED}", inf)
        return hold

    def note_start(self, migration: PodMigration) -> None:
        """Count a migration that starts against the hourly limits."""
        self._windows.note_start(migration)

    def has_reported(self, migration: PodMigration, hold: Hold, now: float) -> bool:
        """Whether a migration shows this hold already, from a recent check."""
        if self._abandon_reason(migration, now):
            return False
        checked = self._checked.get(migration.key, 0.0)
        return migration.status.message == hold.reason and 0.0 <= now - checked < _CHECK_AGAIN

    def free_since(self, migration: PodMigration) -> float:
        """Since when no hold has stopped it; its start timeout runs from then."""
        key = migration.key
        return max(self._approved.get(key, 0.0), self._outside.get(key, 0.0), self._pauses.resumed)

    def _abandon_reason(self, migration: PodMigration, now: float) -> str:
        members, timeout = self._migrations.members(migration), self._live.config.fields.approval_timeout
        return abandon_reason(migration, members, now, timeout)


def _remember(times: dict[ObjectKey, float], key: ObjectKey, now: float) -> None:
    times.pop(key, None)
    times[key] = now
    if len(times) > _MOST:
        del times[next(iter(times))]
