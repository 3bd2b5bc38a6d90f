"""How a case is written down: an object that is fine, and what is changed in it.

A change is a path with dots (`spec.containers.0.image`) and the value that shall be there; GONE takes it away. So a
case says only what it is about, and the object around it is the same for all.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.testbed.api import Json

GONE = object()
HERE = "the-namespace-of-the-test"
"""Stands for the namespace that the objects are made in, where they name it themselves."""


@dataclass(frozen=True)
class Case:
    """One object that both are asked about."""

    about: str
    """What is special about it, in words: the name of the test."""
    kind: str
    body: Json = field(compare=False)

    def __str__(self) -> str:
        return f"{self.kind}: {self.about}"


@dataclass(frozen=True)
class Update:
    """One change to an object that both have; the patch is a JSON merge patch."""

    about: str
    kind: str
    body: Json = field(compare=False)
    patch: Json = field(compare=False)
    subresource: str = ""

    def __str__(self) -> str:
        return f"{self.kind}{'/' if self.subresource else ''}{self.subresource}: {self.about}"


def changed(base: Json, changes: Mapping[str, Any]) -> Json:
    """A copy of an object with something else at some places."""
    body = copy.deepcopy(base)
    for path, value in changes.items():
        *steps, last = path.split(".")
        at: Any = body
        for step in steps:
            at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
        if isinstance(at, list):
            at[int(last) :] = [value, *at[int(last) + 1 :]]
        elif value is GONE:
            at.pop(last, None)
        else:
            at[last] = copy.deepcopy(value)
    return body


def cases(kind: str, base: Json, listed: Mapping[str, Mapping[str, Any]]) -> list[Case]:
    """Cases of one kind: words, and what is changed in the object that is fine."""
    return [Case(about, kind, changed(base, changes)) for about, changes in listed.items()]
