"""Keeps the values of labels few, whatever people write into objects: each value is a series that Prometheus keeps.

A PodMigration's strategy and step are text that anybody with the right may write. What we do not know is `Other`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from rescheduler.migration.lifecycle import ROLL_BACK, Lifecycle
from rescheduler.model.migration import Order
from rescheduler.model.plan import Method
from rescheduler.strategies import discover

OTHER = "Other"
NO_METHOD = "none"
"""Of migrations that ended before a method was chosen."""
METHODS = tuple(method.value for method in Method)
_WORD = re.compile(r"[A-Za-z]{1,40}")


class Known:
    """A label whose values are known beforehand."""

    def __init__(self, values: Iterable[str]) -> None:
        self.values = (*values, OTHER)

    def value(self, given: str) -> str:
        """The value, if it is known."""
        return given if given in self.values else OTHER


class Few:
    """A label whose values come from our own code, where newcomers are added: the first so many words are let in."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: set[str] = set()

    def value(self, given: str) -> str:
        """The value, if it is one of the first."""
        if given in self._seen:
            return given
        if len(self._seen) >= self._most or not _WORD.fullmatch(given):
            return OTHER
        self._seen.add(given)
        return given


def strategies() -> Known:
    """Those that exist, and what people order by hand."""
    return Known((*discover(), Order("").strategy))


@lru_cache(maxsize=1)
def steps() -> Known:
    """Those of all methods."""
    lifecycle = Lifecycle()
    names = dict.fromkeys(name for method in Method for name in lifecycle.steps(method))
    return Known((*names, ROLL_BACK))


def method_value(method: Method | None) -> str:
    """How a method is called in a label."""
    return method.value if method is not None else NO_METHOD
