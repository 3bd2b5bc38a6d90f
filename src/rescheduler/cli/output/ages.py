"""Ages as kubectl shows them: `3s`, `5m10s`, `2d3h`; coarser the longer they are."""

from __future__ import annotations

UNKNOWN = "<unknown>"

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 31_536_000
# Up to this many seconds, shown in this unit, and with a remainder in the next one where it is worth it.
_SCALES = (
    (2 * _MINUTE, (1, "s"), None),
    (10 * _MINUTE, (_MINUTE, "m"), (1, "s")),
    (3 * _HOUR, (_MINUTE, "m"), None),
    (8 * _HOUR, (_HOUR, "h"), (_MINUTE, "m")),
    (2 * _DAY, (_HOUR, "h"), None),
    (8 * _DAY, (_DAY, "d"), (_HOUR, "h")),
    (2 * _YEAR, (_DAY, "d"), None),
    (8 * _YEAR, (_YEAR, "y"), (_DAY, "d")),
)


def age(since: float | None, now: float) -> str:
    """How long ago an instant was; clocks that are a little off make nobody unborn."""
    if since is None:
        return UNKNOWN
    seconds = max(int(now - since), 0)
    for most, (large, sign), rest in _SCALES:
        if seconds < most:
            left = seconds % large // rest[0] if rest else 0
            return f"{seconds // large}{sign}" + (f"{left}{rest[1]}" if rest and left else "")
    return f"{seconds // _YEAR}y"
