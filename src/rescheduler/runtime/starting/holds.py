"""Do people let a pending migration begin? Approval, where it is needed, the pause of all, and the time windows.

The gatekeeper asks it before everything else, and again whenever it wonders whether one that waits would only be told
what it has been told. While people keep a migration waiting, it takes no slot, and the time within which it must begin
does not run. What nobody has approved of does not wait for a window for longer than that time: it is given up, and
planned anew when the window opens. Moves of which one has begun are not torn apart: the others may follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from rescheduler.kube.pause_state import PauseDetails
from rescheduler.migration.lifecycle import abandon_reason, missing_approval
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import REPLANNED, Phase, PodMigration
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.starting.windows import WindowHold

APPROVAL_TIMEOUT = 3600.0
_PATIENCE = 600.0
_LOOKED_AT = 30.0  # seconds after which one that waits is looked at again: its pod may be another by now
_MOST = 10_000


class PauseKnown(Protocol):
    """Who knows whether rescheduling is paused."""

    @property
    def resumed(self) -> float: ...
    def current(self) -> PauseDetails | None: ...


class HoursKnown(Protocol):
    """Who knows when moves may begin."""

    def check(self, migration: PodMigration) -> WindowHold | None: ...
    def note_start(self, migration: PodMigration) -> None: ...


class _AtAnyTime:
    def check(self, migration: PodMigration) -> WindowHold | None:
        return None

    def note_start(self, migration: PodMigration) -> None:
        return None


class _NeverPaused:
    resumed = 0.0

    def current(self) -> PauseDetails | None:
        return None


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a migration may not begin: not yet, or never."""

    reason: str
    never: bool = False


@dataclass
class Holds:
    """What people have said, as far as it concerns the beginning of migrations."""

    board: MigrationCache
    timeout: Callable[[], float] = lambda: APPROVAL_TIMEOUT
    """Seconds after which a move that nobody approves of is given up."""
    pauses: PauseKnown = field(default_factory=_NeverPaused)
    hours: HoursKnown = field(default_factory=_AtAnyTime)
    patience: Callable[[], float] = lambda: _PATIENCE
    """Seconds within which a move has to begin."""
    _given: dict[ObjectKey, float] = field(default_factory=dict)
    """When each was first seen to be approved; a new leader has the patience of one who has just heard of it."""
    _looked: dict[ObjectKey, float] = field(default_factory=dict)
    _held: dict[ObjectKey, float] = field(default_factory=dict)
    """When each was last told that its hour has not come."""

    def check(self, migration: PodMigration, now: float) -> Hold | None:
        """Why people keep it from beginning; None when they do not."""
        key, members = (migration.namespace, migration.name), self.board.members(migration)
        if reason := abandon_reason(migration, members, now, self.timeout()):
            return Hold(reason, never=True)
        _remember(self._looked, key, now)
        if reason := missing_approval(migration, members):
            self._given.pop(key, None)
            return Hold(reason)
        if migration.spec.approval_required and key not in self._given:
            _remember(self._given, key, now)
        if _has_begun(members):
            return None
        if (pause := self.pauses.current()) is not None:
            return Hold(_told(pause))
        if (held := self.hours.check(migration)) is None:
            return None
        _remember(self._held, key, now)
        if held.until == inf:
            return Hold(f"{held.reason}; it is given up", never=True)
        patience = migration.spec.timeout or self.patience()
        if held.until - now > patience and not migration.spec.approval_required:
            return Hold(f"{held.reason}; {REPLANNED}", never=True)
        return Hold(held.reason)

    def note_start(self, migration: PodMigration) -> None:
        """Take note that it was let begin."""
        self.hours.note_start(migration)

    def is_held(self, migration: PodMigration) -> bool:
        """Whether people keep it waiting now, be it told or not."""
        if migration.status.phase is not Phase.PENDING:
            return False
        members = self.board.members(migration)
        if missing_approval(migration, members):
            return True
        if _has_begun(members):
            return False
        return self.pauses.current() is not None or self.hours.check(migration) is not None

    def has_reported(self, migration: PodMigration, now: float) -> bool:
        """Whether one that is kept waiting would only be told again what it was told a short while ago."""
        members, said = self.board.members(migration), migration.status.message
        if abandon_reason(migration, members, now, self.timeout()):
            return False
        expected = missing_approval(migration, members)
        if not expected and (pause := self.pauses.current()) is not None:
            expected = _told(pause)
        elif not expected and (held := self.hours.check(migration)) is not None:
            expected = held.reason
        looked = self._looked.get((migration.namespace, migration.name), 0.0)
        return said == expected and 0.0 <= now - looked < _LOOKED_AT

    def since(self, migration: PodMigration) -> float:
        """From when on it can have begun, as far as people go: before that, no time is counted against it."""
        key = (migration.namespace, migration.name)
        return max(self._given.get(key, 0.0), self._held.get(key, 0.0), self.pauses.resumed)


def _told(pause: PauseDetails) -> str:
    return f"{pause}; `rescheduler resume` goes on"


def _has_begun(members: tuple[PodMigration, ...]) -> bool:
    """Whether a move that belongs to it is under way, and waits for it."""
    return any(each.status.phase is Phase.IN_PROGRESS for each in members)


def _remember(times: dict[ObjectKey, float], key: ObjectKey, now: float) -> None:
    times.pop(key, None)
    times[key] = now
    if len(times) > _MOST:
        del times[next(iter(times))]
