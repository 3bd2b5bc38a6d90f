"""What users see is what is pinned, and the pins see much of what there is."""

from __future__ import annotations

import re

import pytest

from tests.pins.live import LIVE
from tests.pins.pinned import GOLDEN, PINS, difference, golden_file, stale_files

_LIVE_ONLY = {"Outcome"}
"""Guards that go by the PodMigrations of a live cluster."""
_RARE = {"AlreadyMoved", "MovesPerHour", "NoRoom", "StillRunning"}
"""Guards that no plan of these clusters meets; unit tests do."""


@pytest.mark.parametrize("name", [name for name in PINS if name not in LIVE])
def test_what_users_see_is_as_pinned(name: str) -> None:
    _assert_same(difference(name))


def test_what_a_running_controller_shows_is_as_pinned() -> None:
    _assert_same([line for name in LIVE for line in difference(name)])  # one test, because they come from one run


def _assert_same(lines: list[str]) -> None:
    assert not lines, "\n".join([*lines, "If this is meant: python -m tests.pins --update (see tests/pins/README.md)"])


def test_every_golden_file_belongs_to_a_pin() -> None:
    assert stale_files() == []


def test_pinned_plans_have_moves_of_every_strategy() -> None:
    known = re.findall(r"^## (\w+)$", _text("catalogues/strategies"), re.MULTILINE)
    assert set(known) <= set(re.findall(r'"strategy": "(\w+)",\n +"reason"', _all("plans")))


def test_every_guard_objects_in_a_pinned_plan_or_explanation() -> None:
    known = set(re.findall(r"^\| `(\w+)` \|", _text("catalogues/guards"), re.MULTILINE))
    found = _all("plans") + _all("explanations")
    missing = {guard for guard in known if not re.search(rf'"guard": "{guard}"|^{guard} {{2,}}', found, re.MULTILINE)}
    assert missing == _LIVE_ONLY | _RARE


def test_every_predicate_refuses_a_node_in_a_pinned_explanation() -> None:
    known = set(re.findall(r"^\| `(\w+)` \|", _text("catalogues/predicates"), re.MULTILINE))
    found = _all("explanations")
    assert {name for name in known if not re.search(rf'"predicate": "{name}"|\b{name} {{2,}}', found)} == set()


def _text(name: str) -> str:
    return golden_file(name).read_text(encoding="utf-8")


def _all(folder: str) -> str:
    return "".join(file.read_text(encoding="utf-8") for file in sorted((GOLDEN / folder).glob("*.txt")))
