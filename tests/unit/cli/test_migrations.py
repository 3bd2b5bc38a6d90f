"""Migrations as rows and ages as kubectl has them; rows that come one after the other stay in their columns."""

from __future__ import annotations

from typing import Any

import pytest

from rescheduler.cli.migrations import RowStream, migration_columns, migration_table, row
from rescheduler.cli.output import Terminal, age

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


def migration(name: str = "m", **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "creationTimestamp": "2026-11-15T08:00:00Z"}
    return {"metadata": metadata, "spec": {"pod": {"name": "web-0"}, "target": "b"}, "status": status}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (8 * HOUR - 1, "7h59m"),
        (8 * HOUR, "8h"),
        (2 * DAY, "2d"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY, "8d"),
        (2 * YEAR, "2y"),
        (3 * YEAR - DAY, "2y364d"),
        (9 * YEAR, "9y"),
    ],
)
def test_ages_are_kubectls(seconds: int, text: str) -> None:
    assert age(1000.0, 1000.0 + seconds) == text


def test_an_age_that_is_not_known_or_in_the_future_is_no_error() -> None:
    assert age(None, 5.0) == "<unknown>"
    assert age(10.0, 5.0) == "0s"


def test_a_migration_that_nobody_has_looked_at_is_pending() -> None:
    cells = dict(zip(migration_columns(), row(migration(), migration_columns(), 0.0), strict=True))
    assert (cells["PHASE"], cells["TO"], cells["FROM"]) == ("Pending", "b", "")


def test_an_object_that_makes_no_sense_is_shown_all_the_same() -> None:
    odd = {"metadata": {"name": "odd", "creationTimestamp": "yesterday"}, "status": {"phase": "?", "attempts": "x"}}
    assert row(odd, migration_columns(wide=True, namespaces=True), 0.0)[1] == "odd"


def test_messages_flow_on_a_narrow_terminal() -> None:
    lines = [*migration_table([migration(message="word " * 40)], migration_columns(), 0.0).lines(Terminal(width=80))]
    assert max(len(line) for line in lines) <= 80
    assert len(lines) > 3


def test_rows_that_come_later_keep_their_columns() -> None:
    stream = RowStream(migration_columns())
    header, first = stream.lines([row(migration("a-long-name"), migration_columns(), 0.0)])
    (later,) = stream.lines([row(migration("m", phase="Failed"), migration_columns(), 0.0)])
    assert header.index("POD") == first.index("web-0") == later.index("web-0")
    (longer,) = stream.lines([row(migration("a-much-longer-name"), migration_columns(), 0.0)])
    (after,) = stream.lines([row(migration("m"), migration_columns(), 0.0)])
    assert longer.index("web-0") == after.index("web-0")


def test_control_characters_do_not_reach_the_terminal() -> None:
    (_, line) = RowStream(migration_columns()).lines(
        [row(migration(message="\x1b[31mred\nnext"), migration_columns(), 0.0)]
    )
    assert "\x1b" not in line
    assert "\n" not in line


def test_wide_has_what_was_predicted_and_what_came_true() -> None:
    body = migration(outcome={"verdict": "NotPaid", "gain": 0.3})
    body["spec"]["expectedGain"] = 12.5
    columns = migration_columns(wide=True)
    cells = dict(zip(columns, row(body, columns, 0.0), strict=True))
    assert (cells["PREDICTED"], cells["CAME TRUE"], cells["OUTCOME"]) == ("12.5", "0.3", "NotPaid")
    assert "PREDICTED" not in migration_columns()
