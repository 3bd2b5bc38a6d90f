"""docs/writing-a-strategy.md is true: its strategy is put in place, planned with, and tested by its tests."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler import strategies
from tests.contract.test_strategies import TestEveryStrategy as Contract
from tests.docs.pages import ROOT, Block, blocks
from tests.docs.shell import shown
from tests.support.cli import rescheduler, succeeded

PAGE = ROOT / "docs" / "writing-a-strategy.md"


def of_language(language: str) -> list[Block]:
    return [each for each in blocks(PAGE) if each.language == language]


@pytest.fixture
def baskets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The page's strategy, as if its file were in strategies/, beside baskets.yaml and examples/."""
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "baskets.py").write_text(of_language("python")[0].text, encoding="utf-8")
    (tmp_path / "baskets.yaml").write_text(of_language("yaml")[0].text, encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.setattr(strategies, "__path__", [*strategies.__path__, str(tmp_path / "strategies")])
    monkeypatch.chdir(tmp_path)
    strategies.discover.cache_clear()
    yield "Baskets"
    strategies.discover.cache_clear()


def test_its_own_tests_pass(baskets: str) -> None:
    block = of_language("python")[1]
    names: dict[str, object] = {}
    exec(compile(block.text, block.place, "exec"), names)
    tests = [each for name, each in names.items() if name.startswith("test_") and callable(each)]
    assert len(tests) == 2
    for each in tests:
        each()


def test_its_configuration_and_its_command_do_what_is_shown(baskets: str) -> None:
    succeeded("config", "check", "baskets.yaml")
    (console,) = of_language("console")
    for each in shown(console):
        ran = succeeded(*shlex.split(each.command)[1:])
        assert ran.said + ran.out == each.output, each.place


def test_a_wrong_setting_is_refused_with_its_path(baskets: str, tmp_path: Path) -> None:
    text = of_language("yaml")[0].text
    (tmp_path / "wrong.yaml").write_text(text.replace("most: 3", "most: 0"), encoding="utf-8")
    assert "strategies.Baskets.most" in rescheduler("config", "check", "wrong.yaml").said


def test_it_keeps_the_contract_of_all_strategies(baskets: str) -> None:
    contract = Contract()
    contract.test_says_what_it_is_for(baskets)
    contract.test_gives_the_same_plan_for_the_same_cluster_whatever_its_order(baskets)
    contract.test_moves_only_pods_that_exist_and_from_where_they_are(baskets)
    contract.test_settles_when_its_plan_was_carried_out(baskets)
