"""Output: what a terminal can show, tables for it, ages as kubectl shows them, and JSON and YAML for programs.

Commands make a Terminal of stdout and format their lines for it. A file or a pipe has no width and no colour, so piped
output is the same on every machine; only its encoding counts, since a bar must not end in an error.
"""

from __future__ import annotations

import os
import shutil
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

RESOURCE = "podmigration.rescheduler.io"
"""What kubectl calls migrations, before the slash and the name."""
FORMATS = ("json", "yaml")
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


@dataclass(frozen=True, slots=True)
class Terminal:
    """`width` is None where lines may be of any length: files and pipes."""

    width: int | None = None
    colour: bool = False
    unicode: bool = True

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str] = os.environ) -> Terminal:
        """What this stream can show; NO_COLOR and TERM=dumb are honoured."""
        knows_bars = _encodes(stream.encoding or "ascii", "█▏→…")
        if not stream.isatty():
            return cls(unicode=knows_bars)
        colour = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        return cls(shutil.get_terminal_size().columns, colour, knows_bars)

    @property
    def arrow(self) -> str:
        """Between before and after."""
        return "→" if self.unicode else "->"

    def styled(self, text: str, *styles: str) -> str:
        """The text in colour, where there is colour."""
        if not self.colour or not styles or not text:
            return text
        return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[0m"

    def bar(self, share: float, width: int) -> str:
        """A bar of this share of the width; whatever is not nothing shows at least a sliver."""
        eighths = round(max(0.0, min(share, 1.0)) * width * 8)
        if share > 0:
            eighths = max(eighths, 1)
        if not self.unicode:
            return "#" * max(round(eighths / 8), int(share > 0))
        full, rest = divmod(eighths, 8)
        return "█" * full + " ▏▎▍▌▋▊▉"[rest].strip()


def plain(text: str) -> str:
    """Text from the input, with nothing in it that could disturb a terminal or break a line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def columns_of(text: str) -> int:
    """How many columns of a terminal the text takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _encodes(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def format_count(count: int, noun: str) -> str:
    """`1 move`, `3 moves`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def join_names(names: Sequence[str], most: int | None) -> str:
    """`a, b, c and 7 more`."""
    if most is None or len(names) <= most:
        return ", ".join(map(plain, names))
    return f"{', '.join(map(plain, names[:most]))} and {len(names) - most} more"


def format_document(data: Mapping[str, object], form: str) -> str:
    """The text of a document as kubectl prints it, ending with a newline; `form` is one of FORMATS."""
    if form == "json":
        import msgspec  # noqa: PLC0415 - completion does without it

        return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"
    import yaml  # noqa: PLC0415 - the same

    class Dumper(yaml.CSafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True  # anchors only puzzle

    # Not allow_unicode: libyaml would write line separators such as U+0085 as they are, and readers fold them.
    return yaml.dump(dict(data), Dumper=Dumper, sort_keys=False, width=1 << 30)


_UNKNOWN = "<unknown>"
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
        return _UNKNOWN
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
