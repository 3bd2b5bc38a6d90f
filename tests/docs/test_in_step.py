"""What pages name exists: Event reasons, rights, tests, alerts, metrics and fields of the configuration.

Reasons of Events are taken out of the source, so that docs/events.md has each of them and no other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.generating.events import EVENTS
from docs.generating.rights import ABOVE, NO_COMMENT

from rescheduler.config.loader import load_defaults
from rescheduler.recovery.decision import RecoveryReason
from rescheduler.strategies import settings_by_name
from rescheduler.web.metrics import Metrics
from tests.docs.fragments import granted
from tests.docs.pages import PAGES, ROOT, name_of, prose, spans

SOURCE = ROOT / "src" / "rescheduler"
TELLERS = (
    "runtime/config_watcher.py",
    "runtime/starting/holds.py",
    "app/admission.py",
    "app/actions.py",
    "migration/events.py",
)
"""Modules that make events with reasons of their own; those of recovery are in `RecoveryReason`."""
_REASON = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)+")
_ACTIONS = {"RollBack"}
_KINDS = re.compile(r".*(Set|Job|Map|Migration)$")
_LOOKING = {"get", "list", "watch"}
_SERIES = re.compile(r"_(bucket|sum|count|gcount|gsum)$")

every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@pytest.fixture(scope="module")
def events() -> dict[str, tuple[str, str, str]]:
    """The table of docs/events.md, by reason."""
    return {reason: words for chapter in EVENTS.values() for reason, words in chapter.items()}


class TestEvents:
    def test_every_module_that_tells_is_known(self) -> None:
        makers = {
            str(file.relative_to(SOURCE))
            for file in SOURCE.rglob("*.py")
            if re.search(r"(?<!class )\bObjectEvent\(", file.read_text(encoding="utf-8"))
            and file.parts[-2] != "embedded"
        }
        assert makers == {*TELLERS, "recovery/decision.py"}, (
            "a new teller: add it here, and its reasons to docs/generating/events.py"
        )

    def test_every_reason_is_in_the_table_and_no_other(self, events: dict[str, Any]) -> None:
        told = {str(each) for each in RecoveryReason}
        for module in TELLERS:
            told |= set(_reasons(SOURCE / module))
        assert set(events) == told

    def test_warnings_are_told_from_news(self, events: dict[str, tuple[str, str, str]]) -> None:
        for reason in RecoveryReason:
            assert events[reason][0] == ("Warning" if reason.is_warning else "Normal"), reason
        tree = ast.parse((SOURCE / "migration" / "events.py").read_text(encoding="utf-8"))
        for each in ast.walk(tree):
            if isinstance(each, ast.Return) and isinstance(each.value, ast.Tuple) and len(each.value.elts) == 4:
                said, *_, warning = each.value.elts
                assert isinstance(said, ast.Constant)
                assert isinstance(warning, ast.Constant)
                assert events[str(said.value)][0] == ("Warning" if warning.value else "Normal"), said.value


def _reasons(module: Path) -> Iterator[str]:
    """The texts in a module that are written as reasons are."""
    for each in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        text = each.value if isinstance(each, ast.Constant) and isinstance(each.value, str) else ""
        if _REASON.fullmatch(text) and text not in _ACTIONS and not _KINDS.fullmatch(text):
            yield text


def test_the_security_page_says_of_each_right_what_could_be_done_with_it() -> None:
    rows = [line for _, line in prose(ROOT / "docs" / "security.md") if line.startswith("| `")]
    said = {(resource, verb) for row in rows for resource, verb in _rights(row.split("|")[1])}
    given = {(resource, verb) for _, resource, verb in granted()}
    assert {each for each in given - said if each[1] not in _LOOKING} == set()
    assert {resource for resource, _ in given} == {resource for resource, _ in said}
    assert {each for each in said - given if each[1] not in _LOOKING} == set(), "not granted at all"


def test_every_right_says_what_it_is_for() -> None:
    page = (ROOT / "docs" / "rights.md").read_text(encoding="utf-8")
    for section in page.split("\n## ")[1:]:
        rows = [row for row in section.splitlines() if row.startswith("| `")]
        reasons = [re.split(r"(?<!\\)\|", row)[3].strip() for row in rows]
        assert rows, section
        assert all(reasons), section
        assert reasons[0] != "the same", section
        if ABOVE in reasons:  # then the role itself must have a comment
            assert NO_COMMENT not in section, section


def _rights(cell: str) -> Iterator[tuple[str, str]]:
    """Resources in code, and after them their verbs: `a`, `b` get, list."""
    waiting: list[str] = []
    said = False
    for resource, verb in re.findall(r"`([a-z/]+)`|\b(create|patch|delete|update|get|list|watch)\b", cell):
        if resource:
            waiting = [resource] if said else [*waiting, resource]
        said = bool(verb)
        yield from ((each, verb) for each in waiting if verb)


@every_page
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    for place, text in spans(page):
        file, _, function = text.partition("::")
        if re.fullmatch(r"tests/[\w/.]+", file):
            assert (ROOT / file).exists(), f"{place}: {file}"
            assert not function or f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), f"{place}: {text}"


@every_page
def test_every_metric_that_a_page_names_exists(page: Path) -> None:
    known = _metrics()
    for place, text in spans(page):
        if found := re.match(r"(rescheduler_(?!demo\b)\w+|rest_client_\w+|leader_election_\w+)", text):
            assert _SERIES.sub("", found[1]) in known, f"{place}: {found[1]}"


@every_page
def test_every_alert_that_a_page_names_exists(page: Path) -> None:
    known = _alerts()
    for place, text in spans(page):
        if re.fullmatch(r"Rescheduler[A-Z][A-Za-z]+", text) and text != "ReschedulerConfiguration":
            assert text in known, f"{place}: {text}"


@every_page
def test_every_field_of_the_configuration_that_a_page_names_exists(page: Path) -> None:
    known = _fields()
    for place, text in spans(page):
        path = re.match(r"(?:config\.)?([a-z][A-Za-z]+(?:\.[a-z][A-Za-z]+)+)(?:: .*)?$", text)
        if path and path[1].split(".")[0] in known and not _is_module(path[1]):
            at: Any = known
            for part in path[1].split("."):
                if not isinstance(at, dict) or not at:
                    break  # a list, or a mapping that operators fill
                assert part in at, f"{place}: {text}"
                at = at[part]


def test_the_figures_of_operations_are_those_of_the_benchmarks() -> None:
    measured = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    text = (
        (ROOT / "docs" / "operations.md")
        .read_text(encoding="utf-8")
        .partition("## Scale")[2]
        .partition("Beside that")[0]
    )
    figures = re.findall(r"\| (\d[\d.]* (?:MB|s)) ", text)
    assert len(figures) == 8
    assert [each for each in figures if not re.search(rf"(?<![\d.]){re.escape(each)}\b", measured)] == []


def _is_module(name: str) -> bool:
    """`migration.commands` is a module of ours, though `migration` is also a section."""
    return (SOURCE / name.replace(".", "/")).with_suffix(".py").exists()


@cache
def _metrics() -> frozenset[str]:
    return frozenset(each.name for each in Metrics().described())


@cache
def _alerts() -> frozenset[str]:
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus-rules.yaml").read_text(encoding="utf-8"))
    return frozenset(rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule)


@cache
def _fields() -> dict[str, Any]:
    return load_defaults(settings_by_name()).effective()
