"""Tables for a terminal, and ages as kubectl shows them: `3s`, `5m10s`, `2d3h`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rescheduler.cli.output.terminal import Terminal, columns_of, plain

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
    """How long ago an instant was; at least 0, as clocks may differ a little."""
    if since is None:
        return UNKNOWN
    seconds = max(int(now - since), 0)
    for most, (large, sign), rest in _SCALES:
        if seconds < most:
            left = seconds % large // rest[0] if rest else 0
            return f"{seconds // large}{sign}" + (f"{left}{rest[1]}" if rest and left else "")
    return f"{seconds // _YEAR}y"


_GAP = "   "
_NARROWEST = 36  # a flowing column below this reads worse than a line of its own
_INDENT = "    "

Row = Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headers; the last `flowing` columns hold sentences."""

    headers: Sequence[str]
    rows: Sequence[Row]
    flowing: int = 0
    right: frozenset[int] = frozenset()
    """Columns of numbers, which stand to the right."""
    tints: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """Styles of single cells, by row and column."""

    def lines(self, terminal: Terminal, *, headers: bool = True) -> Iterator[str]:
        """The table's lines for this terminal."""
        rows = [[plain(cell) for cell in row] for row in self.rows]
        listed = [list(self.headers), *rows] if headers else rows
        if not listed:
            return
        widths = [max(columns_of(row[column]) for row in listed) for column in range(len(self.headers))]
        total = sum(widths) + len(_GAP) * (len(widths) - 1)
        if headers:
            yield from self._headers(terminal, widths, total)
        for index, row in enumerate(rows):
            if terminal.width is None or total <= terminal.width or not self.flowing:
                yield self._joined(row, widths, terminal, index)
            else:
                yield from self._flowed(row, widths, terminal, index)

    def _headers(self, terminal: Terminal, widths: Sequence[int], total: int) -> Iterator[str]:
        shown = len(widths)
        if terminal.width is not None and total > terminal.width and self._beneath(terminal, widths):
            shown -= self.flowing
        yield terminal.styled(self._joined(list(self.headers)[:shown], widths, terminal), "bold")

    def _flowed(self, row: Row, widths: Sequence[int], terminal: Terminal, index: int) -> Iterator[str]:
        width = terminal.width or 0
        fixed, flowing = row[: -self.flowing], row[-self.flowing :]
        if not self._beneath(terminal, widths):
            indent = self._fixed_width(widths)
            first, *rest = _wrapped(flowing[0], width - indent) or [""]
            yield self._joined([*fixed, first], widths, terminal, index)
            yield from (" " * indent + line for line in rest)
            return
        yield self._joined(fixed, widths, terminal, index)
        for text in flowing:
            for line in _wrapped(text, width - len(_INDENT)):
                yield terminal.styled(_INDENT + line, "dim")

    def _beneath(self, terminal: Terminal, widths: Sequence[int]) -> bool:
        """Whether flowing columns go beneath their row: several always do, a single one when it would be too narrow."""
        return self.flowing > 1 or (terminal.width or 0) - self._fixed_width(widths) < _NARROWEST

    def _fixed_width(self, widths: Sequence[int]) -> int:
        return sum(width + len(_GAP) for width in widths[: -self.flowing])

    def _joined(self, row: Row, widths: Sequence[int], terminal: Terminal, index: int = -1) -> str:
        return _GAP.join(self._cell(row[at], (index, at), widths[at], terminal) for at in range(len(row))).rstrip()

    def _cell(self, text: str, place: tuple[int, int], width: int, terminal: Terminal) -> str:
        """The cell's text in its style, filled up with plain spaces."""
        space = " " * max(0, width - columns_of(text))
        tint = self.tints.get(place)
        shown = terminal.styled(text, tint) if tint else text
        return space + shown if place[1] in self.right else shown + space


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False)
