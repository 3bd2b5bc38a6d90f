"""Errors of a configuration: all of them at once, each with its path and the cure.

Readers and checks of this package collect Findings, which point into the file by keys and indices, and raise them as an
InvalidError; `load` turns them into ConfigErrors for the command line. The words for values and types are in
`model.fields`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rescheduler.model.fields import WIDEST, quote

Loc = tuple[str | int, ...]
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Finding:
    """One error, and its place in the data."""

    loc: Loc
    message: str


@dataclass(frozen=True, slots=True)
class ConfigError:
    """One error as users see it: `source: path: message`; the source is a file or a flag."""

    source: str
    path: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, self.path, self.message) if part)

    @property
    def in_file(self) -> str:
        """The same without the name of the file; a flag is still named."""
        return str(self) if self.source.startswith("--") else ": ".join(filter(None, (self.path, self.message)))


class InvalidError(Exception):
    """Invalid data; has all findings."""

    def __init__(self, *findings: Finding) -> None:
        self.findings = findings
        super().__init__(f"{len(findings)} findings")


class ConfigErrors(Exception):  # noqa: N818 - it holds several errors, and its name says so
    """A configuration was refused; printed, it has one line for each error."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(map(str, self.errors)))

    @classmethod
    def in_source(cls, source: str, findings: Iterable[Finding]) -> ConfigErrors:
        """Return the errors for findings in a file, or in what `source` names."""
        return cls([ConfigError(source, format_path(each.loc), each.message) for each in findings])


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


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The nearest known name, ignoring case."""
    import difflib  # noqa: PLC0415 - only mistakes need it

    by_lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name[:WIDEST].lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None


def hint(name: str, names: Iterable[str]) -> str:
    """`, did you mean cpuThreshold?`, or nothing where no name is near."""
    close = nearest(name, names)
    return f", did you mean {close}?" if close else ""
