"""What a review of recovery found: failures that were none, failures that were told wrong or not at all."""

from __future__ import annotations

import copy
from dataclasses import replace

from rescheduler.model.json import Json
from rescheduler.recovery.decide import decide
from rescheduler.recovery.decision import RecoveryDecision
from rescheduler.recovery.record import WHOLE, NodeFailure, RecordEntry, format_record
from tests.unit.recovery.cases import (
    NOW,
    OWNER,
    case,
    crashing,
    deployment_case,
    failed,
    names,
    node,
    pod,
    ready,
    reasons,
    recorded,
    scheduled,
    stamp,
    with_notes,
    workload,
)


def failures(*nodes: str) -> dict[str, NodeFailure]:
    return {name: NodeFailure(NOW - 60, "CrashLoopBackOff") for name in nodes}


def test_a_replica_that_was_made_a_moment_ago_does_not_prove_that_the_workload_can_run() -> None:
    kept = format_record({WHOLE: RecordEntry(count=8, nodes=failures("n1", "n2", "n3", "n4"), revision="aaa")})
    for ago, told in ((1.0, []), (3600.0, ["PodRescheduled"])):
        fresh = pod("web-b", "n6", OWNER, conditions=[ready("True", ago), scheduled(ago)])
        seen = recorded(deployment_case(crashing("web-a", "n5", OWNER), fresh, retries="20"), kept)
        assert reasons(decide(seen).events) == told


def test_in_a_small_cluster_what_fails_everywhere_twice_is_the_workloads_own_fault() -> None:
    seen = deployment_case(replicas=1, retries="20", feasible_nodes=frozenset({"n1", "n2", "n3"}))
    told: list[list[str]] = []
    for number in range(6):
        body = crashing(f"web-{number}", f"n{number % 3 + 1}", OWNER)
        found = decide(replace(seen, pods=(body,)))
        told.append(reasons(found.events))
        seen = recorded(seen, found.record)
    assert ["NoNodeLeft" in each for each in told] == [False, False, True, False, False, False]
    assert told[-1] == ["WorkloadAtFault"]


def test_where_there_is_one_node_only_no_node_is_left_again_and_again() -> None:
    seen = deployment_case(replicas=1, retries="20", feasible_nodes=frozenset({"n1"}))
    for number in range(3):
        found = decide(replace(seen, pods=(crashing(f"web-{number}", "n1", OWNER),)))
        assert "NoNodeLeft" in reasons(found.events)
        seen = recorded(seen, found.record)


def test_whoever_exhausts_his_budget_once_more_is_told_once_more() -> None:
    kept = format_record({WHOLE: RecordEntry(count=3, nodes=failures("n1"), revision="aaa")})

    def exhausted(name: str) -> RecoveryDecision:
        return decide(recorded(deployment_case(crashing(name, "n2", OWNER), replicas=1), kept))

    first, again = exhausted("web-a"), exhausted("web-b")
    assert reasons(first.events) == reasons(again.events) == ["RetriesExhausted"]
    assert {each.occasion for each in first.events}.isdisjoint(each.occasion for each in again.events)


def test_failed_pods_that_were_replaced_long_ago_cost_nothing() -> None:
    old = [failed(f"web-{number}", f"n{number}", OWNER, "Evicted", ago=1800) for number in range(1, 4)]
    found = decide(deployment_case(*old, pod("web-b", "n6", OWNER), replicas=1))
    assert (found.record, found.deletions, found.events) == (None, (), ())
    new = failed("web-9", "n5", OWNER, "Evicted", ago=30)
    assert names(decide(deployment_case(*old, new, replicas=1)).deletions) == ["web-9"]


def test_a_daemon_sets_pod_stays_whatever_becomes_of_its_node() -> None:
    agent = workload("DaemonSet", "agent")
    body = pod("agent-x", "n1", agent, conditions=[ready("False", 900), scheduled(9000)])
    for nodes in ({"n1": node("n1", "Unknown", 900)}, {}):
        found = decide(case(agent, body, nodes=nodes))
        assert (found.record, found.deletions, found.events) == (None, (), ())


def test_a_pod_that_is_ready_stays_while_its_node_is_being_registered_anew() -> None:
    found = decide(deployment_case(pod("web-a", "n9", OWNER), pod("web-b", "n2", OWNER)))
    assert found.deletions == ()


def test_it_is_not_said_to_be_the_workloads_fault_while_pods_have_yet_to_show_that_they_run() -> None:
    bad = [crashing(f"web-{number}", f"n{number}", OWNER) for number in range(1, 5)]
    young = pod("web-9", "n6", OWNER, conditions=[ready("True", 20), scheduled(20)])
    found = decide(deployment_case(*bad, young, replicas=5))
    assert (found.record, found.deletions, found.events) == (None, (), ())
    assert found.requeue_after == 40
    assert found.deferred == {f"uid-web-{number}" for number in range(1, 5)}


def test_nodes_that_failed_for_reasons_of_their_own_do_not_make_it_the_workloads_fault() -> None:
    mixed = {"n1": NodeFailure(NOW - 60, "NodeNotReady")}
    kept = format_record({WHOLE: RecordEntry(count=4, nodes=mixed, told="NoNodeLeft", revision="aaa")})
    places = frozenset({"n1", "n2"})
    seen = deployment_case(crashing("web-a", "n2", OWNER), replicas=1, retries="20", feasible_nodes=places)
    assert "NoNodeLeft" in reasons(decide(recorded(seen, kept)).events)


def test_a_bare_pod_stays_while_the_one_that_was_to_take_its_place_is_being_deleted() -> None:
    lone: Json = with_notes(crashing("lone"), {"scheduling-retries": "3"})
    seen = case(lone)
    seen = recorded(seen, decide(seen).record)
    made = decide(seen).creation
    assert made is not None
    leaving = copy.deepcopy(made) | {"status": {"phase": "Pending"}}
    leaving["metadata"] |= {"uid": "uid-copy", "deletionTimestamp": stamp(1), "resourceVersion": "3"}
    assert decide(replace(seen, replacement=leaving)).deletions == ()


def test_a_pod_that_came_back_to_a_node_that_was_recorded_waits_before_it_costs_another_retry() -> None:
    kept = format_record(
        {WHOLE: RecordEntry(count=1, nodes={"n1": NodeFailure(NOW - 60, "CrashLoopBackOff")}, revision="aaa")}
    )
    times: tuple[tuple[float, list[str], float | None], ...]
    times = ((10.0, [], 20.0), (40.0, ["web-a"], None), (61.0, ["web-a"], None), (90.0, ["web-a"], None))
    for made, deleted, wait in times:
        body = crashing("web-a", "n1", OWNER)
        body["metadata"]["creationTimestamp"] = stamp(made)
        found = decide(recorded(deployment_case(body, replicas=1), kept))
        assert names(found.deletions) == deleted, made
        if wait is not None:
            assert (found.record, found.requeue_after, *found.deferred) == (None, wait, "uid-web-a")
