"""Instants, as Kubernetes writes them (RFC 3339), to and from seconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


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


LAST = 253_402_300_799.0
"""The last second that has such a text: that of the year 9999."""


def format_instant(seconds: float) -> str:
    """The RFC 3339 text of an instant, in UTC and whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
