"""What the place that text goes to can show: how wide it is, whether it has colour, which characters it knows.

Commands make a Terminal of stdout and hand it to the renderers. What is not a terminal has no width and no colour, so
that piped output is the same on every machine; only its encoding counts, since a bar must not end in an error.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

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
