"""Times and durations, as Kubernetes writes them: `2026-11-15T08:30:00Z`, `30s`, `1m30s`, `1.5h`, `250ms`.

Configuration files, annotations and flags carry durations as text; inside the program they are seconds, as a float.
Parsing and printing agree with Go's time.ParseDuration and Duration.String, which count whole nanoseconds in 64 bits.
A float holds whole nanoseconds up to 97 days (2**23 seconds); beyond that the last digits are rounded.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

_SECOND = 1_000_000_000
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign, which Go prints
    "μs": 1_000,  # U+03BC, the Greek letter, which people type
    "ms": 1_000_000,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_MAX = 2**63 - 1
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_EXAMPLES = "such as 30s, 1m30s or 1.5h"


class DurationError(ValueError):
    """Text that is not a duration; the message is a sentence that says why."""


def parse_duration(text: str) -> float:
    """Seconds in a duration's text; `-` may precede it, units may be combined, and only `0` needs none."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0.0
    if not rest:
        raise DurationError(f"{_quote(text)} is not a duration {_EXAMPLES}")
    total = 0
    at = 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None or not (part[1] or part[2]):
            raise DurationError(f"{_quote(text)} is not a duration {_EXAMPLES}")
        total += _nanoseconds(text, part[1], part[2] or "", part[3])
        at = part.end()
    # Go holds one nanosecond more below zero than above it.
    if total > _MAX + (sign < 0):
        raise DurationError(f"{_quote(text)} is too long: a duration is at most 2562047h47m16.854775807s")
    return sign * total / _SECOND


def _nanoseconds(text: str, whole: str, fraction: str, unit: str) -> int:
    if not unit:
        raise DurationError(f"{_quote(text)} lacks a unit: write h, m, s, ms, us or ns after each number")
    size = _UNITS.get(unit)
    if size is None:
        raise DurationError(f"{_quote(text)} has the unknown unit {_quote(unit)}: use h, m, s, ms, us or ns")
    # Digits beyond these change nothing: the whole part is too long already, the fraction is below a nanosecond.
    whole, fraction = whole.lstrip("0")[:20], fraction[:18].ljust(18, "0")
    return int(whole or "0") * size + int(fraction) * size // 10**18


def format_duration(seconds: float) -> str:
    """A duration's text as Go prints it: `1m30s`, `1h0m0s`, `1.5s`, `250ms`, `0s`."""
    if not math.isfinite(seconds) or abs(seconds) * _SECOND > _MAX + 1:
        raise DurationError(f"{seconds} seconds cannot be written as a duration")
    # In floats the product would be rounded once more, and 1ns of 60 days be lost.
    numerator, denominator = abs(seconds).as_integer_ratio()
    # Go's longest duration is not a float; the nearest one is a nanosecond longer.
    nanoseconds = min((2 * numerator * _SECOND + denominator) // (2 * denominator), _MAX)
    sign = "-" if seconds < 0 and nanoseconds else ""
    if nanoseconds < _SECOND:
        return sign + _below_a_second(nanoseconds)
    minutes, rest = divmod(nanoseconds, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    text = _decimal(rest, _SECOND) + "s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _below_a_second(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    unit = "ns" if nanoseconds < 1_000 else "µs" if nanoseconds < 1_000_000 else "ms"
    return _decimal(nanoseconds, _UNITS[unit]) + unit


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    # `unit` is a power of ten, so its zeros are the digits after the point.
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)


def _quote(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")


class InstantError(ValueError):
    """Text that is not an RFC 3339 time."""


@lru_cache(maxsize=65536)
def parse_instant(text: str) -> float:
    """Seconds since the epoch of `2026-11-15T08:30:00Z`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InstantError(f"{text!r} is not a time such as 2026-11-15T08:30:00Z") from None
    if moment.tzinfo is None:
        raise InstantError(f"{text!r} has no time zone; write it as 2026-11-15T08:30:00Z")
    return moment.timestamp()


def read_instant(text: str | None) -> float | None:
    """Parse an instant that others have written (kubelets may write anything); None if there is none."""
    try:
        return parse_instant(text) if text else None
    except InstantError:
        return None


MAX_INSTANT = 253_402_300_799.0
"""The last second of the year 9999: later instants have no such text."""


def format_instant(seconds: float) -> str:
    """The RFC 3339 text of an instant, in UTC and whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if TYPE_CHECKING:
    Timestamp = float
    Duration = float
else:

    class Timestamp(float):
        """A field that is stored as RFC 3339 text; in the program it is seconds since the epoch, as a plain float."""

    class Duration(float):
        """A field that is stored as Go writes durations; in the program it is seconds."""


def decode_time(kind: type, text: object) -> float:
    """msgspec's `dec_hook` for both types."""
    if not isinstance(text, str):
        raise TypeError(f"Expected `str`, got `{type(text).__name__}`")
    return kind(parse_duration(text) if kind is Duration else parse_instant(text))  # type: ignore[no-any-return] # floats


def format_time(kind: type, seconds: float) -> str:
    """The text that a time of this type is stored as."""
    return format_duration(seconds) if kind is Duration else format_instant(seconds)
