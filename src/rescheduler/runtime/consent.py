"""Do people let a pending migration begin? Approval, where it is needed, and the pause of all rescheduling.

The gatekeeper asks it before everything else, and again whenever it wonders whether one that waits would only be told
what it has been told. While people keep a migration waiting, it takes no slot, and the time within which it must begin
does not run. Moves of which one has begun are not torn apart by a pause: the others may follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from rescheduler.cluster.pausing import Pause
from rescheduler.migration.approval import hopeless, wanting
from rescheduler.model.migration import Migration, Phase
from rescheduler.runtime.board import Board, Key

APPROVAL_TIMEOUT = 3600.0
_LOOKED_AT = 30.0  # seconds after which one that waits is looked at again: its pod may be another by now
_MOST = 10_000


class PauseKnown(Protocol):
    """Who knows whether rescheduling is paused."""

    @property
    def resumed(self) -> float: ...
    def paused(self) -> Pause | None: ...


class _NeverPaused:
    resumed = 0.0

    def paused(self) -> Pause | None:
        return None


@dataclass(frozen=True, slots=True)
class Withheld:
    """Why a migration may not begin: not yet, or never."""

    reason: str
    never: bool = False


@dataclass
class Consent:
    """What people have said, as far as it concerns the beginning of migrations."""

    board: Board
    timeout: float = APPROVAL_TIMEOUT
    """Seconds after which a move that nobody approves of is given up."""
    pauses: PauseKnown = field(default_factory=_NeverPaused)
    _given: dict[Key, float] = field(default_factory=dict)
    """When each was first seen to be approved; a new leader has the patience of one who has just heard of it."""
    _looked: dict[Key, float] = field(default_factory=dict)

    def withheld(self, migration: Migration, now: float) -> Withheld | None:
        """Why people keep it from beginning; None when they do not."""
        key, members = (migration.namespace, migration.name), self.board.members(migration)
        if reason := hopeless(migration, members, now, self.timeout):
            return Withheld(reason, never=True)
        _remember(self._looked, key, now)
        if reason := wanting(migration, members):
            self._given.pop(key, None)
            return Withheld(reason)
        if migration.order.needs_approval and key not in self._given:
            _remember(self._given, key, now)
        if (pause := self.pauses.paused()) is not None and not _has_begun(members):
            return Withheld(_told(pause))
        return None

    def keeps(self, migration: Migration) -> bool:
        """Whether people keep it waiting now, be it told or not."""
        if migration.progress.phase is not Phase.PENDING:
            return False
        members = self.board.members(migration)
        return bool(wanting(migration, members)) or (self.pauses.paused() is not None and not _has_begun(members))

    def has_told(self, migration: Migration, now: float) -> bool:
        """Whether one that is kept waiting would only be told again what it was told a short while ago."""
        members, said = self.board.members(migration), migration.progress.message
        if hopeless(migration, members, now, self.timeout):
            return False
        pause = self.pauses.paused()
        expected = wanting(migration, members) or (_told(pause) if pause is not None else "")
        looked = self._looked.get((migration.namespace, migration.name), 0.0)
        return said == expected and 0.0 <= now - looked < _LOOKED_AT

    def since(self, migration: Migration) -> float:
        """From when on it can have begun, as far as people go: before that, no time is counted against it."""
        given = self._given.get((migration.namespace, migration.name), 0.0)
        return max(given, self.pauses.resumed)


def _told(pause: Pause) -> str:
    return f"{pause}; `rescheduler resume` goes on"


def _has_begun(members: tuple[Migration, ...]) -> bool:
    """Whether a move that belongs to it is under way, and waits for it."""
    return any(each.progress.phase is Phase.IN_PROGRESS for each in members)


def _remember(times: dict[Key, float], key: Key, now: float) -> None:
    times.pop(key, None)
    times[key] = now
    if len(times) > _MOST:
        del times[next(iter(times))]
