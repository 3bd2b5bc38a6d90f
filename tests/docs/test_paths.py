"""The call paths that docs/architecture.md draws are those of the code: each name exists, each `→` is a call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

import pytest

from tests.docs.pages import ROOT, blocks

_LINE = re.compile(r"(?P<indent> *)(?P<arrow>[→⇢] )?(?P<module>[a-z_.]+):(?P<name>[\w.]+)(?: {2,}.*)?")


class Drawn(NamedTuple):
    """A function of a drawn path, and the one that calls it."""

    name: str
    caller: str = ""
    direct: bool = False


def drawn_functions() -> Iterator[Drawn]:
    for block in blocks(ROOT / "docs" / "architecture.md"):
        if block.language == "text" and not block.text.startswith("src/"):
            yield from _path(block.text)


def _path(text: str) -> Iterator[Drawn]:
    callers: list[tuple[int, str]] = []
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        assert found is not None, line
        name, depth = f"{found['module']}:{found['name']}", len(found["indent"])
        callers = [each for each in callers if each[0] < depth]
        assert bool(callers) == bool(found["arrow"]), line
        yield Drawn(name, callers[-1][1] if callers else "", found["arrow"] == "→ ")
        callers.append((depth, name))


def function_of(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = import_module(f"rescheduler.{module}")
    for part in path.split("."):
        found = getattr(found, part)
    return getattr(found, "callback", found)  # of a click command, its function


@pytest.mark.parametrize("drawn", list(drawn_functions()), ids=lambda drawn: drawn.name)
def test_a_drawn_function_exists(drawn: Drawn) -> None:
    assert callable(function_of(drawn.name))


@pytest.mark.parametrize("drawn", [each for each in drawn_functions() if each.direct], ids=lambda drawn: drawn.name)
def test_a_direct_call_is_in_the_callers_source(drawn: Drawn) -> None:
    caller = function_of(drawn.caller)
    called = drawn.name.rpartition(":")[2].rpartition(".")[2]
    assert re.search(rf"\b{called}\(", inspect.getsource(caller))


def test_the_paths_are_short() -> None:
    plan, handoff = (
        sum(1 for _ in _path(each.text))
        for each in blocks(ROOT / "docs" / "architecture.md")
        if each.language == "text" and not each.text.startswith("src/")
    )
    assert plan <= 30
    assert handoff <= 35
