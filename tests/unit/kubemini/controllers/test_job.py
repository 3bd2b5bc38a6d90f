"""Jobs of the embedded cluster: how many pods run, how they are counted, and how the Job ends."""

import asyncio
from typing import Any

from kubemini import clock
from kubemini.controllers.garbage_collector import GarbageCollector
from kubemini.controllers.job import TRACKING, JobController
from kubemini.errors import Json
from kubemini.kinds import JOB, POD
from kubemini.store import Change
from tests.unit.kubemini.controllers_at_work import IMAGE, Cluster, at_work


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


@at_work(JobController)
async def test_a_failed_pod_is_replaced_after_ten_seconds(cluster: Cluster) -> None:
    await job(cluster)
    for _ in range(3):
        (name,) = pods(cluster)
        await end(cluster, name, "Failed")
        await asyncio.sleep(9)
        assert pods(cluster) == []
        await asyncio.sleep(2)
        assert len(pods(cluster)) == 1
    assert counts(cluster) == (1, 0, 3)


@at_work(JobController)
async def test_fewer_at_a_time_means_that_some_go_uncounted(cluster: Cluster) -> None:
    await job(cluster, completions=5, parallelism=4)
    await bind_all(cluster)
    await cluster.edit(JOB, "work", lambda body: body["spec"].update(parallelism=1))
    await cluster.settled()
    assert len(pods(cluster)) == 1
    assert counts(cluster) == (1, 0, 0)
    await cluster.edit(JOB, "work", lambda body: body["spec"].update(parallelism=3))
    await cluster.settled()
    assert len(pods(cluster)) == 3


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
async def test_a_job_fails_when_its_pods_have_failed_too_often(cluster: Cluster) -> None:
    await job(cluster, backoffLimit=1, parallelism=3, completions=3)
    await bind_all(cluster)
    first, second, third = pods(cluster)
    await cluster.runs(third)
    await end(cluster, first, "Failed")
    assert conditions(cluster) == {}
    await end(cluster, second, "Failed")
    assert conditions(cluster) == {"Failed": "BackoffLimitExceeded"}
    assert "deletionTimestamp" in cluster.get(POD, third)["metadata"]
    assert "finalizers" not in cluster.get(POD, third)["metadata"]
    assert counts(cluster) == (0, 0, 3)
    assert cluster.events("work")[-1] == "BackoffLimitExceeded"
    await asyncio.sleep(1000)
    assert pods(cluster) == []


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


@at_work(JobController, GarbageCollector)
async def test_pods_of_a_deleted_job_go_without_being_counted(cluster: Cluster) -> None:
    await job(cluster, parallelism=2, completions=2)
    await cluster.delete(JOB, "work")
    await cluster.settled()
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
