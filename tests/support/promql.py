"""Which series and labels an expression of Prometheus asks for: enough of its grammar to find names that are none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"([A-Za-z_:][\w:]*)\s*\{([^{}]*)\}")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_NUMBER = re.compile(r"\b[0-9][\w.]*")
_WORD = re.compile(r"[A-Za-z_:][\w:]*")
_WORDS = frozenset({"and", "or", "unless", "bool", "offset", "inf", "nan"})


@dataclass(frozen=True)
class Asked:
    """One series that an expression reads, and the labels by which it selects."""

    name: str
    labels: frozenset[str] = frozenset()


def find_series(expression: str) -> Iterator[Asked]:
    """Every series that it reads."""
    text = _GROUPING.sub(" ", _RANGE.sub(" ", _STRING.sub("", expression)))
    for name, matchers in _SELECTOR.findall(text):
        yield Asked(name, frozenset(_WORD.findall(matchers)))
    rest = _NUMBER.sub(" ", _SELECTOR.sub(" ", text))
    for found in _WORD.finditer(rest):
        if found[0].lower() not in _WORDS and not rest[found.end() :].lstrip().startswith("("):
            yield Asked(found[0])


def find_grouping(expression: str) -> set[str]:
    """The labels by which it adds up or matches."""
    return {name for group in _GROUPING.findall(_STRING.sub("", expression)) for name in _WORD.findall(group)}
