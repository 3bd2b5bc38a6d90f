"""What people are told is what docs/failed-pods.md says that they are told."""

from __future__ import annotations

import re
from pathlib import Path

from rescheduler.recovery.decision import RecoveryOutcome, RecoveryReason

PAGE = (Path(__file__).parents[3] / "docs" / "failed-pods.md").read_text()
REASONS = {str(each) for each in RecoveryReason}


def columns() -> tuple[set[str], set[str]]:
    """The Events and the outcomes of the page's table of results."""
    rows = PAGE.split("| Event | `rescheduler_recoveries_total")[1].split("\n\n")[0].splitlines()[2:]
    cells = [[re.findall(r"`([^`]+)`", cell) for cell in row.strip("|").split("|")] for row in rows]
    return {each for row in cells for each in row[2]}, {each for row in cells for each in row[3]}


def test_every_event_is_documented_and_none_that_is_not_told() -> None:
    events, outcomes = columns()
    assert events <= REASONS
    assert {reason for reason in REASONS if f"`{reason}`" not in PAGE} == set()
    assert outcomes == {str(each) for each in RecoveryOutcome}
