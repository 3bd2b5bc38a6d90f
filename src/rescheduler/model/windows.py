"""Time windows: when optional moves may start, such as `Mon-Fri 22:00-05:00` in a time zone.

`config` reads them from a file, and `runtime.starting.windows` checks them before a move starts. A window that crosses
midnight belongs to the day on which it starts. Windows follow local time. If the clocks skip its start or end, the
window starts or ends at the skip; if an hour occurs twice, the first one counts. So no window opens twice, and windows
that adjoin in the configuration adjoin on every day.
"""

from __future__ import annotations

import difflib
import re
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_FULL = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEK = 7
_DAY = 24 * 60  # minutes
_AHEAD = 2 * _WEEK + 1  # days to look ahead: a clock change can remove one weekly window, not two in a row
_TIME = r"\d{1,2}:\d{2}"
_DAILY = re.compile(
    rf"(?:(?P<days>[^\d\s]+(?:\s*[,-]\s*[^\d\s]+)*)(?:\s+|$))?(?:(?P<start>{_TIME})\s*-\s*(?P<end>{_TIME}))?"
)
_ACROSS = re.compile(rf"(?P<first>[A-Za-z]+)\s+(?P<start>{_TIME})\s*-\s*(?P<last>[A-Za-z]+)\s+(?P<end>{_TIME})")
_FORMS = "write it as `Mon-Fri 22:00-05:00`, `Sat,Sun`, `* 02:00-04:00` or `Fri 22:00-Mon 05:00`"

UTC_NAME = "UTC"


class WindowError(ValueError):
    """Text that is not a window or time zone; the message names it and the cure."""


@dataclass(frozen=True, slots=True)
class Window:
    """A span from a time of each of these days to another time, on the same or a later day."""

    text: str
    days: frozenset[int]
    """The days on which it starts; Monday is 0."""
    start: int
    """Minutes after midnight."""
    end: int
    """Minutes after the midnight before it starts: more than a day if it ends on a later day."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Schedule:
    """All windows of a configuration; without windows it is always open."""

    windows: tuple[Window, ...] = ()
    time_zone: str = UTC_NAME
    _zone: tzinfo = field(default=UTC, compare=False, repr=False)

    @classmethod
    def of(cls, windows: tuple[Window, ...], time_zone: str) -> Schedule:
        """Build the schedule of these windows in a time zone."""
        return cls(windows, time_zone, zone_of(time_zone))

    def open_at(self, instant: float) -> bool:
        """Whether a window is open at this instant."""
        return not self.windows or any(start <= instant < end for start, end in self._spans(instant, 0))

    def next_change(self, instant: float) -> float | None:
        """When the schedule next opens or closes; None if it never does."""
        if not self.windows:
            return None
        spans = sorted(self._spans(instant, _AHEAD))
        if not self.open_at(instant):
            return min((start for start, _ in spans if start > instant), default=None)
        until = instant
        for start, end in spans:
            if start > until:
                return until
            until = max(until, end)
        return None  # windows adjoin for as long as is looked ahead

    def local(self, instant: float) -> str:
        """An instant in local time: `Mon 2026-11-16 22:00`."""
        there = datetime.fromtimestamp(instant, self._zone)
        return f"{_DAYS[there.weekday()]} {there:%Y-%m-%d %H:%M}"

    def _spans(self, instant: float, ahead: int) -> Iterator[tuple[float, float]]:
        """Start and end of each window that starts in the week before this instant or in the days ahead."""
        today = datetime.fromtimestamp(instant, self._zone).date()
        for offset in range(-_WEEK - 1, ahead + 2):
            day = today + timedelta(days=offset)
            for window in self.windows:
                if day.weekday() in window.days:
                    start, end = self._at(day, window.start), self._at(day, window.end)
                    if start < end:
                        yield start, end

    def _at(self, day: date, minutes: int) -> float:
        """The first instant at which the clocks show this time; if they skip it, the instant of the skip."""
        wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
        by_old, by_new = (wall.replace(tzinfo=self._zone, fold=fold).timestamp() for fold in (0, 1))
        if by_old <= by_new:  # a time that occurs, once or twice
            return by_old
        early, late = int(by_new), int(by_old)
        while early < late:
            middle = (early + late) // 2
            if datetime.fromtimestamp(middle, self._zone).replace(tzinfo=None) < wall:
                early = middle + 1
            else:
                late = middle
        return float(late)


def parse_window(text: str) -> Window:
    """Parse a window's text."""
    written = " ".join(text.split())
    if found := _ACROSS.fullmatch(written):
        first, last = _day(found["first"], text), _day(found["last"], text)
        start, end = _minutes(found["start"], text, last=False), _minutes(found["end"], text, last=True)
        end += (last - first) % _WEEK * _DAY
        if end <= start:
            end += _WEEK * _DAY
        if end - start >= _WEEK * _DAY:
            raise WindowError(f"{text!r} lasts a whole week: leave the window out, then it is always open")
        return Window(written, frozenset({first}), start, end)
    found = _DAILY.fullmatch(written)
    if not written or found is None:
        raise WindowError(f"{text!r} is not a time window: {_FORMS}")
    days = _days(found["days"] or "*", text)
    if found["start"] is None:
        return Window(written, days, 0, _DAY)
    start, end = _minutes(found["start"], text, last=False), _minutes(found["end"], text, last=True)
    if start == end:
        raise WindowError(f"{text!r} ends when it begins: for whole days leave the times out")
    return Window(written, days, start, end if end > start else end + _DAY)


def zone_of(name: str) -> tzinfo:
    """Look up a time zone in the machine's database or the package tzdata."""
    if name == UTC_NAME:
        return UTC  # known everywhere, also where there is no database
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = zoneinfo.available_timezones()
    if len(known) < 2:
        cure = f"install tzdata (the system's package, or Python's), or use {UTC_NAME}"
        raise WindowError(f"time zone {name!r} cannot be looked up: this machine has no time zone database; {cure}")
    near = _ending_alike(name, known) or difflib.get_close_matches(name, sorted(known), 1)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise WindowError(f"{name!r} is not a time zone such as Europe/Berlin or {UTC_NAME}{hint}")


def _ending_alike(name: str, known: set[str]) -> list[str]:
    """Find zones of a city that is named without its continent, or in another case."""
    wanted = name.rpartition("/")[2].replace(" ", "_").lower()
    return sorted(each for each in known if wanted and each.rpartition("/")[2].lower() == wanted)[:2]


def _days(written: str, text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in written.split(","):
        ends = [end.strip() for end in part.split("-")]
        if ends == ["*"]:
            found.update(range(_WEEK))
        elif len(ends) == 1:
            found.add(_day(ends[0], text))
        elif len(ends) == 2:
            first, last = _day(ends[0], text), _day(ends[1], text)
            found.update((first + offset) % _WEEK for offset in range((last - first) % _WEEK + 1))
        else:
            raise WindowError(f"{text!r}: {part.strip()} is not a day, nor days such as Mon-Fri")
    return frozenset(found)


def _day(name: str, text: str) -> int:
    wanted = name.lower()
    for index, full in enumerate(_FULL):
        if wanted in (full, full[:3]):
            return index
    raise WindowError(f"{text!r}: {name or 'nothing'} is not a day of the week: {', '.join(_DAYS)}, or * for all")


def _minutes(written: str, text: str, *, last: bool) -> int:
    hours, minutes = (int(part) for part in written.split(":"))
    if minutes < 60 and (hours < 24 or (last and hours == 24 and minutes == 0)):
        return hours * 60 + minutes
    most = "24:00" if last else "23:59"
    raise WindowError(f"{text!r}: {written} is not a time of day between 00:00 and {most}")
