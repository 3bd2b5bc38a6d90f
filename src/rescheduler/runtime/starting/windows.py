"""Time windows and hourly limits for optional moves.

The planning loop reads how many moves it may create; `holds` checks each one before it starts. Starts are counted by
the start times of the PodMigrations, which the garbage collector keeps for an hour. So a restart or a new leader
forgets none. Moves that a person has asked for (by hand, by `apply`, by emptying a node) are not held or counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from rescheduler.config.live import LiveConfig
from rescheduler.migration.steps.common import STORE_TIMEOUT
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.policy import Timing
from rescheduler.model.time import format_instant
from rescheduler.model.windows import Schedule
from rescheduler.planning.budgets import COUNTS, FIELD, counts_for_hour, is_ordered
from rescheduler.runtime.migration_cache import MigrationCache

_IN_ALL = "when.movesPerHour"
_GRANTED_FOR = 60.0  # seconds within which a granted start is visible in the cache, or did not happen


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a migration may not start now."""

    reason: str
    until: float = 0.0
    """The earliest time at which it may; infinite if it never may, 0.0 if that depends on a person."""

    @property
    def never(self) -> bool:
        """Whether it may never start."""
        return self.until == inf


@dataclass(frozen=True, slots=True)
class _HourlyLimit:
    """One hourly limit: how many may start, how many want to, and when the others started."""

    field: str
    most: int
    wanted: int
    begun: Sequence[float]
    where: str = ""

    def hold(self) -> Hold | None:
        """Why those that want to start may not yet; None if they may."""
        over = len(self.begun) + self.wanted - self.most
        if over <= 0:
            return None
        if over > len(self.begun):
            too_many = f"its {self.wanted} moves{self.where}, which belong together"
            return Hold(f"{too_many}, are more than {self.field} ({self.most})", inf)
        until = sorted(self.begun)[over - 1] + COUNTS
        return Hold(f"{self.describe()}: not before {format_instant(until)}", until)

    def describe(self, waiting: int = 0) -> str:
        """The counts in words: started, created but not started, and allowed."""
        begun = f"{_count_moves(len(self.begun))} begun{self.where} within the hour"
        ordered = f", {waiting} {'is' if waiting == 1 else 'are'} ordered" if waiting else ""
        return f"{begun}{ordered}, and {self.most} may ({self.field})"


class TimeWindows:
    """Says when optional moves may start."""

    def __init__(self, migrations: MigrationCache, live: LiveConfig, now: Callable[[], float]) -> None:
        self._migrations = migrations
        self._live = live
        self._now = now
        self._begun: dict[ObjectKey, float] = {}
        """When each optional move last started, including deleted ones."""
        self._granted: dict[ObjectKey, float] = {}
        """When each start was granted that the cache does not show yet."""
        self._outlook: tuple[Schedule | None, float, float, Hold | None] = (None, 0.0, 0.0, None)
        """The schedule last evaluated, from when to when the result holds, and the result."""
        for migration in migrations.all():
            self._note(migration)
        migrations.listen(self._changed)

    def room(self) -> tuple[int | None, str]:
        """How many optional moves may be created now (None: any number), and why no more.

        Plans keep the limits of namespaces.
        """
        now, most = self._now(), self._live.policy().when.moves_per_hour
        if (closed := self._find_closed(now)) is not None:
            return 0, closed.reason
        if most is None:
            return None, ""
        begun, ordered = self._starts_within_hour(now), set(self._list_ordered())
        if (room := most - len(begun.keys() | ordered)) > 0:
            return room, f"only {room} more may begin within the hour ({_IN_ALL})"
        hour = _HourlyLimit(_IN_ALL, most, 1, tuple(begun.values()))
        reason, full = hour.describe(len(ordered - begun.keys())), hour.hold()
        return 0, reason if full is None else f"{reason}: none before {format_instant(full.until)}"

    def check(self, migration: PodMigration) -> Hold | None:
        """Why a pending migration may not start yet; None if it may."""
        if not counts_for_hour(migration) or migration.status.phase is not Phase.PENDING:
            return None
        now, members = self._now(), self._migrations.members(migration)
        if any(self._is_ahead(each, now) for each in members):
            return None
        return self._find_closed(now) or self._too_many(migration, members, now)

    def note_start(self, migration: PodMigration) -> None:
        """Count a migration that starts."""
        if counts_for_hour(migration):
            self._granted[migration.key] = self._now()

    def needed(self, now: float) -> set[ObjectKey]:
        """The finished migrations that must be kept because they count for the hour."""
        return set(self._starts_within_hour(now)) if self._live.policy().when.counts else set()

    def _is_ahead(self, member: PodMigration, now: float) -> bool:
        """Whether a member of the proposal has completed, or is about to start."""
        granted = self._granted.get(member.key)
        return member.status.phase is Phase.COMPLETED or (granted is not None and now - granted < _GRANTED_FOR)

    def _find_closed(self, now: float) -> Hold | None:
        """Why no window is open; cached until the next change of the schedule, because every waiting migration asks."""
        schedule = self._live.policy().when.schedule
        known, since, until, held = self._outlook
        if known is not schedule or not since <= now < until:
            change = schedule.next_change(now)
            if schedule.open_at(now):
                held = None
            elif change is None:
                held = Hold("no time window (when.windows) opens any more", inf)
            else:
                when = f"{schedule.local(change)} {schedule.time_zone}"
                held = Hold(f"no time window is open before {when} (when.windows)", change)
            self._outlook = (schedule, now, inf if change is None else change, held)
        return held

    def _too_many(self, migration: PodMigration, members: Sequence[PodMigration], now: float) -> Hold | None:
        """The hourly limit that holds it the longest; each move of a proposal counts."""
        timing = self._live.policy().when
        if not timing.counts:
            return None
        begun = self._starts_within_hour(now)
        for each in (migration, *members):
            begun.pop(each.key, None)  # another attempt is not another start
        found = [hour.hold() for hour in _list_limits(timing, migration, members, begun)]
        if timing.moves_per_hour_per_namespace is not None:
            found.append(_find_unstored(migration, members, now))
        return max((each for each in found if each is not None), key=lambda held: held.until, default=None)

    def _list_ordered(self) -> Iterator[ObjectKey]:
        """The created moves that have not started yet."""
        return (each.key for each in self._migrations.active() if counts_for_hour(each) and is_ordered(each))

    def _starts_within_hour(self, now: float) -> dict[ObjectKey, float]:
        """The start times that count for the hour, including granted starts."""
        self._begun = {key: at for key, at in self._begun.items() if now - at < COUNTS}
        self._granted = {key: at for key, at in self._granted.items() if now - at < _GRANTED_FOR}
        return self._begun | self._granted

    def _note(self, migration: PodMigration) -> None:
        started, key = migration.status.start_time, migration.key
        if migration.status.phase is not Phase.PENDING:
            self._granted.pop(key, None)
        if not counts_for_hour(migration) or started is None or self._begun.get(key) == started:
            return
        self._begun.pop(key, None)
        self._begun[key] = started
        now = self._now()
        while self._begun and now - next(iter(self._begun.values())) >= COUNTS:  # bounds the memory
            del self._begun[next(iter(self._begun))]

    def _changed(self, key: ObjectKey, _ours: bool) -> None:  # noqa: FBT001  a listener of the cache
        if (migration := self._migrations.get(key)) is not None:
            self._note(migration)


def _list_limits(
    timing: Timing, migration: PodMigration, members: Sequence[PodMigration], begun: dict[ObjectKey, float]
) -> Iterator[_HourlyLimit]:
    """The hourly limits for a proposal: the total, and one for each namespace."""
    if timing.moves_per_hour is not None:
        yield _HourlyLimit(_IN_ALL, timing.moves_per_hour, max(1, migration.spec.members), tuple(begun.values()))
    if timing.moves_per_hour_per_namespace is not None:
        for name, wanted in Counter(each.namespace for each in (migration, *members)).items():
            there = tuple(at for key, at in begun.items() if key[0] == name)
            yield _HourlyLimit(FIELD, timing.moves_per_hour_per_namespace, wanted, there, f" in {name}")


def _find_unstored(migration: PodMigration, members: Sequence[PodMigration], now: float) -> Hold | None:
    """The moves of a proposal are stored one after the other; until all are there, their namespaces are unknown."""
    stored = (migration.metadata.creation_timestamp or now) + STORE_TIMEOUT
    if len(members) >= migration.spec.members - 1 or now > stored:
        return None
    return Hold("not all moves that belong to it are stored yet", stored)


def _count_moves(moves: int) -> str:
    return "1 move has" if moves == 1 else f"{moves or 'no'} moves have"
