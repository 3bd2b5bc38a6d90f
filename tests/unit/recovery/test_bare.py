"""A pod that nobody manages: its name is noted, it is made again elsewhere, and then it goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.time import format_instant
from rescheduler.recovery import events
from rescheduler.recovery.avoidance import avoided_by, avoiding
from rescheduler.recovery.decide import decide
from rescheduler.recovery.model import Case, Decision
from rescheduler.recovery.record import WHOLE, Entry, Failure, read, written
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


def solo(body: Json | None = None, **more: Any) -> Case:
    asked = with_notes(body or crashing("solo", "n1"), {labels.SCHEDULING_RETRIES: "2", "team": "blue"})
    return case(asked, **more)


def named(seen: Case) -> Case:
    return recorded(seen, decide(seen).record)


def made(seen: Case) -> Json:
    decision = decide(seen)
    assert decision.creation is not None
    body = decision.creation
    body["metadata"] |= {"uid": "uid-copy", "resourceVersion": "1"}
    return body | {"status": {"phase": "Pending", "conditions": []}}


def test_first_the_name_of_the_replacement_is_recorded() -> None:
    decision = decide(solo())
    assert (decision.creation, decision.deletions, decision.wait) == (None, (), 0.0)
    assert entries(decision)[WHOLE] == Entry(
        count=1, nodes={"n1": Failure(NOW, "CrashLoopBackOff")}, pending=("uid-solo",), replacement=NAME
    )
    assert reasons(decision.news) == [events.RESCHEDULED]


def test_then_it_is_made_with_marks_record_and_everything_it_had() -> None:
    decision = decide(named(solo()))
    assert (decision.record, decision.deletions, decision.news, decision.wait) == (None, (), (), 0.0)
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
    assert read(notes.pop(labels.FAILURES)) == {
        WHOLE: Entry(count=1, nodes={"n1": Failure(NOW, "CrashLoopBackOff")}, avoids=("n1",))
    }
    assert notes == {
        "team": "blue",
        labels.SCHEDULING_RETRIES: "2",
        labels.MIGRATION_TIME: format_instant(NOW),
        labels.ORIGINAL_POD: "uid-solo",
        labels.ORIGINAL_POD_NAME: "solo",
    }
    assert "nodeName" not in body["spec"]
    assert avoided_by(body["spec"]["affinity"]) == {"n1"}


def test_making_it_is_said_until_it_is_there() -> None:
    seen = named(solo())
    assert decide(seen) == decide(seen)


def test_at_last_the_original_goes() -> None:
    seen = named(solo())
    decision = decide(replace(seen, replacement=made(seen)))
    assert names(decision.deletions) == ["solo"]
    assert (decision.record, decision.creation, decision.news) == (None, None, ())


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
    well = replace(seen, holder=seen.holder | {"status": again}, pods=(seen.holder | {"status": again},))
    assert decide(replace(well, replacement=copy)).deletions == ()
    running = copy | {"status": {"phase": "Running", "conditions": [ready("True", 1)]}}
    assert names(decide(replace(well, replacement=running)).deletions) == ["solo"]


def test_a_pod_that_is_well_for_long_again_keeps_its_place() -> None:
    seen = named(solo())
    copy = made(seen)
    well = seen.holder | {"status": pod("solo")["status"]}
    decision = decide(replace(seen, holder=well, pods=(well,), replacement=copy))
    assert names(decision.deletions) == [NAME]
    assert decision.record == ""


def test_a_pod_that_completed_after_all_is_not_deleted() -> None:
    seen = named(solo())
    copy = made(seen)
    done = seen.holder | {"status": {"phase": "Succeeded", "conditions": []}}
    decision = decide(replace(seen, holder=done, pods=(done,), replacement=copy))
    assert names(decision.deletions) == [NAME]


def test_the_replacement_carries_on_the_count_and_avoids_both_nodes() -> None:
    first = named(solo())
    copy = made(first)
    copy["spec"]["nodeName"] = "n2"
    copy["status"] = crashing("x", "n2")["status"]
    second = named(case(copy))
    assert read(second.holder["metadata"]["annotations"][labels.FAILURES])[WHOLE].count == 2
    body = decide(second).creation
    assert body is not None
    assert body["metadata"]["name"] == f"rescheduled-solo-{int(NOW) + 1}"
    assert avoided_by(body["spec"]["affinity"]) == {"n1", "n2"}
    assert body["metadata"]["labels"][labels.MIGRATED_FROM] == "n2"
    body["metadata"] |= {"uid": "uid-third", "resourceVersion": "1"}
    body["spec"]["nodeName"] = "n3"
    third = decide(case(body | {"status": crashing("x", "n3")["status"]}))
    assert third.outcomes == ("exhausted",)


def test_when_no_node_is_left_our_own_avoidance_is_taken_out_again_and_the_users_stays() -> None:
    asked = crashing("solo", "n2")
    asked["spec"]["affinity"] = avoiding(avoiding(None, ["n6"]), ["n1"])
    record = Entry(count=1, nodes={"n1": Failure(NOW - 60, "Error")}, avoids=("n1",))
    seen = solo(with_notes(asked, {labels.FAILURES: written({WHOLE: record})}), free_nodes=frozenset({"n1", "n2"}))
    decision = decide(seen)
    assert decision.outcomes == ("no_node_left", "rescheduled")
    body = decide(recorded(seen, decision.record)).creation
    assert body is not None
    assert avoided_by(body["spec"]["affinity"]) == {"n6"}


def test_a_replacement_that_finds_no_place_is_made_again_without_nodes_to_avoid() -> None:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": stamp(700)}
    waiting = pod("solo", "", phase="Pending", conditions=[said], containerStatuses=[])
    waiting["spec"]["affinity"] = avoiding(None, ["n1"])
    record = Entry(count=1, nodes={"n1": Failure(NOW - 800, "Error")}, avoids=("n1",))
    seen = solo(with_notes(waiting, {labels.FAILURES: written({WHOLE: record})}))
    decision = decide(seen)
    assert (reasons(decision.news), decision.deletions) == ([events.NO_NODE_LEFT], ())
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
    assert decide(seen) == Decision()


def test_a_healthy_replacement_starts_with_a_clean_record() -> None:
    record = Entry(count=1, nodes={"n1": Failure(NOW - 800, "Error")}, avoids=("n1",))
    seen = solo(with_notes(pod("solo", "n2"), {labels.FAILURES: written({WHOLE: record})}))
    decision = decide(seen)
    assert decision.outcomes == ("recovered",)
    # What is in its spec for our sake is remembered, so that it can be left out of the next one.
    assert entries(decision) == {WHOLE: Entry(avoids=("n1",))}
    assert decide(recorded(seen, decision.record)) == Decision()
