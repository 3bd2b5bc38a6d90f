"""Records of kse-rescheduler are taken into ours: counts and nodes stay, and what makes no sense is left alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.recovery.decide import decide
from rescheduler.recovery.decision import RecoveryReason as Reason
from rescheduler.recovery.decision import WorkloadState
from rescheduler.recovery.record import (
    REASON,
    NodeFailure,
    RecordEntry,
    RecordError,
    describe_kse_record,
    format_record,
    merge_kse_record,
    parse_kse_record,
)
from tests.unit.admission import worlds
from tests.unit.recovery.cases import (
    NOW,
    OWNER,
    case,
    crashing,
    deployment_case,
    entries,
    names,
    pod,
    reasons,
    recorded,
    with_notes,
    workload,
)

DEPLOY = labels.KSE_RECORDS["Deployment"]


def theirs(count: int, *nodes: str) -> RecordEntry:
    return RecordEntry(count, {node: NodeFailure(NOW, REASON) for node in nodes})


def seen(text: str, *pods: Json, retries: str = "3", replicas: int = 1) -> WorkloadState:
    """A Deployment with kse-rescheduler's record."""
    found = deployment_case(*pods, replicas=replicas, retries=retries)
    return replace(found, workload=with_notes(found.workload, {DEPLOY: text}))


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        (
            "Deployment",
            '{"currentReschedulingTimes":2,"deployScheduledHosts":["n2","n1"]}',
            {"": theirs(2, "n1", "n2")},
        ),
        ("Deployment", '{"currentReschedulingTimes":4,"deployScheduledHosts":null}', {"": theirs(4)}),
        ("Job", '{"currentReschedulingTimes":1,"jobScheduledHosts":["n1"]}', {"": theirs(1, "n1")}),
        ("Pod", '{"currentReschedulingTimes": 2, "podScheduledHosts": ["n1"]}', {"": theirs(2, "n1")}),
        (
            "StatefulSet",
            '{"db-0":{"currentReschedulingTimes":2,"podScheduledHosts":["n1"]},"db-1":{"currentReschedulingTimes":1}}',
            {"db-0": theirs(2, "n1"), "db-1": theirs(1)},
        ),
        ("DaemonSet", "2", {"n3": theirs(2)}),
    ],
)
def test_the_record_of_each_kind_is_read_as_it_was_written(kind: str, text: str, found: dict[str, RecordEntry]) -> None:
    assert parse_kse_record(kind, text, ["n3"], NOW) == found


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("Deployment", "{", "it is not JSON"),
        ("Deployment", "[]", "it is not a JSON object"),
        ("Deployment", '{"currentReschedulingTimes":-1}', "currentReschedulingTimes: -1 is not a number of times"),
        ("Deployment", '{"deployScheduledHosts":[1]}', "deployScheduledHosts: it is not a list of nodes"),
        ("Deployment", '{"deployScheduledHosts":["Not A Node"]}', "deployScheduledHosts: it is not a list of nodes"),
        (
            "Deployment",
            f'{{"deployScheduledHosts":["{"n" * 254}"]}}',
            "deployScheduledHosts: it is not a list of nodes",
        ),
        ("Deployment", "[" * 100_000, "it is not JSON"),
        ("Deployment", f'{{"currentReschedulingTimes":1{"0" * 5000}}}', "it is not JSON"),
        ("StatefulSet", '{"db-0": 1}', "db-0: it is not a JSON object"),
        ("DaemonSet", "true", "True is not a number of times"),
    ],
)
def test_what_makes_no_sense_says_where(kind: str, text: str, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        parse_kse_record(kind, text, ["n1"], NOW)


def test_of_two_records_the_higher_count_and_all_nodes_stay() -> None:
    ours = {"": RecordEntry(count=1, nodes={"n1": NodeFailure(NOW - 5, "CrashLoopBackOff")}, revision="aaa")}
    both = merge_kse_record(ours, {"": theirs(3, "n1", "n2")}, 1000)
    nodes = {"n2": NodeFailure(NOW, REASON), "n1": NodeFailure(NOW - 5, "CrashLoopBackOff")}
    assert both == {"": RecordEntry(count=3, nodes=nodes, revision="aaa")}


def test_a_healthy_workload_has_its_record_taken_over_and_the_annotation_taken_off() -> None:
    text = '{"currentReschedulingTimes":1,"deployScheduledHosts":["n2"]}'
    decision = decide(seen(text, pod("web-x", "n1", OWNER)))
    assert decision.adopted_annotation == DEPLOY
    assert entries(decision) == {"": RecordEntry(count=1, nodes={"n2": NodeFailure(NOW, REASON)})}
    assert reasons(decision.events) == [Reason.TAKEN_OVER]
    assert "1 retry, failed on n2" in decision.events[0].note
    assert not decision.deletions


def test_it_is_forgotten_as_any_failure_is_when_all_pods_have_been_well_for_long_enough() -> None:
    text = '{"currentReschedulingTimes":1,"deployScheduledHosts":["n2"]}'
    first = seen(text, pod("web-x", "n1", OWNER))
    after = recorded(replace(first, workload=deployment_case(replicas=1).workload), decide(first).record)
    assert decide(replace(after, now=NOW + 700)).record == ""


def test_retries_that_were_used_up_there_are_used_up_here() -> None:
    decision = decide(seen('{"currentReschedulingTimes":4,"deployScheduledHosts":null}', crashing(owner=OWNER)))
    assert not decision.deletions
    assert reasons(decision.events) == [Reason.TAKEN_OVER, Reason.EXHAUSTED]


def test_retries_that_are_left_are_used_and_the_nodes_of_before_avoided() -> None:
    text = '{"currentReschedulingTimes":1,"deployScheduledHosts":["n2"]}'
    decision = decide(seen(text, crashing(owner=OWNER)))
    assert names(decision.deletions) == ["web-x"]
    entry = entries(decision)[""]
    assert (entry.count, sorted(entry.nodes)) == (2, ["n1", "n2"])


def test_failures_of_before_are_never_held_against_the_workload() -> None:
    hosts = json.dumps(["n2", "n3", "n4", "n5"])
    decision = decide(seen(f'{{"currentReschedulingTimes":1,"deployScheduledHosts":{hosts}}}', crashing(owner=OWNER)))
    assert Reason.AT_FAULT not in reasons(decision.events)
    assert decision.deletions


def test_a_record_that_makes_no_sense_is_left_and_told() -> None:
    decision = decide(seen("what?", pod("web-x", "n1", OWNER)))
    assert (decision.adopted_annotation, decision.record) == ("", None)
    assert reasons(decision.events) == [Reason.UNREADABLE]
    assert "is left as it is: it is not JSON" in decision.events[0].note


def test_a_record_that_is_too_long_for_an_annotation_of_ours_is_left_and_told_and_harms_nothing() -> None:
    hosts = [f"node-{number}.example.com" for number in range(5000)]
    text = json.dumps({"currentReschedulingTimes": 1, "deployScheduledHosts": hosts})
    decision = decide(seen(text, crashing(owner=OWNER)))
    assert decision.adopted_annotation == ""
    assert len(decision.record or "") < 1000
    assert names(decision.deletions) == ["web-x"]
    told = next(each for each in decision.events if each.reason == Reason.UNREADABLE)
    assert "is left as it is: with it our own record would be too long" in told.note


def test_a_workload_that_asks_for_nothing_keeps_its_annotation() -> None:
    found = deployment_case(pod("web-x", "n1", OWNER))
    holder = with_notes(workload("Deployment", retries=None), {DEPLOY: '{"currentReschedulingTimes":1}'})
    decision = decide(replace(found, workload=holder))
    assert (decision.adopted_annotation, decision.record) == ("", None)


def test_the_number_of_a_daemon_set_counts_on_nodes_where_pods_fail() -> None:
    holder = with_notes(workload("DaemonSet"), {labels.KSE_RECORDS["DaemonSet"]: "2"})
    decision = decide(case(holder, pod("d-1", "n1", holder), crashing("d-2", "n2", holder)))
    assert {name: entry.count for name, entry in entries(decision).items()} == {"n2": 3}


def test_what_was_taken_over_is_told_in_words() -> None:
    assert (
        describe_kse_record({"db-0": theirs(2, "n1"), "db-1": theirs(1)})
        == "db-0: 2 retries, failed on n1; db-1: 1 retry"
    )
    assert describe_kse_record({}) == "no pod fails now"


def test_new_pods_avoid_the_nodes_of_before_as_soon_as_the_record_is_written() -> None:
    world = worlds.World()
    text = format_record({"": RecordEntry(1, {"one": NodeFailure(worlds.NOW, REASON)})})
    world.deployment({labels.SCHEDULING_RETRIES: "3", labels.FAILURES: text})
    assert set(world.placement_advisor().advise(worlds.new_pod()).avoid) == {"one"}
