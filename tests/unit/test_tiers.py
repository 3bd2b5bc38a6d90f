"""The tiers of the Makefile: every test is in exactly one, the fast one uses no tools, one setting counts examples."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from tests.conftest import QUICK_MODULES, RELEASE_FOLDERS, TESTS
from tests.support.embedded import EmbeddedControlPlane
from tests.support.examples import VARIABLE, examples, seeds
from tests.testbed import ToolRefused
from tests.testbed.helm import Helm

MAKEFILE = (TESTS.parent / "Makefile").read_text(encoding="utf-8")
MARKERS = ("cluster", "release", "chaos")
EXPRESSIONS: dict[str, str] = dict(re.findall(r'^([A-Z]+) := .*/pytest .*-m "(.*)"$', MAKEFILE, re.MULTILINE))
"""What each tier of the Makefile selects. Python reads such an expression as pytest does."""


@pytest.mark.parametrize("marked", list(product((False, True), repeat=len(MARKERS))))
def test_a_test_is_in_exactly_one_tier_however_it_is_marked(marked: tuple[bool, ...]) -> None:
    marks = dict(zip(MARKERS, marked, strict=True))
    tiers = [name for name, text in EXPRESSIONS.items() if eval(text, dict(marks))]
    if marks["chaos"]:
        assert tiers == []
    else:
        assert tiers == ["RELEASE" if marks["release"] else "REAL" if marks["cluster"] else "FAST"]


def test_a_target_runs_each_tier_and_one_runs_them_all() -> None:
    recipes = dict(re.findall(r"^(test[a-z-]*):.*\n\t(.*)$", MAKEFILE, re.MULTILINE))
    assert recipes["test"] == "$(FAST)"
    assert recipes["test-real"] == "$(REAL)"
    assert recipes["test-release"] == "$(RELEASE)"
    assert recipes["test-all"] == f"$(MAKE) --keep-going {VARIABLE}=many test test-real test-release"


def test_the_fast_tier_only_sets_up_python_packages() -> None:
    (needed,) = re.findall(r"^test:(.*?)##", MAKEFILE, re.MULTILINE)
    assert needed.split() == ["$(READY)"]


def test_every_module_that_stays_in_the_fast_tier_is_there() -> None:
    for module in QUICK_MODULES:
        assert (TESTS / module).is_file(), module
        assert Path(module).parts[0] in RELEASE_FOLDERS


def test_a_tool_is_refused_to_a_test_without_a_mark() -> None:
    with pytest.raises(ToolRefused, match=r"test_a_tool_is_refused.* uses helm, .*mark it `cluster` or `release`"):
        Helm()
    with EmbeddedControlPlane() as cluster, pytest.raises(ToolRefused, match="kubectl"):
        cluster.kubectl("get", "nodes")


def test_the_few_seeds_are_the_first_of_the_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert list(seeds(few=2, many=4)) == [0, 1]
    monkeypatch.setenv(VARIABLE, "many")
    assert list(seeds(few=2, many=4)) == [0, 1, 2, 3]
    assert examples(few=10, many=100) == 100


def test_another_number_of_examples_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "100")
    with pytest.raises(pytest.UsageError, match="RESCHEDULER_TEST_EXAMPLES=100: it is one of few, many"):
        examples(few=1, many=2)
