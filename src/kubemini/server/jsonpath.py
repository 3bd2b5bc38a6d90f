"""The part of JSONPath that printer columns of custom resources use: `.spec.list[0].name`, `[?(@.a=="b")].c`.

Fields (with dots escaped or quoted in brackets), wildcards, indices, slices and filters that compare one path with one
value, as client-go's templates read them. A path that leads nowhere finds nothing; it is not an error.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_FIELD = re.compile(r"\.?((?:\\.|[^.\[\]\\{}])+)")
_BRACKET = re.compile(
    r"\[(?:\?\((?P<filter>.*?)\)"
    r"|'(?P<quoted>(?:\\.|[^'\\])*)'|\"(?P<double>(?:\\.|[^\"\\])*)\""
    r"|(?P<star>\*)"
    r"|(?P<start>-?\d*)(?P<colon>:(?P<end>-?\d*))?)\]"
)
_FILTER = re.compile(r"\s*@(?P<path>[^=!<>\s]*)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>.+?))?\s*")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ESCAPED = re.compile(r"\\(.)")

Step = Callable[[Any], Iterator[Any]]


class PathError(ValueError):
    """What is not a JSONPath that is understood here."""


@dataclass(frozen=True, slots=True)
class Path:
    """A path, ready to be followed."""

    steps: tuple[Step, ...]

    def find(self, value: Any) -> list[Any]:
        """Everything that the path leads to."""
        found = [value]
        for step in self.steps:
            found = [inner for each in found for inner in step(each)]
        return found


@lru_cache(maxsize=1024)
def parse_path(text: str) -> Path:
    """Read a path such as `.spec.replicas`."""
    steps: list[Step] = []
    at = 1 if text.startswith("$") else 0
    while at < len(text):
        found = _BRACKET.match(text, at)
        if found is not None:
            steps.append(_bracket(found))
        else:
            found = _FIELD.match(text, at)
            if found is None:
                raise PathError(f"{text!r}: {text[at:]!r} is not understood")
            steps.append(_field(_ESCAPED.sub(r"\1", found[1])) if found[1] != "*" else _all)
        at = found.end()
    return Path(tuple(steps))


def _bracket(found: re.Match[str]) -> Step:
    if found["filter"] is not None:
        return _filter(found["filter"])
    quoted = found["quoted"] if found["quoted"] is not None else found["double"]
    if quoted is not None:
        return _field(_ESCAPED.sub(r"\1", quoted))
    if found["star"]:
        return _all
    start = int(found["start"]) if found["start"] else None
    if found["colon"] is None:
        if start is None:
            raise PathError("[] holds nothing")
        return _index(start)
    return _slice(start, int(found["end"]) if found["end"] else None)


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _index(number: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= number < len(value):
            yield value[number]

    return step


def _slice(start: int | None, end: int | None) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[start:end]

    return step


def _filter(text: str) -> Step:
    found = _FILTER.fullmatch(text)
    if found is None:
        raise PathError(f"the filter {text!r} is not understood")
    path = parse_path(found["path"])
    if found["operator"] is None:
        return lambda value: (each for each in _items(value) if path.find(each))
    compare, wanted = _OPERATORS[found["operator"]], _literal(found["value"])

    def step(value: Any) -> Iterator[Any]:
        for each in _items(value):
            there = path.find(each)
            if there and _comparable(there[0], wanted) and compare(there[0], wanted):
                yield each

    return step


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _comparable(one: Any, other: Any) -> bool:
    numbers = (int, float)
    if isinstance(one, bool) or isinstance(other, bool):
        return type(one) is type(other)
    return type(one) is type(other) or (isinstance(one, numbers) and isinstance(other, numbers))


def _literal(text: str) -> Any:
    if text[:1] in "'\"" and text[-1:] == text[:1] and len(text) > 1:
        return _ESCAPED.sub(r"\1", text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise PathError(f"{text!r} is neither a text, a number, true nor false") from None
