"""The documentation says what the code does: generated pages in step, READMEs alike, CONTRIBUTING's strategy at work.

`docs/generate.py` makes pages out of the code; here it is asked whether they are in step. Links, commands and blocks of
all pages are the business of `tests/docs`.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from docs.generating import writing

from rescheduler import strategies
from rescheduler.config.loader import load_defaults
from rescheduler.model.plan import decode_plan, plan_document
from rescheduler.planning import guards
from rescheduler.planning.refusals import PlanGuard
from rescheduler.strategies import settings_by_name
from tests.contract.test_strategies import TestEveryStrategy as Contract
from tests.support.builders import cluster, node, pod
from tests.support.cli import rescheduler, succeeded
from tests.support.planning import moves_of, planned

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for _, language, text in BLOCK.findall(page.read_text(encoding="utf-8")) if language in languages]


def prose(page: Path) -> str:
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


@pytest.fixture
def misplaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """CONTRIBUTING's strategy, as if its file were in strategies/."""
    (example,) = blocks(ROOT / "CONTRIBUTING.md", "python")
    (tmp_path / "misplaced.py").write_text(example, encoding="utf-8")
    monkeypatch.setattr(strategies, "__path__", [*strategies.__path__, str(tmp_path)])
    strategies.discover.cache_clear()
    yield "Misplaced"
    strategies.discover.cache_clear()


class TestGeneratedPages:
    def test_are_in_step_with_the_code(self) -> None:
        assert writing.differences() == [], "run `make docs`"

    def test_out_of_step_are_shown_as_a_diff_and_an_exit_code(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for path, text in writing.wanted():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text.replace("web-5b8f7d9c4-2mdkq", "web-0"), encoding="utf-8")
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
        monkeypatch.setattr("sys.argv", ["generate.py", "--check"])
        assert writing.main(tmp_path) == 1
        assert "web-5b8f7d9c4-2mdkq" in capsys.readouterr().out
        monkeypatch.setattr("sys.argv", ["generate.py"])
        assert writing.main(tmp_path) == 0
        assert writing.differences(tmp_path) == []

    def test_name_only_settings_that_exist(self) -> None:
        known = load_defaults(settings_by_name()).effective()
        texts = [each.changed_by for each in (*guards.discover().values(), *PlanGuard)]
        for setting in re.findall(r"`([a-z]\w*(?:\.\w+)?)`", " ".join(texts)):
            at: object = known
            for part in setting.split("."):
                assert isinstance(at, dict), setting
                assert part in at, setting
                at = at[part]


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*.yaml")), ids=lambda path: path.name)
def test_every_example_is_a_sound_configuration_or_cluster(example: Path) -> None:
    kind = yaml.safe_load(example.read_text(encoding="utf-8"))["kind"]
    if kind == "DeschedulerPolicy":
        succeeded("convert", "-f", str(example))
    elif kind == "List":
        assert succeeded("plan", "-f", str(example), "-o", "json", "--now", "2026-11-15T08:30:00Z").data["moves"]
    else:
        succeeded("config", "check", str(example))


class TestReadmes:
    english, chinese = ROOT / "README.md", ROOT / "README.zh-CN.md"

    def test_have_the_same_headings_and_tables(self) -> None:
        first, second = (
            [re.match(r"#*|\|?", line)[0] for line in prose(page).splitlines() if line.startswith(("#", "|"))]  # type: ignore[index] # it always matches
            for page in (self.english, self.chinese)
        )
        assert first == second

    def test_have_the_same_code_blocks(self) -> None:
        first, second = (BLOCK.findall(page.read_text(encoding="utf-8")) for page in (self.english, self.chinese))
        assert first == second

    def test_have_the_same_links_but_to_each_other(self) -> None:
        first, second = (
            Counter(re.findall(r"\]\(([^)\s]+)\)", prose(page))) - Counter([other.name])
            for page, other in ((self.english, self.chinese), (self.chinese, self.english))
        )
        assert first == second

    def test_show_the_examples_that_they_link_to(self) -> None:
        native = (ROOT / "examples" / "rescheduler.yaml").read_text(encoding="utf-8")
        assert blocks(self.english, "yaml")[0] == native.partition("\n")[2]


class TestPlanFormat:
    page = ROOT / "docs" / "plan-format.md"

    def test_the_example_is_read_and_written_back_the_same(self) -> None:
        (example,) = blocks(self.page, "json")
        assert msgspec.json.format(msgspec.json.encode(plan_document(decode_plan(example.encode()))), indent=2) == (
            msgspec.json.format(example.strip().encode(), indent=2)
        )

    @pytest.mark.parametrize(
        "command", [("plan",), ("explain", "shop/queue-0"), ("explain", "shop/web-5b8f7d9c4-2mdkq")], ids=" ".join
    )
    def test_every_field_is_described(self, command: tuple[str, ...]) -> None:
        document = succeeded(*command, "-f", str(ROOT / "examples" / "cluster.yaml"), "-o", "json").data
        document.pop("requests", None)  # its keys are names of resources
        described = set(re.findall(r"`(\w+)`", prose(self.page)))
        assert set(keys(document)) <= described


def keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inside in value.items():
            yield key
            yield from keys(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from keys(inside)


class TestContributingsStrategy:
    def test_moves_pods_off_a_node_that_would_not_get_them_today(self, misplaced: str) -> None:
        snapshot = cluster(
            node("tainted", taints=["dedicated=db:NoSchedule"]),
            node("free"),
            pod("web", on="tainted"),
            pod("api", on="free"),
        )
        plan = planned(snapshot, misplaced)
        assert moves_of(plan) == {"web": "free"}
        assert plan.moves[0].reason.startswith("it would not be scheduled to tainted today")

    def test_has_a_setting_that_the_configuration_checks(self, misplaced: str, tmp_path: Path) -> None:
        file = tmp_path / "config.yaml"
        text = "apiVersion: rescheduler.io/v1alpha1\nkind: ReschedulerConfiguration\nenabledStrategies: [Misplaced]\n"
        file.write_text(f"{text}strategies: {{Misplaced: {{maxPriority: 5}}}}\n", encoding="utf-8")
        assert succeeded("config", "check", str(file)).out.endswith("1 strategy)\n")
        file.write_text(f"{text}strategies: {{Misplaced: {{maxPriorty: 5}}}}\n", encoding="utf-8")
        assert "did you mean maxPriority" in rescheduler("config", "check", str(file)).said

    def test_keeps_the_contract_of_all_strategies(self, misplaced: str) -> None:
        contract = Contract()
        contract.test_says_what_it_is_for(misplaced)
        contract.test_gives_the_same_plan_for_the_same_cluster_whatever_its_order(misplaced)
        contract.test_moves_only_pods_that_exist_and_from_where_they_are(misplaced)
        contract.test_settles_when_its_plan_was_carried_out(misplaced)
