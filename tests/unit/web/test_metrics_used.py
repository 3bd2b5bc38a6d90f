"""The rules and the dashboard in deploy/ ask only for metrics and labels that exist, and say what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import yaml

from rescheduler.cli.main import root
from rescheduler.config.loader import load_defaults
from rescheduler.strategies import settings_by_name
from rescheduler.web.metric_catalogue import MetricDescription
from rescheduler.web.metrics import Metrics
from tests.support.promql import Asked, find_grouping, find_series

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
RECORDED = {rule["record"]: find_grouping(rule["expr"]) for rule in RULES if "record" in rule}
DESCRIBED: dict[str, MetricDescription] = {name: each for each in Metrics().described() for name in each.series}
OF_THE_PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
EVERYWHERE = {"job", "instance"}


def shown() -> Iterator[tuple[str, str]]:
    """Each query of the dashboard, by the title of its panel."""
    for panel in BOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m").replace("$job", ".+")
    for note in BOARD["annotations"]["list"]:
        yield note["name"], note["expr"].replace("$job", ".+")


EXPRESSIONS = [*((rule.get("alert") or rule["record"], rule["expr"]) for rule in RULES), *shown()]


def labels_of(name: str) -> set[str]:
    if name in OF_THE_PROCESS:
        return EVERYWHERE
    if name in RECORDED:
        return RECORDED[name] | EVERYWHERE
    bound = {"le"} if name.endswith("_bucket") else set()
    return {*DESCRIBED[name].labels} | EVERYWHERE | bound


def test_every_expression_reads_only_metrics_and_labels_that_exist() -> None:
    for title, expression in EXPRESSIONS:
        read = list(find_series(expression))
        assert read, title
        assert {each.name for each in read} <= {*DESCRIBED, *RECORDED, *OF_THE_PROCESS}, title
        for each in read:
            assert each.labels <= labels_of(each.name), (title, each)
        assert find_grouping(expression) <= {label for each in read for label in labels_of(each.name)}, title


def test_a_name_that_does_not_exist_is_found() -> None:
    expression = 'sum by (job, kind) (rate(some_total{job=~"a{b}", code!="x"}[5m])) / on (job) 2 * other > bool 1e3'
    assert set(find_series(expression)) == {Asked("some_total", frozenset({"job", "code"})), Asked("other")}
    assert find_grouping(expression) == {"job", "kind"}


def test_every_metric_is_on_the_dashboard_or_in_a_rule() -> None:
    read = {each.name for _, expression in EXPRESSIONS for each in find_series(expression)}
    unread = {each.name for each in Metrics().described() if not each.series & read}
    assert unread == set()


def test_every_alert_says_what_is_wrong_how_bad_it_is_and_what_to_do() -> None:
    for alert in ALERTS:
        assert alert["labels"]["severity"] in ("critical", "warning", "info"), alert
        assert set(alert["annotations"]) == {"summary", "description", "runbook"}, alert
        assert all(text.strip().endswith(".") for text in alert["annotations"].values()), alert


def test_alerts_name_only_commands_settings_and_pages_that_exist() -> None:
    texts = " ".join(text for alert in ALERTS for text in alert["annotations"].values())
    known = load_defaults(settings_by_name()).effective()
    for name in re.findall(r"`rescheduler ([a-z-]+)", texts):
        assert root.get_command(click.Context(root), name) is not None, name
    for setting in re.findall(r"`([a-z]\w+(?:\.\w+)?)`", texts):
        at: object = known
        for part in setting.split("."):
            assert isinstance(at, dict), setting
            assert part in at, setting
            at = at[part]
    for page in re.findall(r"\b(?:docs|deploy)/[\w-]+\.\w+", texts):
        assert (DEPLOY.parent / page).exists(), page


class TestDashboard:
    def test_reads_from_the_data_source_that_the_viewer_chooses(self) -> None:
        variables = {each["name"]: each for each in BOARD["templating"]["list"]}
        assert variables["datasource"]["type"] == "datasource"
        read = [
            each["datasource"]["uid"]
            for panel in BOARD["panels"]
            for each in (panel, *panel.get("targets", []))
            if "datasource" in each
        ]
        assert set(read) == {"${datasource}"}

    def test_has_a_row_for_each_part(self) -> None:
        rows = [panel["title"] for panel in BOARD["panels"] if panel["type"] == "row"]
        assert rows == [
            "Now",
            "Balance",
            "Moves",
            "Guards",
            "Migrations",
            "Recoveries and steering",
            "API and caches",
            "Outcomes",
            "Configuration",
            "Usage and pools",
        ]

    def test_no_two_panels_lie_on_each_other_or_have_one_id(self) -> None:
        taken: set[tuple[int, int]] = set()
        for panel in BOARD["panels"]:
            at = panel["gridPos"]
            cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
            assert not cells & taken, panel["title"]
            assert all(x < 24 for x, _ in cells), panel["title"]
            taken |= cells
        assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])

    def test_every_panel_says_what_it_shows(self) -> None:
        assert all(panel["description"].endswith(".") for panel in BOARD["panels"] if panel["type"] != "row")
