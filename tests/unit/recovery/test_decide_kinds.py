"""What is done about failed pods of StatefulSets, DaemonSets, Jobs and CronJobs, told as stories."""

from __future__ import annotations

from dataclasses import replace

from rescheduler.recovery.decide import decide
from rescheduler.recovery.decision import RecoveryDecision
from rescheduler.recovery.decision import RecoveryReason as Reason
from rescheduler.recovery.record import WHOLE, NodeFailure, RecordEntry, format_record
from tests.unit.recovery.cases import (
    NOW,
    case,
    crashing,
    entries,
    failed,
    known,
    names,
    pod,
    ready,
    reasons,
    recorded,
    stamp,
    workload,
)


def test_a_stateful_set_has_an_entry_for_each_pod_and_others_stay_untouched() -> None:
    stateful = workload("StatefulSet", replicas=3)
    other = RecordEntry(count=2, nodes={"n5": NodeFailure(NOW - 50, "Evicted")})
    seen = recorded(case(stateful, crashing("web-1", "n2", stateful)), format_record({"web-0": other}))
    decision = decide(seen)
    assert entries(decision)["web-0"] == other
    assert entries(decision)["web-1"].count == 1
    assert "(1 of 3)" in decision.events[0].note


def test_a_stateful_sets_pod_that_is_well_again_is_cleared_alone() -> None:
    stateful = workload("StatefulSet", replicas=2)
    record = {
        name: RecordEntry(count=1, nodes={"n5": NodeFailure(NOW - 900, "Evicted")}) for name in ("web-0", "web-1")
    }
    seen = recorded(
        case(stateful, pod("web-0", "n1", stateful), crashing("web-1", "n2", stateful)), format_record(record)
    )
    decision = decide(seen)
    assert set(entries(decision)) == {"web-1"}
    assert Reason.RECOVERED in reasons(decision.events)


def test_a_stateful_sets_pod_of_a_new_template_starts_anew() -> None:
    stateful = workload("StatefulSet", replicas=2)
    body = crashing("web-0", "n2", stateful)
    body["metadata"]["labels"] = {"controller-revision-hash": "web-2"}
    seen = recorded(
        case(stateful, body),
        format_record({"web-0": RecordEntry(count=3, revision="web-1", told=Reason.EXHAUSTED)}),
    )
    assert entries(decide(seen))["web-0"].count == 1


def test_a_failed_pod_that_its_controller_deleted_first_is_counted_all_the_same() -> None:
    stateful = workload("StatefulSet", replicas=2)
    gone = failed("web-1", "n2", stateful, reason="OutOfcpu")
    seen = case(stateful, pod("web-0", "n1", stateful), vanished=(gone,))
    decision = decide(seen)
    assert decision.deletions == ()
    assert entries(decision)["web-1"].count == 1
    assert set(entries(decision)["web-1"].nodes) == {"n2"}
    assert decide(recorded(seen, decision.record)).record is None
    assert entries(decide(recorded(replace(seen, vanished=()), decision.record)))["web-1"].count == 1


def test_a_pod_that_is_gone_anyway_is_counted_also_where_no_node_could_take_it() -> None:
    stateful = workload("StatefulSet", replicas=1)
    for places, nodes in ((frozenset[str](), {"n2"}), (frozenset({"n2"}), set[str]())):
        gone = failed("web-0", "n2", stateful, reason="OutOfcpu")
        decision = decide(case(stateful, vanished=(gone,), feasible_nodes=places))
        assert entries(decision)["web-0"].count == 1
        assert set(entries(decision)["web-0"].nodes) == nodes, "where all have been tried, all are tried again"
        kept = decide(case(stateful, gone, feasible_nodes=places))
        assert (kept.record is None) is ("uid-web-0" in kept.deferred) is (not places)


def test_a_pod_that_is_leaving_is_counted_if_it_had_failed_before() -> None:
    stateful = workload("StatefulSet", replicas=1)
    fell, leaving = (failed("web-0", "n2", stateful, reason="OutOfcpu") for _ in range(2))
    leaving["metadata"]["deletionTimestamp"] = stamp(1)
    assert decide(case(stateful, leaving)).record is None
    decision = decide(case(stateful, leaving, vanished=(fell,)))
    assert (entries(decision)["web-0"].count, decision.deletions) == (1, ())


def test_failures_that_are_decided_about_later_are_named() -> None:
    stateful = workload("StatefulSet", replicas=150)
    fell = tuple(failed(f"web-{number:03}", "n2", stateful, reason="OutOfcpu") for number in range(150))
    young = failed("web-200", "n2", stateful, reason="OutOfcpu", ago=1)
    done = failed("web-300", "n2", stateful, reason="DeadlineExceeded")
    decision = decide(case(stateful, vanished=(*fell, young, done)))
    counted = {uid for entry in entries(decision).values() for uid in entry.pending}
    assert len(counted) == 100
    assert decision.deferred == {each["metadata"]["uid"] for each in (*fell, young)} - counted


def test_a_daemon_sets_pod_is_restarted_where_it_is() -> None:
    daemon = workload("DaemonSet")
    decision = decide(
        case(daemon, crashing("agent-a", "n2", daemon), pod("agent-b", "n3", daemon), feasible_nodes=frozenset())
    )
    assert names(decision.deletions) == ["agent-a"]
    assert entries(decision)["n2"].count == 1
    assert (reasons(decision.events), decision.outcomes) == ([Reason.RESTARTED], ("restarted",))


def test_a_failed_pod_of_a_job_is_recorded_and_stays() -> None:
    job = workload("Job", parallelism=1)
    seen = case(job, failed("sum-a", "n2", job))
    decision = decide(seen)
    assert decision.deletions == ()
    assert set(entries(decision)[WHOLE].nodes) == {"n2"}
    again = decide(recorded(seen, decision.record))
    assert (again.record, again.deletions, again.events) == (None, (), ())


def test_a_job_that_was_cleared_does_not_count_its_old_failures_again() -> None:
    job = workload("Job", parallelism=1)
    old = failed("sum-a", "n2", job, ago=700)
    running = pod("sum-b", "n3", job, conditions=[ready("True", 650)])
    cleared = decide(recorded(case(job, old, running), known(1, "n2", ago=690, pending=("uid-sum-a",))))
    assert cleared.record == ""
    assert decide(case(job, old, running)).record is None


def test_a_jobs_crashing_pod_is_deleted_only_if_the_job_goes_on() -> None:
    job = workload("Job", parallelism=1)
    assert names(decide(case(job, crashing("sum-a", "n2", job))).deletions) == ["sum-a"]
    job["spec"]["backoffLimit"] = 0
    decision = decide(case(job, crashing("sum-a", "n2", job)))
    assert (decision.record, decision.deletions) == (None, ())
    assert reasons(decision.events) == [Reason.REFUSED]
    assert "backoffLimit is 0" in decision.events[0].note


def test_of_several_crashing_pods_of_a_job_no_more_go_than_the_job_can_bear() -> None:
    job = workload("Job", parallelism=3, backoffLimit=2)
    decision = decide(case(job, *(crashing(f"sum-{each}", "n2", job) for each in "abc")))
    assert names(decision.deletions) == ["sum-a", "sum-b"]
    assert entries(decision)[WHOLE].count == 2


def test_pods_of_a_finished_job_are_left_alone_and_a_complete_one_is_cleared() -> None:
    job = workload("Job", parallelism=1)
    job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    assert decide(case(job, failed("sum-a", "n2", job))) == RecoveryDecision()
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    for count, retries in ((1, "1 retry"), (2, "2 retries")):
        decision = decide(recorded(case(job, failed("sum-a", "n2", job)), known(count, "n2")))
        assert (decision.record, decision.outcomes) == ("", ("recovered",))
        assert decision.events[0].note == f"the Job has completed, after {retries}"


def test_a_cron_jobs_record_lasts_until_a_job_completes_after_the_failures() -> None:
    cron = workload("CronJob", "nightly", jobTemplate={"spec": {"parallelism": 1}})
    job = workload("Job", "nightly-1", retries=None)
    decision = decide(case(cron, crashing("nightly-1-a", "n2", job), controllers=(job,)))
    assert set(entries(decision)[WHOLE].nodes) == {"n2"}
    done = workload("Job", "nightly-2", retries=None)
    for ago, cleared in ((600, False), (10, True)):
        completed = {"conditions": [{"type": "Complete", "status": "True"}], "completionTime": stamp(ago)}
        seen = recorded(case(cron, controllers=(done | {"status": completed},)), known(1, "n2", ago=60))
        decision = decide(seen)
        assert (decision.record == "") is cleared
        assert [each.note for each in decision.events] == ["the last Job has completed, after 1 retry"] * cleared


def test_a_cron_job_with_another_template_starts_anew() -> None:
    cron = workload("CronJob", "nightly", jobTemplate={"spec": {"parallelism": 1}})
    job = workload("Job", "nightly-1", retries=None)
    first = case(cron, crashing("nightly-1-a", "n2", job), controllers=(job,))
    seen = recorded(first, decide(first).record)
    seen.workload["spec"]["jobTemplate"] = {"spec": {"parallelism": 1, "backoffLimit": 3}}
    assert decide(replace(seen, pods=())).record == ""
