"""Knows when moves by choice may begin: inside the time windows, and no more of them within an hour than are allowed.

The plan loop asks how many it may order, `consent` before one begins. What has begun is counted by the PodMigrations'
own start times, which the janitor keeps for that long: so neither a restart nor a new leader forgets any. Moves that
people have asked for (by hand, by `apply`, by emptying a node) are not held, and do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from rescheduler.migration.steps.common import STORE_TIMEOUT
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.policy import Timing
from rescheduler.model.time import format_instant
from rescheduler.model.windows import Schedule
from rescheduler.planning.budgets import COUNTS, FIELD, counts_for_hour, is_ordered
from rescheduler.runtime.migration_cache import MigrationCache

_IN_ALL = "when.movesPerHour"
_ABOUT_TO = 60.0  # seconds within which one that was let begin has begun, or something has come between


@dataclass(frozen=True, slots=True)
class WindowHold:
    """Why a move may not begin yet, and when it may at the earliest."""

    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class _HourlyLimit:
    """What one limit of the hour is about: how many may begin, how many want to, and when the others have begun."""

    field: str
    most: int
    wanted: int
    begun: Sequence[float]
    where: str = ""

    def held(self) -> WindowHold | None:
        """Why those that want to may not begin yet; None when they may."""
        over = len(self.begun) + self.wanted - self.most
        if over <= 0:
            return None
        if over > len(self.begun):
            too_many = f"its {self.wanted} moves{self.where}, which belong together"
            return WindowHold(f"{too_many}, are more than {self.field} ({self.most})", inf)
        until = sorted(self.begun)[over - 1] + COUNTS
        return WindowHold(f"{self.told()}: not before {format_instant(until)}", until)

    def told(self, waiting: int = 0) -> str:
        """How many have begun, with those that are ordered and have not, and how many may."""
        begun = f"{_counted(len(self.begun))} begun{self.where} within the hour"
        ordered = f", {waiting} {'is' if waiting == 1 else 'are'} ordered" if waiting else ""
        return f"{begun}{ordered}, and {self.most} may ({self.field})"


class TimeWindows:
    """When moves may begin, for one replica."""

    def __init__(self, board: MigrationCache, timing: Callable[[], Timing], now: Callable[[], float]) -> None:
        self._board = board
        self._timing = timing
        self._now = now
        self._begun: dict[ObjectKey, float] = {}
        """When each move by choice last began; also of those that somebody has deleted since."""
        self._granted: dict[ObjectKey, float] = {}
        """When each was let begin that the board does not tell of yet."""
        self._outlook: tuple[Schedule | None, float, float, WindowHold | None] = (None, 0.0, 0.0, None)
        """Of which windows it was last worked out, from when to when that holds, and what it is."""
        for migration in board.all():
            self._note(migration)
        board.listen(self._changed)

    def why_closed(self) -> str:
        """Why nothing may begin by choice now; empty when a window is open, or there are none."""
        held = self._outside(self._now())
        return held.reason if held is not None else ""

    def room(self, namespace: str = "") -> int | None:
        """How many moves by choice may be ordered now, in all or in one namespace, for the hour; None is no limit."""
        timing = self._timing()
        most = timing.moves_per_hour_per_namespace if namespace else timing.moves_per_hour
        if most is None:
            return None
        counted = {*self._within_the_hour(self._now()), *self._ordered()}
        return max(0, most - sum(not namespace or key[0] == namespace for key in counted))

    def why_limited(self) -> str:
        """Why no more moves by choice are ordered than there is room for in all; empty without a limit."""
        most, room = self._timing().moves_per_hour, self.room()
        if most is None or room is None:
            return ""
        if room:
            return f"only {room} more may begin within the hour ({_IN_ALL})"
        begun = self._within_the_hour(self._now())
        hour = _HourlyLimit(_IN_ALL, most, 1, tuple(begun.values()))
        told, full = hour.told(len(set(self._ordered()) - begun.keys())), hour.held()
        return told if full is None else f"{told}: none before {format_instant(full.until)}"

    def check(self, migration: PodMigration) -> WindowHold | None:
        """Why a pending migration may not begin yet; None when it may."""
        if not counts_for_hour(migration) or migration.status.phase is not Phase.PENDING:
            return None
        now, members = self._now(), self._board.members(migration)
        if any(self._goes_ahead(each, now) for each in members):
            return None
        return self._outside(now) or self._too_many(migration, members, now)

    def note_start(self, migration: PodMigration) -> None:
        """Count it from now on: it begins."""
        if counts_for_hour(migration):
            self._granted[migration.namespace, migration.name] = self._now()

    def needed(self, now: float) -> set[ObjectKey]:
        """The migrations that must not be forgotten: they count for the hour."""
        return set(self._within_the_hour(now)) if self._timing().counts else set()

    def _goes_ahead(self, member: PodMigration, now: float) -> bool:
        """Whether one that others belong to is about to begin, though the board does not tell yet, or is there."""
        granted = self._granted.get((member.namespace, member.name))
        return member.status.phase is Phase.COMPLETED or (granted is not None and now - granted < _ABOUT_TO)

    def _outside(self, now: float) -> WindowHold | None:
        """Why no window is open; asked for each that waits, so it is worked out once until that changes."""
        schedule = self._timing().schedule
        known, since, until, held = self._outlook
        if known is not schedule or not since <= now < until:
            change = schedule.next_change(now)
            held = None if schedule.open_at(now) else self._closed(schedule, change)
            self._outlook = (schedule, now, inf if change is None else change, held)
        return held

    @staticmethod
    def _closed(schedule: Schedule, opens: float | None) -> WindowHold:
        if opens is None:
            return WindowHold("no time window (when.windows) opens any more", inf)
        when = f"{schedule.local(opens)} {schedule.time_zone}"
        return WindowHold(f"no time window is open before {when} (when.windows)", opens)

    def _too_many(self, migration: PodMigration, members: Sequence[PodMigration], now: float) -> WindowHold | None:
        """Which limit of the hour keeps it waiting for the longest; of moves that belong together, each counts."""
        timing = self._timing()
        if not timing.counts:
            return None
        begun = self._within_the_hour(now)
        for each in (migration, *members):
            begun.pop((each.namespace, each.name), None)  # to begin again is not one more
        found = [hour.held() for hour in _hours(timing, migration, members, begun)]
        if timing.moves_per_hour_per_namespace is not None:
            found.append(_unknown(migration, members, now))
        return max((each for each in found if each is not None), key=lambda held: held.until, default=None)

    def _ordered(self) -> Iterator[ObjectKey]:
        """Those that have yet to begin."""
        return (
            (each.namespace, each.name) for each in self._board.active() if counts_for_hour(each) and is_ordered(each)
        )

    def _within_the_hour(self, now: float) -> dict[ObjectKey, float]:
        """When those began, or were let begin, that count."""
        self._begun = {key: at for key, at in self._begun.items() if now - at < COUNTS}
        self._granted = {key: at for key, at in self._granted.items() if now - at < _ABOUT_TO}
        return self._begun | self._granted

    def _note(self, migration: PodMigration) -> None:
        started, key = migration.status.start_time, (migration.namespace, migration.name)
        if migration.status.phase is not Phase.PENDING:
            self._granted.pop(key, None)
        if not counts_for_hour(migration) or started is None or self._begun.get(key) == started:
            return
        self._begun.pop(key, None)
        self._begun[key] = started
        now = self._now()
        while self._begun and now - next(iter(self._begun.values())) >= COUNTS:  # also where nobody asks how many
            del self._begun[next(iter(self._begun))]

    def _changed(self, key: ObjectKey, _ours: bool) -> None:  # noqa: FBT001  the board's listeners are called so
        if (migration := self._board.get(key)) is not None:
            self._note(migration)


def _hours(
    timing: Timing, migration: PodMigration, members: Sequence[PodMigration], begun: dict[ObjectKey, float]
) -> Iterator[_HourlyLimit]:
    """The limits that a move and those that belong to it have to keep: that of all, and that of each namespace."""
    if timing.moves_per_hour is not None:
        yield _HourlyLimit(_IN_ALL, timing.moves_per_hour, max(1, migration.spec.members), tuple(begun.values()))
    if timing.moves_per_hour_per_namespace is not None:
        for name, wanted in Counter(each.namespace for each in (migration, *members)).items():
            there = tuple(at for key, at in begun.items() if key[0] == name)
            yield _HourlyLimit(FIELD, timing.moves_per_hour_per_namespace, wanted, there, f" in {name}")


def _unknown(migration: PodMigration, members: Sequence[PodMigration], now: float) -> WindowHold | None:
    """Moves that belong together are stored one after the other: before all are, nobody knows their namespaces."""
    stored = (migration.metadata.creation_timestamp or now) + STORE_TIMEOUT
    if len(members) >= migration.spec.members - 1 or now > stored:
        return None
    return WindowHold("not all moves that belong to it are stored yet", stored)


def _counted(moves: int) -> str:
    return "1 move has" if moves == 1 else f"{moves or 'no'} moves have"
