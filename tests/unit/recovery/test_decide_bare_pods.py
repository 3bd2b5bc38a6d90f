"""A pod without a controller: its name is recorded, it is created again elsewhere, and then it goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.time import format_instant
from rescheduler.recovery.avoidance import avoid_nodes, avoided_nodes
from rescheduler.recovery.decide import decide
from rescheduler.recovery.decision import RecoveryDecision, WorkloadState
from rescheduler.recovery.decision import RecoveryReason as Reason
from rescheduler.recovery.record import WHOLE, NodeFailure, RecordEntry, format_record, parse_record
from tests.unit.recovery.cases import (
    NOW,
    case,
    crashing,
    entries,
    failed,
    names,
    pod,
    ready,
    reasons,
    recorded,
    stamp,
    with_notes,
)

NAME = f"rescheduled-solo-{int(NOW)}"


def solo(body: Json | None = None, **more: Any) -> WorkloadState:
    asked = with_notes(body or crashing("solo", "n1"), {labels.SCHEDULING_RETRIES: "2", "team": "blue"})
    return case(asked, **more)


def named(seen: WorkloadState) -> WorkloadState:
    return recorded(seen, decide(seen).record)


def made(seen: WorkloadState) -> Json:
    decision = decide(seen)
    assert decision.creation is not None
    body = decision.creation
    body["metadata"] |= {"uid": "uid-copy", "resourceVersion": "1"}
    return body | {"status": {"phase": "Pending", "conditions": []}}


def test_first_the_name_of_the_replacement_is_recorded() -> None:
    decision = decide(solo())
    assert (decision.creation, decision.deletions, decision.requeue_after) == (None, (), 0.0)
    assert entries(decision)[WHOLE] == RecordEntry(
        count=1, nodes={"n1": NodeFailure(NOW, "CrashLoopBackOff")}, pending=("uid-solo",), replacement=NAME
    )
    assert reasons(decision.events) == [Reason.RESCHEDULED]


def test_then_it_is_made_with_marks_record_and_everything_it_had() -> None:
    decision = decide(named(solo()))
    assert (decision.record, decision.deletions, decision.events, decision.requeue_after) == (None, (), (), 0.0)
    body = decision.creation
    assert body is not None
    assert body["metadata"]["name"] == NAME
    assert body["metadata"]["labels"] == {
        labels.MIGRATION_ID: NAME,
        labels.MIGRATION_STATUS: "completed",
        labels.MIGRATED_FROM: "n1",
        labels.MIGRATION_REASON: "Recovery",
    }
    notes = body["metadata"]["annotations"]
    assert parse_record(notes.pop(labels.FAILURES)) == {
        WHOLE: RecordEntry(count=1, nodes={"n1": NodeFailure(NOW, "CrashLoopBackOff")}, avoids=("n1",))
    }
    assert notes == {
        "team": "blue",
        labels.SCHEDULING_RETRIES: "2",
        labels.MIGRATION_TIME: format_instant(NOW),
        labels.ORIGINAL_POD: "uid-solo",
        labels.ORIGINAL_POD_NAME: "solo",
    }
    assert "nodeName" not in body["spec"]
    assert avoided_nodes(body["spec"]["affinity"]) == {"n1"}


def test_making_it_is_said_until_it_is_there() -> None:
    seen = named(solo())
    assert decide(seen) == decide(seen)


def test_at_last_the_original_goes() -> None:
    seen = named(solo())
    decision = decide(replace(seen, replacement=made(seen)))
    assert names(decision.deletions) == ["solo"]
    assert (decision.record, decision.creation, decision.events) == (None, None, ())


def test_a_pod_that_ended_is_made_again_too() -> None:
    seen = named(solo(failed("solo", "n1", reason="Evicted")))
    decision = decide(replace(seen, replacement=made(seen)))
    assert names(decision.deletions) == ["solo"]


def test_a_name_that_somebody_else_has_is_given_up() -> None:
    seen = named(solo())
    decision = decide(replace(seen, replacement=pod(NAME)))
    assert entries(decision)[WHOLE].replacement == f"rescheduled-solo-{int(NOW) + 1}"
    assert entries(decision)[WHOLE].count == 1
    assert (decision.creation, decision.deletions) == (None, ())


def test_a_pod_that_is_ready_stays_until_its_replacement_is() -> None:
    seen = named(solo())
    copy = made(seen)
    again = pod("solo", "n1", conditions=[ready("True", 5)])["status"]
    well = replace(seen, workload=seen.workload | {"status": again}, pods=(seen.workload | {"status": again},))
    assert decide(replace(well, replacement=copy)).deletions == ()
    running = copy | {"status": {"phase": "Running", "conditions": [ready("True", 1)]}}
    assert names(decide(replace(well, replacement=running)).deletions) == ["solo"]


def test_a_pod_that_is_well_for_long_again_keeps_its_place() -> None:
    seen = named(solo())
    copy = made(seen)
    well = seen.workload | {"status": pod("solo")["status"]}
    decision = decide(replace(seen, workload=well, pods=(well,), replacement=copy))
    assert names(decision.deletions) == [NAME]
    assert decision.record == ""


def test_a_pod_that_completed_after_all_is_not_deleted() -> None:
    seen = named(solo())
    copy = made(seen)
    done = seen.workload | {"status": {"phase": "Succeeded", "conditions": []}}
    decision = decide(replace(seen, workload=done, pods=(done,), replacement=copy))
    assert names(decision.deletions) == [NAME]


def test_the_replacement_carries_on_the_count_and_avoids_both_nodes() -> None:
    first = named(solo())
    copy = made(first)
    copy["spec"]["nodeName"] = "n2"
    copy["status"] = crashing("x", "n2")["status"]
    second = named(case(copy))
    assert parse_record(second.workload["metadata"]["annotations"][labels.FAILURES])[WHOLE].count == 2
    body = decide(second).creation
    assert body is not None
    assert body["metadata"]["name"] == f"rescheduled-solo-{int(NOW) + 1}"
    assert avoided_nodes(body["spec"]["affinity"]) == {"n1", "n2"}
    assert body["metadata"]["labels"][labels.MIGRATED_FROM] == "n2"
    body["metadata"] |= {"uid": "uid-third", "resourceVersion": "1"}
    body["spec"]["nodeName"] = "n3"
    third = decide(case(body | {"status": crashing("x", "n3")["status"]}))
    assert third.outcomes == ("exhausted",)


def test_when_no_node_is_left_our_own_avoidance_is_taken_out_again_and_the_users_stays() -> None:
    asked = crashing("solo", "n2")
    asked["spec"]["affinity"] = avoid_nodes(avoid_nodes(None, ["n6"]), ["n1"])
    record = RecordEntry(count=1, nodes={"n1": NodeFailure(NOW - 60, "Error")}, avoids=("n1",))
    seen = solo(
        with_notes(asked, {labels.FAILURES: format_record({WHOLE: record})}), feasible_nodes=frozenset({"n1", "n2"})
    )
    decision = decide(seen)
    assert decision.outcomes == ("no_node_left", "rescheduled")
    body = decide(recorded(seen, decision.record)).creation
    assert body is not None
    assert avoided_nodes(body["spec"]["affinity"]) == {"n6"}


def test_a_replacement_that_finds_no_place_is_made_again_without_nodes_to_avoid() -> None:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": stamp(700)}
    waiting = pod("solo", "", phase="Pending", conditions=[said], containerStatuses=[])
    waiting["spec"]["affinity"] = avoid_nodes(None, ["n1"])
    record = RecordEntry(count=1, nodes={"n1": NodeFailure(NOW - 800, "Error")}, avoids=("n1",))
    seen = solo(with_notes(waiting, {labels.FAILURES: format_record({WHOLE: record})}))
    decision = decide(seen)
    assert (reasons(decision.events), decision.deletions) == ([Reason.NO_NODE_LEFT], ())
    assert entries(decision)[WHOLE].count == 1
    after = decide(recorded(seen, decision.record))
    assert after.creation is not None
    assert "affinity" not in after.creation["spec"]


def test_a_pod_that_is_counted_and_has_no_replacement_is_given_one_and_not_deleted() -> None:
    seen = solo(with_notes(crashing("solo", "n1"), {labels.FAILURES: '{"count":1,"pending":["uid-solo"]}'}))
    decision = decide(seen)
    assert decision.deletions == ()
    assert (entries(decision)[WHOLE].count, entries(decision)[WHOLE].replacement) == (1, NAME)


def test_mirrors_of_static_pods_are_left_to_their_kubelet() -> None:
    seen = solo(with_notes(crashing("solo", "n1"), {labels.MIRROR: "x"}))
    assert decide(seen) == RecoveryDecision()


def test_a_healthy_replacement_starts_with_a_clean_record() -> None:
    record = RecordEntry(count=1, nodes={"n1": NodeFailure(NOW - 800, "Error")}, avoids=("n1",))
    seen = solo(with_notes(pod("solo", "n2"), {labels.FAILURES: format_record({WHOLE: record})}))
    decision = decide(seen)
    assert decision.outcomes == ("recovered",)
    # What is in its spec for our sake is remembered, so that it can be left out of the next one.
    assert entries(decision) == {WHOLE: RecordEntry(avoids=("n1",))}
    assert decide(recorded(seen, decision.record)) == RecoveryDecision()
