"""What is done about a workload's failed pods, told as stories; `test_deciding_kinds` has those of other kinds."""

from __future__ import annotations

import pytest

from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.recovery.avoidance import avoid_nodes
from rescheduler.recovery.decide import decide
from rescheduler.recovery.decision import RecoveryDecision
from rescheduler.recovery.decision import RecoveryReason as Reason
from rescheduler.recovery.record import WHOLE, NodeFailure, RecordEntry, format_record
from rescheduler.recovery.settings import RecoverySettings
from tests.support.pod_migrations import replace
from tests.unit.recovery.cases import (
    NODES,
    NOW,
    OWNER,
    case,
    container,
    crashing,
    deployment_case,
    entries,
    failed,
    known,
    later,
    names,
    node,
    pod,
    ready,
    reasons,
    recorded,
    replica_set,
    scheduled,
    stamp,
    with_notes,
    workload,
)


def of(name: str, on: str = "n1") -> Json:
    """A crashing pod of the Deployment."""
    return crashing(name, on, OWNER)


def well(name: str, on: str = "n2", ready_ago: float = 9_000) -> Json:
    return pod(name, on, OWNER, conditions=[ready("True", ready_ago)])


def stuck(name: str, owner: Json, *avoided: str, ago: float = 700) -> Json:
    """A pod that finds no place, and must avoid nodes."""
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": stamp(ago)}
    made = pod(name, "", owner, phase="Pending", conditions=[said], containerStatuses=[])
    made["spec"]["affinity"] = avoid_nodes(None, avoided)
    return made


def test_a_crashing_pod_is_counted_its_node_recorded_and_the_pod_deleted() -> None:
    decision = decide(deployment_case(of("web-a"), well("web-b")))
    assert names(decision.deletions) == ["web-a"]
    assert entries(decision) == {
        WHOLE: RecordEntry(
            count=1, nodes={"n1": NodeFailure(NOW, "CrashLoopBackOff")}, pending=("uid-web-a",), revision="aaa"
        )
    }
    assert decision.outcomes == ("rescheduled",)
    told = decision.events[0]
    assert (told.reason, told.regarding.kind, told.related.kind, told.warning) == (
        "PodRescheduled",
        "Deployment",
        "Pod",
        False,
    )
    assert told.note == (
        "pod shop/web-a on node n1 keeps crashing (container app, exit code 1, 3 restarts); "
        "it is recreated elsewhere (1 of 6)"
    )
    assert decision.events[1].regarding.kind == "Pod"


def test_after_a_crash_between_record_and_deletion_the_pod_is_deleted_and_not_counted_again() -> None:
    first = deployment_case(of("web-a"), well("web-b"))
    again = decide(recorded(first, decide(first).record))
    assert again == RecoveryDecision(deletions=(first.pods[0],), requeue_after=again.requeue_after)


def test_pods_that_are_gone_are_no_longer_pending() -> None:
    seen = recorded(deployment_case(well("web-b")), known(1, "n1", pending=("uid-web-a",)))
    assert entries(decide(seen))[WHOLE].pending == ()


def test_all_failing_pods_of_a_workload_are_handled_at_once() -> None:
    decision = decide(deployment_case(of("web-a", "n1"), of("web-b", "n2"), of("web-c", "n1"), replicas=3))
    assert names(decision.deletions) == ["web-a", "web-b", "web-c"]
    assert entries(decision)[WHOLE].count == 3
    assert set(entries(decision)[WHOLE].nodes) == {"n1", "n2"}


def test_a_flood_of_failures_is_handled_a_hundred_at_a_time() -> None:
    seen = deployment_case(*(of(f"web-{each:03}") for each in range(250)), well("web-x"), replicas=250)
    first = decide(seen)
    assert (len(first.deletions), first.requeue_after) == (100, 1.0)
    gone = set(names(first.deletions))
    rest = tuple(each for each in seen.pods if each["metadata"]["name"] not in gone)
    assert entries(decide(replace(recorded(seen, first.record), pods=rest)))[WHOLE].count == 200


def test_a_record_that_is_too_long_already_does_not_grow() -> None:
    pods = tuple(of(f"web-{each:05}-{'x' * 50}") for each in range(4_000))
    full = known(1, "n1", pending=tuple(each["metadata"]["uid"] for each in pods[:-1]))
    decision = decide(recorded(deployment_case(*pods, replicas=5_000), full))
    assert (len(decision.deletions), decision.record) == (3_999, None)


def test_without_the_annotation_nothing_is_done() -> None:
    deployment = workload("Deployment", retries=None)
    assert decide(case(deployment, of("web-a"), controllers=(replica_set(deployment),))) == RecoveryDecision()
    assert decide(deployment_case(of("web-a"), retries="0")) == RecoveryDecision()


def test_when_the_annotation_is_taken_off_the_record_goes_too() -> None:
    deployment = workload("Deployment", retries=None)
    seen = case(deployment, of("web-a"), controllers=(replica_set(deployment),))
    assert decide(recorded(seen, known(2, "n1"))) == RecoveryDecision(record="")


def test_switched_off_nothing_is_done() -> None:
    assert decide(deployment_case(of("web-a"), settings=RecoverySettings(enabled=False))) == RecoveryDecision()


def test_a_failure_that_is_too_young_is_waited_for() -> None:
    decision = decide(deployment_case(crashing("web-a", owner=OWNER, ago=2)))
    assert decision == RecoveryDecision(deferred=frozenset({"uid-web-a"}), requeue_after=3.0)


def test_an_annotation_that_makes_no_sense_is_told_and_nothing_done() -> None:
    decision = decide(deployment_case(of("web-a"), retries="many"))
    assert (decision.record, decision.deletions, reasons(decision.events)) == (None, (), [Reason.INVALID])
    assert "Deployment shop/web: annotation scheduling-retries: 'many'" in decision.events[0].note


def test_the_misspelt_annotation_works_and_is_told() -> None:
    deployment = with_notes(workload("Deployment", retries=None), {labels.MISSPELT_RETRIES: "3"})
    decision = decide(case(deployment, of("web-a"), controllers=(replica_set(deployment),)))
    assert reasons(decision.events) == [Reason.MISSPELT, Reason.RESCHEDULED]


def test_without_budget_the_pod_stays_and_people_are_told_once() -> None:
    seen = recorded(deployment_case(of("web-a", "n3")), known(6, "n1", "n2", revision="aaa"))
    decision = decide(seen)
    assert decision.deletions == ()
    assert entries(decision)[WHOLE].count == 6
    assert (reasons(decision.events), decision.outcomes) == ([Reason.EXHAUSTED], ("exhausted",))
    assert "it stays where it is: rescheduled 6 of 6 times" in decision.events[0].note
    assert decide(recorded(seen, decision.record)) == RecoveryDecision()


def test_budget_for_one_of_two_is_spent_on_one() -> None:
    seen = recorded(deployment_case(of("web-a", "n3"), of("web-b", "n4")), known(5, "n1"))
    decision = decide(seen)
    assert names(decision.deletions) == ["web-a"]
    assert entries(decision)[WHOLE].count == 6
    assert decision.outcomes == ("rescheduled", "exhausted")


def test_whoever_raises_the_budget_is_helped_again() -> None:
    seen = recorded(deployment_case(of("web-a", "n3"), retries="4"), known(6, "n1", told=Reason.EXHAUSTED))
    assert names(decide(seen).deletions) == ["web-a"]


def test_an_exhausted_budget_is_not_forgotten_while_pods_still_fail() -> None:
    record = known(6, "n1", ago=9_000, told=Reason.EXHAUSTED)
    assert decide(recorded(deployment_case(of("web-a")), record)) == RecoveryDecision()
    between = pod("web-a", owner=OWNER, conditions=[ready("True", 5)], containerStatuses=[container(restarts=9)])
    assert decide(recorded(deployment_case(between), record)).record is None


def test_old_failures_are_forgotten_and_the_count_with_them() -> None:
    seen = recorded(deployment_case(of("web-a", "n3")), known(5, "n1", ago=4_000))
    assert entries(decide(seen))[WHOLE].count == 1
    assert set(entries(decide(seen))[WHOLE].nodes) == {"n3"}


def test_when_it_failed_on_every_node_all_are_tried_again_and_the_count_stays() -> None:
    seen = recorded(
        deployment_case(of("web-a", "n3"), well("web-b"), feasible_nodes=frozenset({"n1", "n3"})), known(2, "n1")
    )
    decision = decide(seen)
    assert entries(decision)[WHOLE].nodes == {}
    assert entries(decision)[WHOLE].count == 3
    assert names(decision.deletions) == ["web-a"]
    assert reasons(decision.events) == [Reason.NO_NODE_LEFT, Reason.RESCHEDULED]
    assert decision.outcomes == ("no_node_left", "rescheduled")


def test_a_pod_that_no_node_could_take_stays_and_is_not_counted() -> None:
    decision = decide(deployment_case(of("web-a"), feasible_nodes=frozenset()))
    assert (decision.record, decision.deletions, decision.requeue_after) == (None, (), 10.0)
    assert reasons(decision.events) == [Reason.NO_NODE_LEFT]


def test_nodes_of_a_single_pod_count_for_that_pod() -> None:
    seen = replace(deployment_case(of("web-a"), well("web-b")), feasible_nodes={"uid-web-a": frozenset({"n1"})})
    assert decide(seen).outcomes == ("no_node_left", "rescheduled")


def test_a_failure_everywhere_is_the_workloads_own_fault_and_told_once() -> None:
    seen = recorded(deployment_case(of("web-a", "n4"), retries="9"), known(3, "n1", "n2", "n3", revision="aaa"))
    decision = decide(seen)
    assert decision.deletions == ()
    assert entries(decision)[WHOLE].count == 3
    assert (reasons(decision.events), decision.outcomes) == ([Reason.AT_FAULT], ("at_fault",))
    assert "failed on n1, n2, n3, n4" in decision.events[0].note
    assert decide(recorded(seen, decision.record)) == RecoveryDecision()


def test_pods_that_fail_on_many_nodes_at_once_are_not_even_tried() -> None:
    decision = decide(deployment_case(*(of(f"web-{each}", each) for each in NODES[:4]), replicas=4))
    assert (decision.deletions, decision.outcomes) == ((), ("at_fault",))


def test_a_pod_that_is_well_shows_that_the_workload_can_run() -> None:
    seen = recorded(deployment_case(of("web-a", "n4"), well("web-b")), known(3, "n1", "n2", "n3"))
    assert names(decide(seen).deletions) == ["web-a"]


def test_a_pod_that_is_ready_between_two_crashes_shows_nothing() -> None:
    between = pod("web-b", "n5", OWNER, conditions=[ready("True", 5)], containerStatuses=[container(restarts=9)])
    seen = recorded(deployment_case(of("web-a", "n4"), between), known(3, "n1", "n2", "n3"))
    assert decide(seen).outcomes == ("at_fault",)


def test_failures_of_different_kinds_are_nobodys_fault() -> None:
    record = {
        name: NodeFailure(NOW - 60, reason)
        for name, reason in zip(NODES, ("Evicted", "NotStarted", "Error"), strict=False)
    }
    seen = recorded(deployment_case(of("web-a", "n4")), format_record({WHOLE: RecordEntry(count=3, nodes=record)}))
    assert names(decide(seen).deletions) == ["web-a"]


def test_nodes_that_go_away_are_never_the_workloads_fault() -> None:
    lost = [pod(f"web-{each}", each, OWNER, conditions=[ready("False")]) for each in NODES[:4]]
    unready = {each: node(each, "Unknown", ago=100) for each in NODES[:4]} | {each: node(each) for each in NODES[4:]}
    decision = decide(deployment_case(*lost, nodes=unready, unready_share=0.4))
    assert len(decision.deletions) == 4


def test_two_ends_of_one_workload_are_each_told_once() -> None:
    waiting = container(waiting={"reason": "InvalidImageName"})
    bad = pod("web-b", "n5", OWNER, phase="Pending", conditions=[scheduled(50)], containerStatuses=[waiting])
    seen = recorded(deployment_case(of("web-a", "n3"), bad), known(6, "n1", revision="aaa"))
    decision = decide(seen)
    assert decision.outcomes == ("exhausted", "at_fault")
    assert decide(recorded(seen, decision.record)) == RecoveryDecision()


def test_an_impossible_image_is_the_workloads_fault_at_once() -> None:
    waiting = container(waiting={"reason": "InvalidImageName"})
    body = pod("web-a", "n1", OWNER, phase="Pending", conditions=[scheduled(50)], containerStatuses=[waiting])
    seen = deployment_case(body, well("web-b"))
    decision = decide(seen)
    assert decision.outcomes == ("at_fault",)
    assert decide(recorded(seen, decision.record)).outcomes == ()


def test_a_new_template_starts_anew_and_old_pods_are_left_to_the_rollout() -> None:
    deployment = workload("Deployment", replicas=2)
    old, new = replica_set(deployment), replica_set(deployment, "bbb", 2)
    seen = case(deployment, crashing("web-a", "n4", old), crashing("web-b", "n5", new), controllers=(old, new))
    record = known(6, "n1", "n2", "n3", told=Reason.AT_FAULT, revision="aaa", pending=("uid-web-a",))
    decision = decide(recorded(seen, record))
    assert names(decision.deletions) == ["web-b"]
    assert entries(decision)[WHOLE] == RecordEntry(
        count=1, nodes={"n5": NodeFailure(NOW, "CrashLoopBackOff")}, pending=("uid-web-b",), revision="bbb"
    )


def test_a_rollback_is_a_new_template_too() -> None:
    deployment = workload("Deployment", replicas=2)
    back, bad = replica_set(deployment, "aaa", 3), replica_set(deployment, "bbb", 2)
    seen = case(deployment, crashing("web-b", "n5", bad), controllers=(back, bad))
    assert decide(recorded(seen, known(6, "n1", told=Reason.AT_FAULT, revision="bbb"))) == RecoveryDecision(record="")


def test_a_healthy_workload_starts_with_a_clean_record() -> None:
    seen = recorded(deployment_case(well("web-a", ready_ago=700), well("web-b")), known(2, "n1", ago=800))
    decision = decide(seen)
    assert decision.record == ""
    assert (reasons(decision.events), decision.outcomes) == ([Reason.RECOVERED], ("recovered",))
    assert decision.events[0].note == "all pods: well again for 600 s, after 2 retries"


def test_a_workload_that_is_not_well_for_long_enough_is_looked_at_when_it_will_be() -> None:
    seen = recorded(deployment_case(well("web-a", ready_ago=100), well("web-b")), known(2, "n1", ago=800))
    assert decide(seen) == RecoveryDecision(requeue_after=500.0)


def test_a_failure_beside_pods_that_are_all_well_is_not_cleared_at_once() -> None:
    seen = deployment_case(well("web-a"), well("web-b"), failed("web-c", "n3", OWNER, "Evicted"))
    decision = decide(seen)
    assert names(decision.deletions) == ["web-c"]
    assert entries(decision)[WHOLE].count == 1
    gone = replace(recorded(seen, decision.record), pods=seen.pods[:2])
    assert entries(decide(gone))[WHOLE].count == 1
    assert decide(gone).requeue_after == 600.0
    assert decide(replace(gone, now=NOW + 600)).record == ""


def test_a_workload_with_fewer_pods_than_it_wants_has_not_recovered() -> None:
    seen = recorded(deployment_case(well("web-a")), known(2, "n1"))
    assert decide(seen).record is None


def test_copies_of_the_record_on_replica_sets_go_with_it() -> None:
    seen = recorded(deployment_case(well("web-a"), well("web-b")), known(2, "n1", ago=800))
    copied = with_notes(seen.controllers[0], {labels.FAILURES: known(2, "n1")})
    seen = replace(seen, controllers=(copied,))
    assert decide(seen).stale_copies == (copied,)
    still = replace(seen, pods=(of("web-a", "n2"),))
    assert decide(still).stale_copies == ()


def test_a_pod_that_a_guard_protects_is_left_alone_and_that_is_told() -> None:
    decision = decide(deployment_case(of("web-a"), objections={"uid-web-a": "it is opted out"}))
    assert (decision.record, decision.deletions, reasons(decision.events)) == (None, (), [Reason.REFUSED])


@pytest.mark.parametrize("status", ["pending", "in-progress"])
def test_a_pod_that_is_being_moved_is_left_to_its_migration(status: str) -> None:
    body = of("web-a")
    body["metadata"]["labels"][labels.MIGRATION_STATUS] = status
    assert decide(deployment_case(body)) == RecoveryDecision(requeue_after=10.0)


def test_when_most_nodes_are_away_it_is_not_they_who_failed() -> None:
    seen = deployment_case(
        pod("web-a", "n1", OWNER, conditions=[ready("False")]),
        nodes={"n1": node("n1", "Unknown", ago=600)},
        unready_share=0.6,
    )
    decision = decide(seen)
    assert (decision.deletions, decision.requeue_after, reasons(decision.events)) == (
        (),
        60.0,
        [Reason.DOUBTED],
    )
    assert "60% of all nodes are not ready" in decision.events[0].note
    assert names(decide(replace(seen, unready_share=0.5)).deletions) == ["web-a"]


def test_a_record_that_cannot_be_read_is_told_and_started_anew() -> None:
    seen = recorded(deployment_case(of("web-a")), "{broken")
    decision = decide(seen)
    assert entries(decision)[WHOLE].count == 1
    assert reasons(decision.events) == [Reason.UNREADABLE, Reason.RESCHEDULED]
    assert decision.outcomes == ("unreadable", "rescheduled")
    assert decide(recorded(deployment_case(well("web-a")), "[]")).record == ""


def test_a_pod_that_finds_no_place_for_our_sake_is_made_again_without_nodes_to_avoid() -> None:
    seen = recorded(deployment_case(stuck("web-c", OWNER, "n1", "n2")), known(2, "n1", "n2", revision="aaa"))
    decision = decide(seen)
    assert names(decision.deletions) == ["web-c"]
    assert entries(decision)[WHOLE] == RecordEntry(count=2, pending=("uid-web-c",), revision="aaa")
    assert (reasons(decision.events), decision.outcomes) == ([Reason.NO_NODE_LEFT], ("no_node_left",))
    again = decide(recorded(seen, decision.record))
    assert again == RecoveryDecision(deletions=seen.pods)


def test_a_pod_that_finds_no_place_for_other_reasons_waits_for_one() -> None:
    record = known(2, "n1", "n2")
    assert not decide(recorded(deployment_case(stuck("web-c", OWNER)), record)).deletions
    young = deployment_case(stuck("web-c", OWNER, "n1", ago=100))
    assert not decide(recorded(young, record)).deletions
    assert decide(recorded(young, record)).requeue_after == 500.0
    cordoned = deployment_case(stuck("web-c", OWNER, "n1", "n2"), feasible_nodes=frozenset({"n5"}))
    assert not decide(recorded(cordoned, record)).deletions


def test_nodes_that_the_template_itself_refuses_are_none_of_ours() -> None:
    seen = recorded(deployment_case(stuck("web-c", OWNER, "n1")), known(2, "n1"))
    seen.controllers[0]["spec"]["template"]["spec"]["affinity"] = avoid_nodes(None, ["n1"])
    assert not decide(seen).deletions


def test_other_annotations_are_nobodys_business() -> None:
    seen = deployment_case(of("web-a"))
    decide(seen)
    assert seen.workload["metadata"]["annotations"] == {"team": "blue", labels.SCHEDULING_RETRIES: "3"}


def test_the_whole_story_of_a_deployment_that_recovers() -> None:
    seen = deployment_case(of("web-a"), well("web-b"))
    first = decide(seen)
    seen = later(recorded(seen, first.record), 30, crashing("web-c", "n2", OWNER, ago=-10), well("web-b"))
    second = decide(seen)
    assert entries(second)[WHOLE].count == 2
    assert entries(second)[WHOLE].pending == ("uid-web-c",)
    seen = later(recorded(seen, second.record), 700, well("web-d", "n3", ready_ago=0), well("web-b"))
    assert decide(seen).record == ""
