"""Cron expressions, as CronJobs have them: five fields with names, ranges and steps, `@hourly`, `@every 5m`.

`rules/cron_job` asks whether an expression can be read, `controllers/cron_job` when its turn comes. The rules are
those of the library that Kubernetes reads them with: a day matches if both the day of the month and the day of the
week do, but if neither is `*`, one of them is enough. What clocks skip in spring is skipped; what they repeat in autumn
is repeated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rescheduler.model.duration import DurationError, parse_duration

_YEARS_AHEAD = 5  # a time that does not come in these years does not come
_MINUTE, _DAY = timedelta(minutes=1), timedelta(days=1)
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "


class CronError(ValueError):
    """What is no cron expression, or no time zone; the message is a sentence that says why."""


class Schedule(Protocol):
    """When something is due."""

    def next(self, after: datetime) -> datetime | None:
        """The first time after a moment; None if there is none in the next years."""

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The last time after one moment and not after another."""


@dataclass(frozen=True, slots=True)
class Field:
    """What one field of an expression lets through."""

    values: frozenset[int]
    starred: bool
    """Whether it says nothing: `*`, or a list with `*` in it."""

    def __contains__(self, value: int) -> bool:
        return value in self.values


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be in a field."""

    least: int
    most: int
    names: tuple[str, ...] = ()
    """Names for the numbers from the least on."""


_BOUNDS = (Bounds(0, 59), Bounds(0, 23), Bounds(1, 31), Bounds(1, 12, _MONTHS), Bounds(0, 6, _WEEKDAYS))


@dataclass(frozen=True, slots=True)
class Calendar:
    """A schedule of five fields, on the clocks of a time zone."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field
    zone: tzinfo

    def next(self, after: datetime) -> datetime | None:
        """The first time after a moment, found by leaps over days, hours and minutes that do not match."""
        moment = after.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE
        last_year = moment.year + _YEARS_AHEAD
        while moment.year <= last_year:
            local = moment.astimezone(self.zone)
            if local.month not in self.month or not self._has_day(local):
                tomorrow = datetime.combine(local.date() + _DAY, datetime.min.time(), self.zone).astimezone(UTC)
                moment = max(tomorrow, moment + _MINUTE)
            elif local.hour not in self.hour:
                moment += _MINUTE * (60 - local.minute)
            elif local.minute not in self.minute:
                moment += _MINUTE
            else:
                return moment
        return None

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The last time after one moment and not after another, looked for ever further back from the later one."""
        reach = _MINUTE
        while True:
            start = max(after, until - reach)
            found = None
            due = self.next(start)
            while due is not None and due <= until:
                found, due = due, self.next(due)
            if found is not None or start == after:
                return found
            reach *= 2

    def _has_day(self, local: datetime) -> bool:
        by_month, by_week = local.day in self.day, local.isoweekday() % 7 in self.weekday
        if self.day.starred or self.weekday.starred:
            return by_month and by_week
        return by_month or by_week


@dataclass(frozen=True, slots=True)
class Steady:
    """A schedule that goes by the time since the last turn alone."""

    every: timedelta

    def next(self, after: datetime) -> datetime | None:
        """The first time after a moment."""
        return after.replace(microsecond=0) + self.every

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The last time after one moment and not after another."""
        start = after.replace(microsecond=0)
        turns = (until - start) // self.every
        return start + turns * self.every if turns > 0 else None


def schedule_of(text: str, zone: str = "") -> Schedule:
    """Read an expression; a CronError if it is none."""
    clocks = zone_named(zone)
    if text.startswith(_EVERY):
        try:
            seconds = parse_duration(text.removeprefix(_EVERY))
        except DurationError as error:
            raise CronError(f"failed to parse duration {text}: {error}") from None
        return Steady(timedelta(seconds=max(int(seconds), 1)))
    if text.startswith("@") and text not in _NAMED:
        raise CronError(f"unrecognized descriptor: {text}")
    parts = _NAMED.get(text, text).split()
    if len(parts) != len(_BOUNDS):
        raise CronError(f"expected exactly {len(_BOUNDS)} fields, found {len(parts)}: [{' '.join(parts)}]")
    minute, hour, day, month, weekday = (_field(*each) for each in zip(parts, _BOUNDS, strict=True))
    return Calendar(minute, hour, day, month, weekday, clocks)


def zone_named(name: str) -> tzinfo:
    """A time zone; none is UTC, which is there even where no others are known."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CronError(f"unknown time zone {name}") from None


def _field(text: str, bounds: Bounds) -> Field:
    ranges = [_range(part, bounds) for part in text.split(",") if part]
    values = frozenset(value for part in ranges for value in part.values)
    return Field(values, any(part.starred for part in ranges))


def _range(text: str, bounds: Bounds) -> Field:
    span, *steps = text.split("/")
    low, *highs = span.split("-")
    starred = low in ("*", "?")
    if not starred and len(highs) > 1:
        raise CronError(f"too many hyphens: {text}")
    if len(steps) > 1:
        raise CronError(f"too many slashes: {text}")
    first = bounds.least if starred else _number(low, bounds)
    last = bounds.most  # as of `*`, and of `5/10`
    if not starred and not (steps and not highs):
        last = _number(highs[0], bounds) if highs else first
    step = _number(steps[0]) if steps else 1
    if first < bounds.least:
        raise CronError(f"beginning of range ({first}) below minimum ({bounds.least}): {text}")
    if last > bounds.most:
        raise CronError(f"end of range ({last}) above maximum ({bounds.most}): {text}")
    if first > last:
        raise CronError(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if step == 0:
        raise CronError(f"step of range should be a positive number: {text}")
    return Field(frozenset(range(first, last + 1, step)), starred and step == 1)


def _number(text: str, bounds: Bounds | None = None) -> int:
    if bounds is not None and text.lower() in bounds.names:
        return bounds.least + bounds.names.index(text.lower())
    if not _NUMBER.fullmatch(text):
        raise CronError(f"failed to parse int from {text}: it is neither a number nor a name of this field")
    if int(text) < 0:
        raise CronError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
