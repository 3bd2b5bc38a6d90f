"""Jobs of the embedded cluster: how many pods run, how those that end are counted, and how the Job itself ends."""

import asyncio
from typing import Any

import pytest

from rescheduler.embedded import clock
from rescheduler.embedded.api import Target
from rescheduler.embedded.controllers.garbage import GarbageController
from rescheduler.embedded.controllers.job import JobController
from rescheduler.embedded.controllers.job_indexes import format_indexes, parse_indexes
from rescheduler.embedded.controllers.job_plan import Backoff
from rescheduler.embedded.controllers.job_pods import TRACKING
from rescheduler.embedded.kinds import JOB, POD
from rescheduler.embedded.refusals import Json
from rescheduler.embedded.store import Change
from tests.unit.embedded.controllers_at_work import IMAGE, SPACE, Cluster, at_work, condition

INDEX = "batch.kubernetes.io/job-completion-index"


async def job(cluster: Cluster, restart: str = "Never", **spec: Any) -> Json:
    template = {"spec": {"containers": [{"name": "main", "image": IMAGE}], "restartPolicy": restart}}
    made = await cluster.make(JOB, "work", {"spec": {"template": template} | spec})
    await cluster.settled()
    return made


def pods(cluster: Cluster, *phases: str) -> list[str]:
    """The names of pods that stay, in these phases; by default those at work."""
    wanted = phases or ("Pending", "Running")
    found = [pod for pod in cluster.all(POD) if "deletionTimestamp" not in pod["metadata"]]
    return [pod["metadata"]["name"] for pod in found if pod["status"]["phase"] in wanted]


async def bind_all(cluster: Cluster) -> None:
    for entry in cluster.store.entries(POD):
        body = entry.object()
        if not body["spec"].get("nodeName") and not entry.deleting:
            body["spec"]["nodeName"] = "a"
            cluster.store.replace(POD, body, entry.version)
    await cluster.settled()


async def end(cluster: Cluster, name: str, phase: str = "Succeeded", code: int | None = None) -> None:
    """A pod runs to its end."""
    finished = clock.stamp(clock.now())
    code = (0 if phase == "Succeeded" else 1) if code is None else code
    state = {"terminated": {"exitCode": code, "finishedAt": finished}}
    container = {"name": "main", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0, "state": state}
    await cluster.says(POD, name, phase=phase, containerStatuses=[container])
    await cluster.settled()


def status(cluster: Cluster) -> Json:
    found: Json = cluster.get(JOB, "work")["status"]
    return found


def conditions(cluster: Cluster) -> dict[str, str]:
    """Those that hold, and why."""
    return {each["type"]: each["reason"] for each in status(cluster).get("conditions", ()) if each["status"] == "True"}


def counts(cluster: Cluster) -> tuple[int, int, int]:
    """Active, succeeded, failed."""
    found = status(cluster)
    return (found.get("active", 0), found.get("succeeded", 0), found.get("failed", 0))


@pytest.mark.parametrize(
    ("indexes", "text"), [([], ""), ([0], "0"), ([0, 1], "0,1"), ([2, 1, 0, 5], "0-2,5"), ([3, 4, 9], "3,4,9")]
)
def test_indexes_are_written_as_the_real_one_writes_them(indexes: list[int], text: str) -> None:
    assert format_indexes(indexes) == text
    assert parse_indexes(text, 100) == set(indexes)


def test_indexes_that_make_no_sense_or_are_too_many_are_passed_over() -> None:
    assert parse_indexes("0-2,x,7-,5-9", 7) == {0, 1, 2, 5, 6}


def test_each_failure_in_a_row_doubles_the_wait() -> None:
    assert Backoff().wait(10, 100) == 0
    assert [Backoff(failures, 100.0).wait(10, 100) for failures in (1, 2, 3, 7, 50)] == [10, 20, 40, 600, 600]
    assert Backoff(1, 100.0).wait(10, 105) == 5
    assert Backoff(1, 100.0).wait(10, 111) == 0


@at_work(JobController)
async def test_a_pod_is_made_like_the_real_one_makes_them(cluster: Cluster) -> None:
    made = await job(cluster)
    (pod,) = cluster.all(POD)
    assert pod["metadata"]["generateName"] == "work-"
    assert pod["metadata"]["finalizers"] == [TRACKING]
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "work"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert status(cluster) == {
        "active": 1,
        "ready": 0,
        "startTime": made["metadata"]["creationTimestamp"],
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }


@at_work(JobController)
async def test_a_job_completes_with_its_last_pod(cluster: Cluster) -> None:
    await job(cluster, completions=3, parallelism=2)
    assert len(pods(cluster)) == 2
    await bind_all(cluster)
    first, second = pods(cluster)
    await cluster.runs(first)
    await cluster.settled()
    assert status(cluster)["ready"] == 1
    await end(cluster, first)
    assert counts(cluster) == (2, 1, 0)
    await end(cluster, second)
    (third,) = pods(cluster)
    assert counts(cluster) == (1, 2, 0)
    assert conditions(cluster) == {}
    await end(cluster, third)
    assert counts(cluster) == (0, 3, 0)
    assert conditions(cluster) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
    assert status(cluster)["completionTime"]
    assert status(cluster)["uncountedTerminatedPods"] == {}
    assert len(pods(cluster, "Succeeded")) == 3
    assert all("finalizers" not in pod["metadata"] for pod in cluster.all(POD))
    assert cluster.events("work") == ["SuccessfulCreate"] * 3 + ["Completed"]


@at_work(JobController)
async def test_pods_are_named_in_the_status_before_they_lose_their_finalizer(cluster: Cluster) -> None:
    seen: list[tuple[str, Any]] = []

    def note(change: Change) -> None:
        body = change.entry.object()
        if change.kind.name == "Job":
            seen.append(("job", body.get("status", {}).get("uncountedTerminatedPods")))
        else:
            seen.append(("pod", body["metadata"].get("finalizers")))

    await job(cluster)
    (name,) = pods(cluster)
    uid = cluster.get(POD, name)["metadata"]["uid"]
    cluster.store.subscribe(note, JOB, POD)
    await end(cluster, name)
    assert seen == [
        ("pod", [TRACKING]),
        ("job", {"succeeded": [uid]}),
        ("pod", None),
        ("job", {}),
    ]


@at_work(JobController)
async def test_indexed_pods_have_an_index_each(cluster: Cluster) -> None:
    await job(cluster, completions=3, parallelism=3, completionMode="Indexed")
    found = {pod["metadata"]["annotations"][INDEX]: pod for pod in cluster.all(POD)}
    assert sorted(found) == ["0", "1", "2"]
    pod = found["1"]
    assert pod["metadata"]["generateName"] == "work-1-"
    assert pod["metadata"]["labels"][INDEX] == "1"
    assert pod["spec"]["hostname"] == "work-1"
    (told,) = pod["spec"]["containers"][0]["env"]
    assert told["name"] == "JOB_COMPLETION_INDEX"
    assert told["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
    for index in ("2", "0"):
        await end(cluster, found[index]["metadata"]["name"])
    assert status(cluster)["completedIndexes"] == "0,2"
    await end(cluster, pod["metadata"]["name"])
    assert (status(cluster)["completedIndexes"], status(cluster)["succeeded"]) == ("0-2", 3)
    assert "Complete" in conditions(cluster)


@at_work(JobController)
async def test_an_index_that_failed_is_tried_again(cluster: Cluster) -> None:
    await job(cluster, completions=2, parallelism=2, completionMode="Indexed")
    (first, _) = pods(cluster)
    index = cluster.get(POD, first)["metadata"]["annotations"][INDEX]
    await end(cluster, first, "Failed")
    assert counts(cluster) == (1, 0, 1)
    await asyncio.sleep(11)
    again = [pod for pod in cluster.all(POD) if pod["metadata"]["annotations"][INDEX] == index]
    assert sorted(pod["status"]["phase"] for pod in again) == ["Failed", "Pending"]


@at_work(JobController)
async def test_two_pods_of_one_index_are_one_too_many(cluster: Cluster) -> None:
    await job(cluster, completions=2, parallelism=2, completionMode="Indexed")
    twin = cluster.all(POD)[0]
    twin["metadata"] = {
        key: twin["metadata"][key] for key in ("labels", "annotations", "ownerReferences", "finalizers")
    }
    await cluster.make(POD, "twin", {"metadata": twin["metadata"], "spec": twin["spec"]})
    await cluster.settled()
    assert sorted(pod["metadata"]["annotations"][INDEX] for pod in cluster.all(POD)) == ["0", "1"]


@at_work(JobController)
async def test_a_failed_pod_is_replaced_after_ten_seconds_and_then_ever_later(cluster: Cluster) -> None:
    await job(cluster)
    for wait in (10, 20, 40):
        (name,) = pods(cluster)
        await end(cluster, name, "Failed")
        await asyncio.sleep(wait - 1)
        assert pods(cluster) == []
        await asyncio.sleep(2)
        assert len(pods(cluster)) == 1
    assert counts(cluster) == (1, 0, 3)


@at_work(JobController)
async def test_a_job_fails_when_its_pods_have_failed_too_often(cluster: Cluster) -> None:
    await job(cluster, backoffLimit=1, parallelism=3, completions=3)
    await bind_all(cluster)
    first, second, third = pods(cluster)
    await cluster.runs(third)
    await end(cluster, first, "Failed")
    assert conditions(cluster) == {}
    await end(cluster, second, "Failed")
    assert conditions(cluster) == {"FailureTarget": "BackoffLimitExceeded"}
    assert status(cluster)["terminating"] == 1
    assert "deletionTimestamp" in cluster.get(POD, third)["metadata"]
    assert "finalizers" not in cluster.get(POD, third)["metadata"]
    await cluster.ends(third)
    await cluster.settled()
    assert conditions(cluster) == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    assert counts(cluster) == (0, 0, 3)
    assert cluster.events("work")[-1] == "BackoffLimitExceeded"
    await asyncio.sleep(1000)
    assert pods(cluster) == []


@at_work(JobController)
async def test_restarts_count_where_pods_restart_their_containers(cluster: Cluster) -> None:
    await job(cluster, "OnFailure", backoffLimit=2)
    await bind_all(cluster)
    (name,) = pods(cluster)
    for restarts, fails in ((1, False), (2, True)):
        container = {
            "name": "main",
            "image": IMAGE,
            "imageID": "",
            "ready": False,
            "restartCount": restarts,
            "state": {},
        }
        await cluster.says(POD, name, phase="Running", containerStatuses=[container])
        await cluster.settled()
        assert ("FailureTarget" in conditions(cluster)) is fails


@at_work(JobController)
async def test_an_evicted_pod_is_replaced_and_counts_as_failed(cluster: Cluster) -> None:
    await job(cluster)
    await bind_all(cluster)
    (name,) = pods(cluster)
    await cluster.runs(name)
    await cluster.delete(POD, name)
    await cluster.settled()
    assert counts(cluster) == (0, 0, 1)
    assert status(cluster)["terminating"] == 1
    await asyncio.sleep(11)
    assert len(pods(cluster)) == 1
    await cluster.ends(name)
    await cluster.settled()
    assert cluster.find(POD, name) is None
    assert counts(cluster) == (1, 0, 1)


@at_work(JobController)
async def test_a_job_may_want_to_wait_until_a_pod_has_ended(cluster: Cluster) -> None:
    await job(cluster, podReplacementPolicy="Failed")
    await bind_all(cluster)
    (name,) = pods(cluster)
    await cluster.runs(name)
    await cluster.delete(POD, name)
    await asyncio.sleep(60)
    assert counts(cluster) == (0, 0, 0)
    assert pods(cluster) == []
    await end(cluster, name, "Failed")
    await asyncio.sleep(11)
    assert counts(cluster) == (1, 0, 1)


@at_work(JobController)
async def test_failures_that_a_policy_ignores_do_not_count(cluster: Cluster) -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    await job(cluster, backoffLimit=0, podFailurePolicy={"rules": rules})
    await bind_all(cluster)
    (name,) = pods(cluster)
    said = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": clock.stamp(clock.now())}
    await cluster.says(POD, name, phase="Running", conditions=[said])
    await end(cluster, name, "Failed")
    assert counts(cluster)[2] == 0
    assert conditions(cluster) == {}
    assert "finalizers" not in cluster.get(POD, name)["metadata"]
    await asyncio.sleep(11)
    assert len(pods(cluster)) == 1


@at_work(JobController)
async def test_a_policy_may_end_the_job_with_the_first_failure(cluster: Cluster) -> None:
    codes = {"operator": "In", "values": [42]}
    await job(cluster, podFailurePolicy={"rules": [{"action": "FailJob", "onExitCodes": codes}]})
    (name,) = pods(cluster)
    await end(cluster, name, "Failed", 42)
    assert conditions(cluster) == {"FailureTarget": "PodFailurePolicy", "Failed": "PodFailurePolicy"}
    message = condition(cluster.get(JOB, "work"), "Failed")["message"]
    assert message == (
        f"Container main for pod {SPACE}/{name} failed with exit code 42 matching FailJob rule at index 0"
    )


@at_work(JobController)
async def test_a_policy_may_be_content_with_some_indexes(cluster: Cluster) -> None:
    policy = {"rules": [{"succeededIndexes": "0,2", "succeededCount": 1}]}
    await job(cluster, completions=3, parallelism=3, completionMode="Indexed", successPolicy=policy)
    found = {pod["metadata"]["annotations"][INDEX]: pod["metadata"]["name"] for pod in cluster.all(POD)}
    await end(cluster, found["1"])
    assert conditions(cluster) == {}
    await end(cluster, found["2"])
    assert conditions(cluster) == {"SuccessCriteriaMet": "SuccessPolicy", "Complete": "SuccessPolicy"}
    assert counts(cluster) == (0, 2, 0)


@at_work(JobController)
async def test_a_deadline_ends_the_job(cluster: Cluster) -> None:
    await job(cluster, activeDeadlineSeconds=100)
    await asyncio.sleep(99)
    assert conditions(cluster) == {}
    await asyncio.sleep(2)
    assert conditions(cluster) == {"FailureTarget": "DeadlineExceeded", "Failed": "DeadlineExceeded"}
    assert counts(cluster) == (0, 0, 1)
    assert cluster.all(POD) == []


@at_work(JobController)
async def test_a_suspended_job_has_no_pods_and_its_deadline_stands_still(cluster: Cluster) -> None:
    await job(cluster, suspend=True, activeDeadlineSeconds=100)
    assert pods(cluster) == []
    assert conditions(cluster) == {"Suspended": "JobSuspended"}
    assert "startTime" not in status(cluster)
    await asyncio.sleep(500)
    await cluster.edit(JOB, "work", lambda body: body["spec"].update(suspend=False))
    await cluster.settled()
    assert len(pods(cluster)) == 1
    assert conditions(cluster) == {}
    assert condition(cluster.get(JOB, "work"), "Suspended")["reason"] == "JobResumed"
    await asyncio.sleep(50)
    await cluster.edit(JOB, "work", lambda body: body["spec"].update(suspend=True))
    await cluster.settled()
    assert pods(cluster) == []
    assert counts(cluster) == (0, 0, 0)
    await asyncio.sleep(500)
    assert conditions(cluster) == {"Suspended": "JobSuspended"}
    assert [each for each in cluster.events("work") if each in ("Suspended", "Resumed")] == ["Resumed", "Suspended"]


@at_work(JobController)
async def test_fewer_at_a_time_means_that_some_go_uncounted(cluster: Cluster) -> None:
    await job(cluster, completions=5, parallelism=4)
    await bind_all(cluster)
    first = pods(cluster)[0]
    await cluster.runs(first)
    await cluster.edit(JOB, "work", lambda body: body["spec"].update(parallelism=1))
    await cluster.settled()
    assert pods(cluster) == [first]
    assert counts(cluster) == (1, 0, 0)
    await cluster.edit(JOB, "work", lambda body: body["spec"].update(parallelism=3))
    await cluster.settled()
    assert len(pods(cluster)) == 3


@at_work(JobController)
async def test_without_a_number_of_completions_one_success_is_enough(cluster: Cluster) -> None:
    await job(cluster, parallelism=3, completions=None)
    first, second, third = pods(cluster)
    await end(cluster, first)
    assert len(pods(cluster)) == 2
    assert conditions(cluster) == {}
    await end(cluster, second, "Failed")
    await asyncio.sleep(60)
    assert pods(cluster) == [third]
    await end(cluster, third)
    assert "Complete" in conditions(cluster)
    assert counts(cluster) == (0, 2, 1)


@at_work(JobController)
async def test_a_job_for_nothing_is_complete_at_once(cluster: Cluster) -> None:
    await job(cluster, completions=0, parallelism=0)
    assert "Complete" in conditions(cluster)


@at_work(JobController, GarbageController)
async def test_a_finished_job_is_deleted_when_its_time_to_live_is_over(cluster: Cluster) -> None:
    await job(cluster, ttlSecondsAfterFinished=100)
    (name,) = pods(cluster)
    await end(cluster, name)
    await asyncio.sleep(99)
    assert cluster.find(JOB, "work") is not None
    await asyncio.sleep(2)
    assert cluster.find(JOB, "work") is None
    assert cluster.all(POD) == []


@at_work(JobController, GarbageController)
async def test_pods_of_a_deleted_job_go_without_being_counted(cluster: Cluster) -> None:
    await job(cluster, parallelism=2, completions=2)
    await cluster.delete(JOB, "work")
    await cluster.settled()
    assert cluster.all(POD) == []


@at_work(JobController, GarbageController)
async def test_in_the_foreground_the_job_waits_for_its_pods(cluster: Cluster) -> None:
    await job(cluster)
    await bind_all(cluster)
    (name,) = pods(cluster)
    await cluster.runs(name)
    await cluster.delete(JOB, "work", propagation="Foreground")
    await cluster.settled()
    assert cluster.find(JOB, "work") is not None
    assert "finalizers" not in cluster.get(POD, name)["metadata"]
    await cluster.ends(name)
    await cluster.settled()
    assert cluster.find(JOB, "work") is None
    assert cluster.all(POD) == []


@at_work(JobController)
async def test_an_orphan_loses_the_finalizer_that_nobody_would_take_off(cluster: Cluster) -> None:
    body = {
        "metadata": {"finalizers": [TRACKING, "test.io/held"]},
        "spec": {"containers": [{"name": "c", "image": IMAGE}]},
    }
    await cluster.make(POD, "stray", body)
    await cluster.settled()
    assert cluster.get(POD, "stray")["metadata"]["finalizers"] == ["test.io/held"]


@at_work(JobController)
async def test_a_job_that_somebody_else_manages_is_left_alone(cluster: Cluster) -> None:
    await job(cluster, managedBy="example.com/queue")
    assert cluster.all(POD) == []


@at_work(JobController)
async def test_there_are_never_more_pods_at_work_than_allowed(cluster: Cluster) -> None:
    most = 0

    def note(_: Change) -> None:
        nonlocal most
        most = max(most, len(pods(cluster)))

    cluster.store.subscribe(note, POD)
    await job(cluster, completions=30, parallelism=4)
    while "Complete" not in conditions(cluster):
        for number, name in enumerate(pods(cluster)):
            await end(cluster, name, "Failed" if number == 3 and counts(cluster)[2] < 3 else "Succeeded")
        await asyncio.sleep(60)
    assert most == 4
    assert counts(cluster) == (0, 30, 3)


@at_work(JobController)
async def test_nothing_is_written_when_nothing_is_new(cluster: Cluster) -> None:
    await job(cluster)
    before = cluster.get(JOB, "work")
    (name,) = pods(cluster)
    await cluster.edit(POD, name, lambda body: body["metadata"].update(annotations={"note": "new"}))
    await cluster.settled()
    assert cluster.get(JOB, "work") == before
    assert cluster.api.get(Target(JOB, SPACE, "work")) == before
