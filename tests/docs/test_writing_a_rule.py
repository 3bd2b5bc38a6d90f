"""docs/writing-a-guard.md and docs/writing-a-predicate.md are true: their rules are put in place, tried and tested."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.generating.guards import guards_page
from docs.generating.predicates import predicates_page

from rescheduler.planning import guards, predicates
from tests.docs.extending import check_its_console, in_place, of_language, run_its_tests
from tests.docs.pages import ROOT

GUARD, PREDICATE = ROOT / "docs" / "writing-a-guard.md", ROOT / "docs" / "writing-a-predicate.md"


@pytest.fixture
def rolled_by_operator(tmp_path: Path) -> Iterator[None]:
    with in_place(GUARD, guards, "rolled_by_operator", tmp_path):
        (tmp_path / "kafka.yaml").write_text(of_language(GUARD, "yaml")[0].text, encoding="utf-8")
        yield


@pytest.fixture
def off_spot(tmp_path: Path) -> Iterator[None]:
    with in_place(PREDICATE, predicates, "off_spot", tmp_path):
        (tmp_path / "spot.yaml").write_text(of_language(PREDICATE, "yaml")[0].text, encoding="utf-8")
        yield


def test_the_guard_does_what_its_page_says(rolled_by_operator: None) -> None:
    assert run_its_tests(GUARD) == 1
    check_its_console(GUARD)
    assert "`RolledByOperator` | Pods of applications whose operator moves them itself. |" in guards_page()


def test_the_predicate_does_what_its_page_says(off_spot: None) -> None:
    assert run_its_tests(PREDICATE) == 1
    check_its_console(PREDICATE)
    assert "`OffSpot` | The pod may be interrupted, or the node is not a spot node. | ours |" in predicates_page()
