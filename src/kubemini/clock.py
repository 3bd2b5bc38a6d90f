"""The time as Kubernetes writes it: seconds in most objects, microseconds in Leases and Events."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The time of day."""
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """metav1.Time: `2026-11-15T11:22:33Z`."""
    return moment.isoformat(timespec="seconds")[:19] + "Z"


def micro_stamp(moment: datetime) -> str:
    """metav1.MicroTime: `2026-11-15T11:22:33.000000Z`."""
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


def moment(stamped: str) -> datetime:
    """The way back from either."""
    return datetime.fromisoformat(stamped)
