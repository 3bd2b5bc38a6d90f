"""What people are told of a migration, and to whom: little, at its turning points, and never too long."""

from __future__ import annotations

import pytest

from rescheduler.migration.events import ObjectEvent, Subject, events_for
from rescheduler.migration.lifecycle import ROLL_BACK
from rescheduler.model.migration import (
    MigrationStatus,
    MoveOutcome,
    ObjectReference,
    OutcomeVerdict,
    Phase,
    PodMigration,
)
from rescheduler.model.plan import Method
from tests.support.pod_migrations import migration_spec, pod_migration, replace

BEGUN = MigrationStatus(
    Phase.IN_PROGRESS,
    "Mark",
    Method.HANDOFF,
    "pod-uid",
    "one",
    "two",
    ObjectReference("ReplicaSet", "web-1", "rs-uid"),
    ObjectReference("Deployment", "web", "d-uid"),
    attempts=1,
)
PENDING = pod_migration(
    "shop", "m", migration_spec("web-a", strategy="LoadBalancing", reason="one is hot"), MigrationStatus(), "m-uid"
)


def then(progress: MigrationStatus) -> PodMigration:
    return replace(PENDING, status=progress)


def told(before: MigrationStatus, after: MigrationStatus) -> tuple[ObjectEvent, ...]:
    return events_for(then(before), then(after))


def note(before: MigrationStatus, after: MigrationStatus) -> str:
    (text,) = {each.note for each in told(before, after)}
    return text


def test_the_begin_is_told_to_pod_migration_and_workload() -> None:
    found = told(PENDING.status, BEGUN)
    assert [each.regarding for each in found] == [
        Subject("Pod", "shop", "web-a", "pod-uid"),
        Subject("PodMigration", "shop", "m", "m-uid"),
        Subject("Deployment", "shop", "web", "d-uid"),
    ]
    assert {(each.reason, each.action, each.warning) for each in found} == {("MigrationStarted", "Migrate", False)}
    assert found[0].related.kind == "PodMigration"
    assert {each.related.kind for each in found[1:]} == {"Pod"}
    assert found[0].note == "Pod shop/web-a from one to two by handoff (LoadBalancing: one is hot)"


@pytest.mark.parametrize(
    "after",
    [BEGUN, replace(BEGUN, step="AwaitReady"), replace(BEGUN, step=ROLL_BACK), replace(BEGUN, message="waits")],
    ids=lambda progress: f"{progress.step} {progress.message}",
)
def test_what_only_goes_on_is_no_news(after: MigrationStatus) -> None:
    assert told(BEGUN, after) == ()


def test_that_a_migration_waits_is_no_news() -> None:
    assert told(MigrationStatus(), MigrationStatus(message="the limit is reached")) == ()


def test_the_end_is_told_to_the_replacement_too() -> None:
    done = replace(BEGUN, phase=Phase.COMPLETED, replacement=ObjectReference("Pod", "copy", "c-uid"))
    assert Subject("Pod", "shop", "copy", "c-uid") in [each.regarding for each in told(BEGUN, done)]
    assert note(BEGUN, done) == "Pod shop/web-a from one to two by handoff: done; it is copy now"


def test_a_pod_that_landed_elsewhere_is_told_so() -> None:
    done = replace(BEGUN, phase=Phase.COMPLETED, message="landed on three, not on two")
    assert note(BEGUN, done).endswith(": done; landed on three, not on two")


def test_a_roll_back_is_a_warning_that_says_when_it_is_tried_again_and_spares_the_nodes() -> None:
    back = replace(BEGUN, phase=Phase.PENDING, message="the copy crashes", retry_time=1_800_000_000.0)
    found = told(BEGUN, back)
    assert {(each.reason, each.action, each.warning) for each in found} == {("MigrationRolledBack", "RollBack", True)}
    assert {each.regarding.kind for each in found} == {"Pod", "PodMigration", "Deployment"}
    assert note(BEGUN, back).endswith(": rolled back: the copy crashes; tried again at 2027-01-15T08:00:00Z")


def test_a_roll_back_to_another_method_says_so() -> None:
    back = replace(BEGUN, phase=Phase.PENDING, message="quota", tried_methods=(Method.HANDOFF,), retry_time=1.0)
    assert note(BEGUN, back).endswith(": rolled back: quota; another method is tried")


def test_a_second_attempt_is_told_as_such_and_is_another_occasion() -> None:
    first, second = told(MigrationStatus(), BEGUN), told(MigrationStatus(), replace(BEGUN, attempts=2))
    assert {each.reason for each in second} == {"MigrationRetried"}
    assert {each.occasion for each in first}.isdisjoint({each.occasion for each in second})


def test_a_failure_is_a_warning_with_its_reason() -> None:
    failed = replace(BEGUN, phase=Phase.FAILED, message="timed out")
    assert {(each.reason, each.warning) for each in told(BEGUN, failed)} == {("MigrationFailed", True)}
    assert note(BEGUN, failed).endswith(": given up, all is as it was: timed out")


def test_a_migration_that_could_never_begin_is_told_to_whom_it_concerns() -> None:
    never = MigrationStatus(Phase.FAILED, message="the pod is gone")
    assert [each.regarding.kind for each in told(MigrationStatus(), never)] == ["Pod", "PodMigration"]
    assert note(MigrationStatus(), never) == "Pod shop/web-a: not possible: the pod is gone"


def test_a_successor_who_only_knows_the_state_tells_the_same_news() -> None:
    done = replace(BEGUN, phase=Phase.COMPLETED)
    assert told(MigrationStatus(), done) == told(replace(BEGUN, step="Finish"), done)


DONE = replace(
    BEGUN, phase=Phase.COMPLETED, step="", replacement=ObjectReference("Pod", "web-b", "b-uid"), completion_time=0.0
)
CAME_BACK = replace(DONE, outcome=MoveOutcome(OutcomeVerdict.CAME_BACK, 0.0, 120.0))


def of(progress: MigrationStatus, strategy: str = "LoadBalancing") -> PodMigration:
    return pod_migration("shop", "m", migration_spec("web-a", strategy=strategy, expected_gain=12.0), progress, "m-uid")


@pytest.mark.parametrize(
    ("verdict", "reason", "words"),
    [
        (OutcomeVerdict.CAME_BACK, "MigrationCameBack", "came back (12.0 points predicted, 0.3 came true)"),
        (OutcomeVerdict.NOT_PAID, "MigrationNotPaid", "did not pay (12.0 points predicted, 0.3 came true)"),
    ],
)
def test_a_move_that_was_not_worth_it_is_told_to_migration_and_workload(
    verdict: OutcomeVerdict, reason: str, words: str
) -> None:
    found = events_for(of(DONE), of(replace(DONE, outcome=MoveOutcome(verdict, 0.3, 120.0))))
    assert [each.regarding for each in found] == [
        Subject("PodMigration", "shop", "m", "m-uid"),
        Subject("Deployment", "shop", "web", "d-uid"),
    ]
    assert {(each.reason, each.action, each.warning) for each in found} == {(reason, "Assess", True)}
    assert found[0].note == (
        f"Moving pod shop/web-a from one to two by handoff {words}; its workload rests longer for it"
    )


def test_a_bad_outcome_is_told_once_and_again_only_if_it_becomes_another() -> None:
    paid = replace(DONE, outcome=MoveOutcome(OutcomeVerdict.PAID, 9.0, 120.0))
    assert events_for(of(DONE), of(paid)) == ()
    assert events_for(of(paid), of(CAME_BACK))
    assert events_for(of(CAME_BACK), of(CAME_BACK)) == ()
    later = replace(CAME_BACK, outcome=MoveOutcome(OutcomeVerdict.CAME_BACK, 0.0, 999.0))
    assert events_for(of(CAME_BACK), of(later)) == ()


@pytest.mark.parametrize("strategy", ["NodeMaintenance", "Manual"])
def test_of_moves_that_had_to_be_no_bad_outcome_is_told(strategy: str) -> None:
    assert events_for(of(DONE, strategy), of(CAME_BACK, strategy)) == ()


def test_without_a_workload_the_migration_alone_is_told() -> None:
    alone = (replace(each, workload=None) for each in (DONE, CAME_BACK))
    (found,) = events_for(*(of(each) for each in alone))
    assert found.regarding.kind == "PodMigration"
