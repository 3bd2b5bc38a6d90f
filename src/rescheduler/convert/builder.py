"""The configuration that a conversion builds: fields with values, the place each came from, and remarks on the rest.

The tables of options write to it. Nothing is dropped silently: an option without a counterpart gets a remark with its
path in the input, and so does one that needs nothing because it is the default here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rescheduler.config.errors import Loc, format_path
from rescheduler.model.fields import quote

Path = tuple[str | int, ...]
"""The place of a field in our form."""


class RemarkKind(StrEnum):
    """What a remark says about its place."""

    MISSING = "has no counterpart"
    UNKNOWN = "is not known"
    WRONG = "is not understood"
    UNNEEDED = "needs nothing here"


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on one place of the input."""

    kind: RemarkKind
    loc: Loc
    why: str
    nearest: str = ""
    """What comes nearest here."""
    harmless: bool = False
    """Whether it cannot have limited anything."""
    limits: bool = False
    """Whether it kept pods where they are, though it has no counterpart."""

    @property
    def is_limit(self) -> bool:
        """Whether more pods might move without it than with it."""
        return self.limits or self.kind is RemarkKind.WRONG or (self.kind is RemarkKind.UNKNOWN and not self.harmless)

    @property
    def is_loss(self) -> bool:
        """Whether the result lacks something that the input says."""
        return self.kind is not RemarkKind.UNNEEDED

    def __str__(self) -> str:
        nearest = f"; nearest: {self.nearest}" if self.nearest else ""
        where = format_path(self.loc)
        return f"{where}: {self.kind}: {self.why}{nearest}" if where else f"{self.kind}: {self.why}{nearest}"


@dataclass(slots=True)
class ConfigBuilder:
    """Collects fields, comments and remarks."""

    data: dict[str, Any] = field(default_factory=dict)
    comments: dict[Path, list[str]] = field(default_factory=dict)
    origins: dict[Path, Loc] = field(default_factory=dict)
    taken: set[Loc] = field(default_factory=set)
    """All places of the input whose values are in fields."""
    remarks: list[Remark] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    """Namespaces that the input names to have their pods moved."""
    halted: tuple[Loc, str] | None = None
    """Why nothing is moved."""

    def put(self, path: Path, value: object, loc: Loc, comment: str = "") -> None:
        """Set a field. The first value holds, but of two limits the smaller, and of two selectors both."""
        *sections, last = path
        at: Any = self.data
        for part in sections:
            at = at.setdefault(part, {}) if isinstance(at, dict) else at[part]
        before = at.get(last)
        if path[0] == "filters" and str(last).endswith("Selector") and before and before != value:
            value = f"{before},{value}"
        elif last in at and before != value:
            if not _is_smaller_limit(path, value, before):
                first = format_path(self.origins.get(path) or (self.halted or ((),))[0])
                self.add_missing(
                    loc, f"{format_path(path)} is {quote(before)} already, by {first}, and holds for all", _POOLS
                )
                return
            why = f"{format_path(path)} is {quote(value)}, by {format_path(loc)}, and holds for all"
            self.add_missing(self.origins.pop(path), why, _POOLS)
            self.comments[path] = ["the smaller of two limits"]
        at[last] = value
        self.origins.setdefault(path, loc)
        self.taken.add(loc)
        if comment:
            self.comment_on(path, comment)

    def add_pool(self) -> Path:
        """Add a node pool without fields, and return its path."""
        pools = self.data.setdefault("pools", [])
        pools.append({})
        return ("pools", len(pools) - 1)

    def get(self, path: Path) -> Any:
        """Return a field's value, or None."""
        at: Any = self.data
        for part in path:
            if isinstance(at, dict):
                at = at.get(part)
            elif isinstance(at, list) and isinstance(part, int) and part < len(at):
                at = at[part]
            else:
                return None
        return at

    def drop(self, path: Path) -> None:
        """Remove a field."""
        at, last = self.get(path[:-1]), path[-1]
        if isinstance(at, dict) and last in at:
            del at[str(last)]
        elif isinstance(at, list) and isinstance(last, int) and last < len(at):
            del at[last]
        else:
            return
        self.comments.pop(path, None)

    def comment_on(self, path: Path, comment: str) -> None:
        """Comment on a field, once."""
        if comment not in self.comments.setdefault(path, []):
            self.comments[path].append(comment)

    def enable(self, strategy: str) -> None:
        """Enable a strategy."""
        enabled = self.data.setdefault("enabledStrategies", [])
        if strategy not in enabled:
            enabled.append(strategy)

    def switch_off(self, strategy: str, loc: Loc, why: str) -> None:
        """Disable a strategy that would move more than was wanted."""
        enabled, settings = self.data.get("enabledStrategies"), self.data.get("strategies")
        if isinstance(enabled, list) and strategy in enabled:
            enabled.remove(strategy)
        if isinstance(settings, dict):
            settings.pop(strategy, None)
        self.add_missing(loc, f"{why}: {strategy} stays off")

    def halt(self, loc: Loc, why: str) -> None:
        """Have nothing moved, because more would be than was wanted."""
        if self.halted is None:
            self.comments.pop(("maxReschedulePods",), None)  # it was about a limit that counts no more
        self.halted = (loc, why)
        self.data["maxReschedulePods"] = 0
        self.comment_on(
            ("maxReschedulePods",), f"nothing is moved until {format_path(loc)} of the input is seen to: {why}"
        )

    def add_missing(self, loc: Loc, why: str, nearest: str = "", *, limits: bool = False) -> None:
        """Remark that something has no counterpart; with `limits` its plugin stays off, or nothing is moved."""
        self._remark(Remark(RemarkKind.MISSING, loc, why, nearest, limits=limits))

    def add_unknown(self, loc: Loc, why: str, *, harmless: bool = False) -> None:
        """Remark that a field or a plugin is not known."""
        self._remark(Remark(RemarkKind.UNKNOWN, loc, why, harmless=harmless))

    def add_wrong(self, loc: Loc, why: str) -> None:
        """Remark that a value is invalid."""
        self._remark(Remark(RemarkKind.WRONG, loc, why))

    def add_unneeded(self, loc: Loc, why: str) -> None:
        """Remark that something needs no field here."""
        self._remark(Remark(RemarkKind.UNNEEDED, loc, why))

    def _remark(self, remark: Remark) -> None:
        if remark not in self.remarks:
            self.remarks.append(remark)


_POOLS = "node pools (pools) may have fields and strategies of their own"
_LIMITS = ("maxReschedulePods", "limits", "when")


def _is_smaller_limit(path: Path, value: object, than: object) -> bool:
    """Whether the field is a limit, and the value stricter than the other one."""
    if path[0] not in _LIMITS and path[:2] != ("migration", "concurrency"):
        return False
    return isinstance(value, int) and (than == "unlimited" or (isinstance(than, int) and 0 <= value < than))
