"""Records of kse-rescheduler: the recovery controller reads them once, and removes them as it writes its own."""

from __future__ import annotations

import pytest

from rescheduler.kube.record_owner import OwnedObjects, RecordOwnerKey
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.recovery.decision import RecoveryDecision
from tests.unit.runtime.failing_world import ASKS, SPACE, body, pod
from tests.unit.runtime.test_recovery_controller import Stage, a_minute, recovers, stage

__all__ = ["stage"]  # the fixture
DEPLOY = labels.KSE_RECORDS["Deployment"]
THEIRS = {**ASKS, DEPLOY: "{}"}
WEB = body("Deployment", "web", THEIRS)
COPIED = body("ReplicaSet", "web-1", THEIRS, WEB)
PLAIN = body("ReplicaSet", "web-0", ASKS, WEB)
KEY: RecordOwnerKey = ("Deployment", SPACE, "web")


def seen(stage: Stage, *known: Json) -> list[str]:
    """Who is looked at, though no pod fails."""
    recovers(stage, a_minute, *known)
    return [name for _, name in stage.looks]


def test_a_workload_with_such_a_record_is_looked_at_though_its_pods_are_well(stage: Stage) -> None:
    assert "web" in seen(stage, WEB, COPIED, pod("web-1-a", COPIED))


def test_one_that_cannot_be_read_is_not_looked_at_over_and_over(stage: Stage) -> None:
    assert seen(stage, WEB, COPIED).count("web") == 1


def test_a_workload_without_any_is_left_in_peace(stage: Stage) -> None:
    calm = body("Deployment", "web", ASKS)
    assert seen(stage, calm, body("ReplicaSet", "web-1", ASKS, calm)) == []


@pytest.mark.parametrize(("record", "ours"), [("text", {labels.FAILURES: "text"}), (None, {})])
def test_theirs_goes_in_the_write_of_ours_and_then_off_the_copies(
    stage: Stage, record: str | None, ours: dict[str, str]
) -> None:
    stage.shown[KEY] = OwnedObjects(WEB, (PLAIN, COPIED), ())
    stage.decisions["web"] = [RecoveryDecision(record, adopted_annotation=DEPLOY)]
    recovers(stage, a_minute, WEB, PLAIN, COPIED)
    written, copy = stage.commands
    notes = {**ours, DEPLOY: None}
    assert written.body == {"metadata": {"uid": "web-uid", "resourceVersion": "1", "annotations": notes}}
    assert copy.name == "web-1"
    assert copy.body == {"metadata": {"uid": "web-1-uid", "annotations": {DEPLOY: None}}}


CLEAN = body("Deployment", "web", ASKS)


@pytest.mark.parametrize("order", [(CLEAN, PLAIN, COPIED), (COPIED, PLAIN, CLEAN)])
def test_copies_that_a_controller_left_when_it_was_killed_are_taken_off_by_the_next(
    stage: Stage, order: tuple[Json, ...]
) -> None:
    stage.shown[KEY] = OwnedObjects(CLEAN, (PLAIN, COPIED), ())
    recovers(stage, a_minute, *order)
    assert [each.body for each in stage.commands] == [
        {"metadata": {"uid": "web-1-uid", "annotations": {DEPLOY: None}}},
    ]


def test_copies_of_a_workload_that_asks_for_nothing_stay_as_its_record_does(stage: Stage) -> None:
    calm = body("Deployment", "web")
    copied = body("ReplicaSet", "web-1", {DEPLOY: "{}"}, calm)
    stage.shown[KEY] = OwnedObjects(calm, (copied,), ())
    recovers(stage, a_minute, copied, calm)
    assert stage.commands == []
