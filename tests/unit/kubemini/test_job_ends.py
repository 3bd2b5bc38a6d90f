"""Jobs of the embedded cluster: how pods that end are counted, and how the Job itself ends."""

import asyncio
from typing import Any

from kubemini import clock
from kubemini.controllers.garbage import GarbageController
from kubemini.controllers.job import JobController
from kubemini.controllers.job_pods import TRACKING
from kubemini.kinds import JOB, POD
from kubemini.store import Change
from tests.unit.kubemini.controllers_at_work import IMAGE, SPACE, Cluster, at_work, condition
from tests.unit.kubemini.job_words import INDEX, bind_all, conditions, counts, end, job, pods, status


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
