"""docs/writing-a-strategy.md is true: its strategy is put in place, planned with, and tested by its tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler import strategies
from tests.contract.test_strategies import TestEveryStrategy as Contract
from tests.docs.extending import check_its_console, in_place, of_language, run_its_tests
from tests.docs.pages import ROOT
from tests.support.cli import rescheduler, succeeded

PAGE = ROOT / "docs" / "writing-a-strategy.md"


@pytest.fixture
def baskets(tmp_path: Path) -> Iterator[str]:
    """The page's strategy, as if its file were in strategies/, beside baskets.yaml and examples/."""
    with in_place(PAGE, strategies, "baskets", tmp_path):
        (tmp_path / "baskets.yaml").write_text(of_language(PAGE, "yaml")[0].text, encoding="utf-8")
        yield "Baskets"


def test_its_own_tests_pass(baskets: str) -> None:
    assert run_its_tests(PAGE) == 2


def test_its_configuration_and_its_command_do_what_is_shown(baskets: str) -> None:
    succeeded("config", "check", "baskets.yaml")
    check_its_console(PAGE)


def test_a_wrong_setting_is_refused_with_its_path(baskets: str, tmp_path: Path) -> None:
    text = of_language(PAGE, "yaml")[0].text
    (tmp_path / "wrong.yaml").write_text(text.replace("most: 3", "most: 0"), encoding="utf-8")
    assert "strategies.Baskets.most" in rescheduler("config", "check", "wrong.yaml").said


def test_it_keeps_the_contract_of_all_strategies(baskets: str) -> None:
    contract = Contract()
    contract.test_says_what_it_is_for(baskets)
    contract.test_gives_the_same_plan_for_the_same_cluster_whatever_its_order(baskets)
    contract.test_moves_only_pods_that_exist_and_from_where_they_are(baskets)
    contract.test_settles_when_its_plan_was_carried_out(baskets)
