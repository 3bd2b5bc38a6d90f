"""Durations as kubectl shows them: `3s`, `5m10s`, `2d3h`; coarser the longer they are.

The columns of Tables use them for ages, restarts and how long a Job took.
"""

from __future__ import annotations

from datetime import datetime

from kubemini import clock

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY


def age(stamped: str | None) -> str:
    """How long ago a time stamp is."""
    if not stamped:
        return UNKNOWN
    moment = moment_of(stamped)
    return INVALID if moment is None else human((clock.now() - moment).total_seconds())


def between(start: str | None, end: str | None) -> str:
    """How long something took, or has taken until now; nothing if it has not begun."""
    begun = moment_of(start) if start else None
    if begun is None:
        return ""
    ended = moment_of(end) if end else None
    return human(((ended or clock.now()) - begun).total_seconds())


def moment_of(stamped: str) -> datetime | None:
    """The time that a stamp means, if it is one."""
    try:
        moment = clock.moment(stamped)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def human(seconds: float) -> str:
    """A duration in two units at most."""
    if seconds < -1:
        return INVALID  # a little in the future is a clock that is a little off
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(seconds: int, large: int, sign: str, small: int, small_sign: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{sign}" + (f"{rest}{small_sign}" if rest else "")
