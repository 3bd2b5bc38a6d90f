"""Jobs of the embedded cluster: how many pods run, which ones, and what becomes of those that fail or go."""

import asyncio

import pytest

from kubemini.api import Target
from kubemini.controllers.job import JobController
from kubemini.controllers.job_indexes import format_indexes, parse_indexes
from kubemini.controllers.job_plan import Backoff
from kubemini.controllers.job_pods import TRACKING
from kubemini.kinds import JOB, POD
from kubemini.store import Change
from tests.unit.kubemini.controllers_at_work import SPACE, Cluster, at_work
from tests.unit.kubemini.job_words import INDEX, bind_all, conditions, counts, end, job, pods, status


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
