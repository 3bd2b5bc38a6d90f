"""What is wrong with a configuration: every error at once, each a path and a sentence with the cure.

The readers and checks of this package find Findings, which point into the file by keys and indices; `load` turns them
into a ConfigErrors for the command line. The wording shared by all of them (values, types, hints) is here, so that
the same mistake reads the same wherever it is made.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Loc = tuple[str | int, ...]
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_WIDEST = 60  # of a user's text within a sentence; also keeps difflib, which is quadratic, quick


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and where in the data."""

    loc: Loc
    message: str


@dataclass(frozen=True, slots=True)
class ConfigError:
    """One thing that is wrong, for people: `source: path: message`; the source is a file or a flag."""

    source: str
    path: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, self.path, self.message) if part)

    @property
    def in_file(self) -> str:
        """The same for whoever knows which file it is about; a flag is named all the same."""
        return str(self) if self.source.startswith("--") else ": ".join(filter(None, (self.path, self.message)))


class ConfigErrors(Exception):  # noqa: N818 - it holds several errors, and its name says so
    """A configuration was refused; printed, it has one line for each error."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(map(str, self.errors)))


class FieldError(ValueError):
    """Raised by a check of several fields together, to put the blame on one of them, such as `port` or `web.port`."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


def format_path(loc: Loc) -> str:
    """A path as people write it: `profiles[0].pluginConfig[1].args.cpuThreshold`."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            path += f".{part}" if path else part
        else:
            path += f"[{quote(part)}]"
    return path


def quote(value: object) -> str:
    """A value within a sentence, on one line and not too long, with nothing that could disturb a terminal."""
    if isinstance(value, str):
        text = json.dumps(value[:_WIDEST], ensure_ascii=False)
        cut = text[:-1] + '…"' if len(value) > _WIDEST else text
        return "".join(ch if ch.isprintable() else f"\\u{ord(ch):04x}" for ch in cut)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    text = json.dumps(value)
    return text[:_WIDEST] + "…" if len(text) > _WIDEST else text


def describe_type(value: object) -> str:
    """What a value is, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "a mapping"
        case _:
            return "a list"


def wrong_type(value: object, expected: str) -> str:
    """`"80" is a string, expected a number: write 80, without quotes`."""
    if value is None:
        return f"is null, expected {expected}"
    if isinstance(value, (dict, list)):
        return f"is {describe_type(value)}, expected {expected}"
    return f"{quote(value)} is {describe_type(value)}, expected {expected}{_cure(value, expected)}"


def _cure(value: object, expected: str) -> str:
    if isinstance(value, str) and expected.startswith(("a number", "an integer")) and _is_number(value):
        return f": write {value.strip()}, without quotes"
    if expected.startswith("a string"):
        return ": put it in quotes"
    if expected.startswith("a duration") and isinstance(value, int) and not isinstance(value, bool):
        return f": write {value}s for seconds"
    if expected.startswith("a list"):
        return f": write [{value}]" if isinstance(value, str) and _PLAIN_KEY.fullmatch(value) else ": put it in [ ]"
    return ""


def not_an_integer(value: float, expected: str = "an integer") -> str:
    """`2.5 is not an integer`; of 2.0 too, for a count with a fraction is more often a slip than meant."""
    return f"{value} is not {expected}" + (f": write {int(value)}" if value.is_integer() else "")


def _is_number(text: str) -> bool:
    return len(text) < _WIDEST and re.fullmatch(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)\s*", text, re.ASCII) is not None


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant, whatever its case."""
    by_lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name[:_WIDEST].lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None


def hint(name: str, names: Iterable[str]) -> str:
    """`, did you mean cpuThreshold?`, or nothing where no name is near."""
    close = nearest(name, names)
    return f", did you mean {close}?" if close else ""
