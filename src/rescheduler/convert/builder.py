"""A configuration in the making: fields with their values, where each came from, and what could not be brought over.

The tables of options write into it. Nothing is dropped silently: what has no counterpart is a remark with its path in
the input, and so is what needs nothing because it is so here by default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from rescheduler.config.errors import Loc, format_path, quote

Path = tuple[str | int, ...]
"""Where a field is in the native form."""


class RemarkKind(StrEnum):
    """What a remark is about."""

    MISSING = "has no counterpart"
    UNKNOWN = "is not known"
    WRONG = "is not understood"
    SETTLED = "needs nothing here"


@dataclass(frozen=True, slots=True)
class Remark:
    """What people are told about one place of the input."""

    kind: RemarkKind
    loc: Loc
    why: str
    nearest: str = ""
    """What comes nearest here."""
    harmless: bool = False
    """Whether it can have limited nothing."""
    limits: bool = False
    """Whether it kept pods where they are, though it has no counterpart."""

    @property
    def is_limit(self) -> bool:
        """Whether more pods might be moved without it than was wanted."""
        return self.limits or self.kind is RemarkKind.WRONG or (self.kind is RemarkKind.UNKNOWN and not self.harmless)

    @property
    def is_loss(self) -> bool:
        """Whether something that the input says is not in the result."""
        return self.kind is not RemarkKind.SETTLED

    def __str__(self) -> str:
        nearest = f"; nearest: {self.nearest}" if self.nearest else ""
        where = format_path(self.loc)
        return f"{where}: {self.kind}: {self.why}{nearest}" if where else f"{self.kind}: {self.why}{nearest}"


@dataclass(slots=True)
class ConfigBuilder:
    """Written into by the tables, field by field."""

    data: dict[str, object] = field(default_factory=dict)
    comments: dict[Path, list[str]] = field(default_factory=dict)
    origins: dict[Path, Loc] = field(default_factory=dict)
    taken: set[Loc] = field(default_factory=set)
    """All places of the input whose value a field has."""
    remarks: list[Remark] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    """Namespaces that the input names as those whose pods it means."""
    halted: tuple[Loc, str] | None = None
    """Why nothing is moved."""

    def put(self, path: Path, value: object, loc: Loc, comment: str = "") -> None:
        """Give a field its value; one that has another already keeps it, unless a limit gets smaller; that is told."""
        at: object = self.data
        for part, following in pairwise(path):
            at = _inside(at, part, following)
        last = path[-1]
        before = at.get(last) if isinstance(at, dict) else None
        if path[0] == "filters" and str(last).endswith("Selector") and before and before != value:
            value = f"{before},{value}"  # each of them has to let a pod
        elif isinstance(at, dict) and last in at and before != value:
            if not _is_smaller_limit(path, value, before):
                first = format_path(self.origins.get(path) or (self.halted or ((),))[0])
                self.miss(loc, f"{format_path(path)} is {quote(before)} already, by {first}, and holds for all", _POOLS)
                return
            why = f"{format_path(path)} is {quote(value)}, by {format_path(loc)}, and holds for all"
            self.miss(self.origins.pop(path), why, _POOLS)
            self.comments[path] = ["the smaller of two limits"]
        if isinstance(at, dict):
            at[str(last)] = value
        self.origins.setdefault(path, loc)
        self.taken.add(loc)
        if comment:
            self.say(path, comment)

    def get(self, path: Path) -> object:
        """A field's value; None if it has none."""
        at: object = self.data
        for part in path:
            if isinstance(at, dict):
                at = at.get(part)
            elif isinstance(at, list) and isinstance(part, int) and part < len(at):
                at = at[part]
            else:
                return None
        return at

    def drop(self, path: Path) -> bool:
        """Take a field out again; whether it was there."""
        at = self.get(path[:-1])
        if isinstance(at, dict) and path[-1] in at:
            del at[str(path[-1])]
        elif isinstance(at, list) and isinstance(path[-1], int) and path[-1] < len(at):
            del at[path[-1]]
        else:
            return False
        self.comments.pop(path, None)
        return True

    def say(self, path: Path, comment: str) -> None:
        """Comment on a field, once."""
        if comment not in self.comments.setdefault(path, []):
            self.comments[path].append(comment)

    def enable(self, strategy: str) -> None:
        """Have a strategy run."""
        enabled = self.data.setdefault("enabledStrategies", [])
        if isinstance(enabled, list) and strategy not in enabled:
            enabled.append(strategy)

    def switch_off(self, strategy: str, loc: Loc, why: str) -> None:
        """Have a strategy not run after all, because it would do more than was wanted."""
        enabled, settings = self.data.get("enabledStrategies"), self.data.get("strategies")
        if isinstance(enabled, list) and strategy in enabled:
            enabled.remove(strategy)
        if isinstance(settings, dict):
            settings.pop(strategy, None)
        self.miss(loc, f"{why}: {strategy} stays off")

    def halt(self, loc: Loc, why: str) -> None:
        """Have nothing moved, because more would be than was wanted."""
        if self.halted is None:
            self.comments.pop(("maxReschedulePods",), None)  # of a limit that does not count any more
        self.halted = (loc, why)
        self.data["maxReschedulePods"] = 0
        self.say(("maxReschedulePods",), f"nothing is moved until {format_path(loc)} of the input is seen to: {why}")

    def miss(self, loc: Loc, why: str, nearest: str = "", *, limits: bool = False) -> None:
        """Say that something has no counterpart here; what `limits` has its plugin stay off, or nothing moved."""
        self._remark(Remark(RemarkKind.MISSING, loc, why, nearest, limits=limits))

    def unknown(self, loc: Loc, why: str, *, harmless: bool = False) -> None:
        """Say that a field or a plugin is not known."""
        self._remark(Remark(RemarkKind.UNKNOWN, loc, why, harmless=harmless))

    def wrong(self, loc: Loc, why: str) -> None:
        """Say that a value makes no sense."""
        self._remark(Remark(RemarkKind.WRONG, loc, why))

    def settled(self, loc: Loc, why: str) -> None:
        """Say that something is so here without a word in the configuration."""
        self._remark(Remark(RemarkKind.SETTLED, loc, why))

    def _remark(self, remark: Remark) -> None:
        if remark not in self.remarks:
            self.remarks.append(remark)


_POOLS = "node pools (pools) may have fields and strategies of their own"
_LIMITS = ("maxReschedulePods", "limits", "when")


def _is_smaller_limit(path: Path, value: object, than: object) -> bool:
    """Whether it is a limit, and stricter than the other."""
    if path[0] not in _LIMITS and path[:2] != ("migration", "concurrency"):
        return False
    return isinstance(value, int) and (than == "unlimited" or (isinstance(than, int) and 0 <= value < than))


def _inside(at: object, part: str | int, following: str | int) -> object:
    """The mapping or list at a part of a path, made if it is not there."""
    fresh: object = [] if isinstance(following, int) else {}
    if isinstance(at, dict):
        return at.setdefault(str(part), fresh)
    if isinstance(at, list) and isinstance(part, int):
        while len(at) <= part:
            at.append(fresh)
        return at[part]
    raise TypeError(f"{part!r} is inside of neither a mapping nor a list")  # a table of ours is wrong
