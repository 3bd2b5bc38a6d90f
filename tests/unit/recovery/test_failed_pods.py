"""When a pod has failed, and when it has not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rescheduler.model.json import Json
from rescheduler.recovery.failed_pods import DetectedFailure, detect_failure, failure_kind, may_be_own_fault
from rescheduler.recovery.settings import RecoverySettings
from tests.unit.recovery.cases import NOW, container, crashing, ended, failed, node, pod, ready, scheduled, stamp

SETTINGS = RecoverySettings()
CRASH_LOOP = {"reason": "CrashLoopBackOff"}
NOT_READY = [ready("False"), scheduled(9_000)]


def judged(body: Json, where: Json | None = None, settings: RecoverySettings = SETTINGS) -> DetectedFailure | None:
    return detect_failure(body, where or node("n1"), settings, NOW)


def due(body: Json, where: Json | None = None) -> tuple[str, float] | None:
    found = judged(body, where)
    return None if found is None else (found.reason, found.due)


def starting(*statuses: Json, ago: float, **more: Any) -> Json:
    """A pod that was bound some time ago and has not started."""
    conditions = [ready("False", ago), scheduled(ago)]
    return pod("web-x", phase="Pending", conditions=conditions, containerStatuses=list(statuses), **more)


def test_a_pod_that_runs_well_has_not_failed() -> None:
    assert judged(pod("web-x")) is None


def test_a_crash_loop_counts_from_the_third_restart_on() -> None:
    assert judged(crashing(restarts=2)) is None
    assert due(crashing(restarts=3)) == ("CrashLoopBackOff", 0.0)


def test_a_crash_loop_is_told_with_container_exit_code_and_restarts() -> None:
    found = judged(crashing(restarts=4))
    assert found is not None
    assert found.message == "keeps crashing (container app, exit code 1, 4 restarts)"


def test_a_fresh_crash_loop_is_acted_upon_after_the_delay_and_at_once_when_it_crashed_again() -> None:
    assert due(crashing(restarts=3, ago=2)) == ("CrashLoopBackOff", 3.0)
    assert due(crashing(restarts=4, ago=2)) == ("CrashLoopBackOff", 0.0)


def test_a_crash_after_a_long_good_run_is_no_crash_loop_however_often_it_crashed_before() -> None:
    lately, long_run = {"exitCode": 255, "finishedAt": stamp(1)}, {"startedAt": stamp(20 * 86400)}
    short_run = {"startedAt": stamp(61)}
    for more, counts in ((long_run, False), (short_run, True)):
        for status in (
            container(restarts=9, terminated=lately | more),
            container(restarts=9, last=lately | more, waiting=CRASH_LOOP),
        ):
            body = pod("web-x", conditions=NOT_READY, containerStatuses=[status])
            assert (judged(body) is not None) is counts, status


def test_whoever_crashes_in_an_instant_is_in_a_crash_loop_also_right_after_a_restart() -> None:
    for ago, counts in ((1.0, True), (30.0, False)):
        again = container(restarts=9, last=ended(ago=ago), running={"startedAt": stamp(ago)})
        body = pod("web-x", conditions=NOT_READY, containerStatuses=[again])
        assert (judged(body) is not None) is counts, "a run that lasts may be a good one"


def test_an_init_container_that_is_at_work_may_take_its_time() -> None:
    waiting = container(waiting={"reason": "PodInitializing"})
    at_work = [container("first", running={"startedAt": stamp(3000)})]
    body = starting(waiting, ago=3100, initContainerStatuses=at_work)
    body["spec"]["initContainers"] = [{"name": "first"}]
    assert judged(body) is None
    body["spec"]["initContainers"] = [{"name": "first", "restartPolicy": "Always"}]
    assert due(body) == ("NotStarted", 0.0), "a sidecar does not prepare anything"


def test_a_container_that_was_just_terminated_again_is_in_a_crash_loop_too() -> None:
    statuses = [container(restarts=5, terminated=ended(code=137, ago=9, reason="OOMKilled"))]
    found = judged(pod("web-x", conditions=NOT_READY, containerStatuses=statuses))
    assert found is not None
    assert "exit code 137, OOMKilled" in found.message


def test_a_running_sidecar_does_not_hide_a_crash() -> None:
    statuses = [container("proxy", running={}), *crashing()["status"]["containerStatuses"]]
    assert due(pod("web-x", conditions=NOT_READY, containerStatuses=statuses)) == ("CrashLoopBackOff", 0.0)


@pytest.mark.parametrize("policy", [None, "Always"])
def test_init_containers_and_sidecars_count_when_they_crash(policy: str | None) -> None:
    statuses = [container("first", restarts=3, last=ended(), waiting=CRASH_LOOP)]
    waiting = container(waiting={"reason": "PodInitializing"})
    body = starting(waiting, ago=100, initContainerStatuses=statuses)
    body["spec"]["initContainers"] = [{"name": "first"} | ({"restartPolicy": policy} if policy else {})]
    assert due(body) == ("CrashLoopBackOff", 0.0)


def test_a_pod_that_is_ready_between_two_crashes_has_not_failed_now() -> None:
    statuses = [container(restarts=9, last=ended(), running={})]
    assert judged(pod("web-x", containerStatuses=statuses)) is None


@pytest.mark.parametrize("reason", ["Evicted", "OutOfcpu", "OutOfmemory", "NodeAffinity", "UnexpectedAdmissionError"])
def test_failed_pods_count_by_their_reason(reason: str) -> None:
    assert due(failed("web-x", reason=reason)) == (reason, 0.0)


def test_a_failed_pod_without_a_reason_has_an_exit_code() -> None:
    body = failed("web-x")
    body["status"]["containerStatuses"] = [container(terminated=ended(code=3))]
    assert judged(body) == DetectedFailure("Error", "failed (container app, exit code 3)")


def test_a_reason_that_is_not_configured_does_not_count_and_a_deadline_never_does() -> None:
    assert judged(failed("web-x", reason="Preempting")) is None
    everything = replace(SETTINGS, failed_reasons=("*",))
    assert judged(failed("web-x", reason="Preempting"), settings=everything) is not None
    assert judged(failed("web-x", reason="DeadlineExceeded"), settings=everything) is None


def test_a_pod_that_failed_long_ago_says_nothing_any_more() -> None:
    assert judged(failed("web-x", reason="Evicted", ago=SETTINGS.forget_after - 1)) is not None
    assert judged(failed("web-x", reason="Evicted", ago=SETTINGS.forget_after)) is None


def test_a_pod_that_was_turned_away_has_no_other_time_than_when_it_was_taken() -> None:
    body = failed("web-x", reason="OutOfcpu")
    body["status"] |= {"conditions": [], "startTime": stamp(3)}
    assert due(body) == ("OutOfcpu", 2.0)


def test_one_container_that_failed_for_good_fails_the_pod_while_another_runs() -> None:
    statuses = [container(terminated=ended(code=2)), container("proxy", running={})]
    body = pod("job-x", conditions=NOT_READY, containerStatuses=statuses)
    body["spec"] = {"nodeName": "n1", "restartPolicy": "Never", "containers": [{"name": "app"}, {"name": "proxy"}]}
    assert due(body) == ("Error", 0.0)
    assert judged(body, settings=replace(SETTINGS, failed_reasons=("Evicted",))) is None


def test_a_container_that_completed_beside_one_that_runs_is_no_failure() -> None:
    statuses = [container(terminated=ended(code=0)), container("proxy", running={})]
    body = pod("job-x", conditions=NOT_READY, containerStatuses=statuses)
    body["spec"] = {"nodeName": "n1", "restartPolicy": "Never", "containers": [{"name": "app"}, {"name": "proxy"}]}
    assert judged(body) is None


def test_a_container_with_restart_rules_of_its_own_is_not_given_up_after_one_exit() -> None:
    body = pod("job-x", conditions=NOT_READY, containerStatuses=[container(terminated=ended(code=2))])
    rules = {"name": "app", "restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}]}
    body["spec"] = {"nodeName": "n1", "restartPolicy": "Never", "containers": [rules]}
    assert judged(body) is None


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"])
def test_an_image_that_cannot_be_pulled_counts_after_its_timeout(reason: str) -> None:
    assert due(starting(container(waiting={"reason": reason}), ago=100)) == (reason, 20.0)
    assert due(starting(container(waiting={"reason": reason}), ago=120)) == (reason, 0.0)


def test_an_image_is_missed_since_the_container_ended_if_it_ran_before() -> None:
    statuses = [container(restarts=1, last=ended(ago=50), waiting={"reason": "ImagePullBackOff"})]
    assert due(pod("web-x", conditions=NOT_READY, containerStatuses=statuses)) == ("ImagePullBackOff", 70.0)


def test_a_name_that_no_image_can_have_is_the_workloads_own_fault() -> None:
    found = judged(starting(container(waiting={"reason": "InvalidImageName"}), ago=10))
    assert found is not None
    assert found.at_fault
    assert found.due == 0.0


def test_a_pod_that_does_not_start_in_time_has_failed() -> None:
    creating = container(waiting={"reason": "ContainerCreating"})
    assert due(starting(creating, ago=400)) == ("NotStarted", 200.0)
    found = judged(starting(creating, ago=700))
    assert found == DetectedFailure("NotStarted", "has not started for 600 s (app: ContainerCreating)")


def test_a_pod_that_its_kubelet_says_nothing_about_has_not_started_either() -> None:
    assert due(starting(ago=601)) == ("NotStarted", 0.0)


def test_a_pod_that_waits_for_a_node_has_not_failed() -> None:
    assert judged(pod("web-x", node="", phase="Pending", conditions=[], containerStatuses=[])) is None


def test_a_crash_loop_is_a_matter_of_restarts_and_not_of_starting_late() -> None:
    statuses = [container(restarts=1, last=ended(ago=5_000), waiting=CRASH_LOOP)]
    assert judged(pod("web-x", conditions=NOT_READY, containerStatuses=statuses)) is None


def test_a_pod_on_a_node_that_is_not_ready_has_failed_after_a_while() -> None:
    body = pod("web-x", conditions=NOT_READY)
    assert due(body, node("n1", "Unknown", ago=20)) == ("NodeNotReady", 40.0)
    assert due(body, node("n1", "False", ago=60)) == ("NodeNotReady", 0.0)


def test_a_pod_whose_node_is_gone_has_failed() -> None:
    found = detect_failure(pod("web-x", conditions=NOT_READY), None, SETTINGS, NOW)
    assert found is not None
    assert (found.reason, found.due) == ("NodeLost", 0.0)


def test_a_pod_that_is_ready_has_not_failed_whatever_its_node_says() -> None:
    assert judged(pod("web-x"), node("n1", "Unknown", ago=500)) is None


@pytest.mark.parametrize("phase", ["Succeeded", "Running"])
def test_pods_that_are_done_or_being_deleted_have_not_failed(phase: str) -> None:
    body = crashing()
    body["status"]["phase"] = phase
    if phase == "Running":
        body["metadata"]["deletionTimestamp"] = stamp(1)
    assert judged(body) is None


def test_a_clock_that_is_ahead_makes_nobody_wait_longer() -> None:
    assert due(crashing(ago=-300)) == ("CrashLoopBackOff", SETTINGS.delay)


def test_a_time_that_makes_no_sense_is_passed_over() -> None:
    body = crashing()
    body["status"]["containerStatuses"][0]["lastState"]["terminated"]["finishedAt"] = "yesterday"
    assert due(body) == ("CrashLoopBackOff", 0.0)


def test_only_crashes_images_and_starts_can_be_a_workloads_own_fault() -> None:
    assert failure_kind("Error") == failure_kind("CrashLoopBackOff")
    assert failure_kind("ErrImagePull") == failure_kind("ImagePullBackOff")
    assert [may_be_own_fault(each) for each in ("Error", "NotStarted", "Evicted", "NodeNotReady")] == [
        *(True, True),
        *(False, False),
    ]
