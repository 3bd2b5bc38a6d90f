"""PodDisruptionBudget status in the embedded cluster: expected, desired, healthy and allowed pods."""

import asyncio
from typing import Any

import pytest

from kubemini import clock
from kubemini.controllers.disruption import DisruptionController, calculate_disruptions
from kubemini.errors import Json
from kubemini.kinds import BUDGET, DAEMON_SET, DEPLOYMENT, POD, REPLICA_SET
from tests.unit.kubemini.controllers_at_work import Cluster, at_work, condition

WEB = {"app": "web"}


def workload(**spec: Any) -> Json:
    template = {"metadata": {"labels": WEB}, "spec": {"containers": [{"name": "main", "image": "hollow:1"}]}}
    return {"metadata": {"labels": WEB}, "spec": {"selector": {"matchLabels": WEB}, "template": template} | spec}


def owner(of: Json) -> list[Json]:
    head = {key: of[key] for key in ("apiVersion", "kind")}
    return [head | {"name": of["metadata"]["name"], "uid": of["metadata"]["uid"], "controller": True}]


async def replica_set(cluster: Cluster, name: str, replicas: int, pods: int, deployment: Json | None = None) -> Json:
    """A ReplicaSet with some of its pods running."""
    body = workload(replicas=replicas)
    if deployment:
        body["metadata"]["ownerReferences"] = owner(deployment)
    made = await cluster.make(REPLICA_SET, name, body)
    for number in range(pods):
        await cluster.pod(f"{name}-{number}", node="a", owner=made, labels=WEB)
        await cluster.runs(f"{name}-{number}")
    return made


async def budget(cluster: Cluster, name: str = "web", **spec: Any) -> Json:
    return await cluster.make(BUDGET, name, {"spec": {"selector": {"matchLabels": WEB}} | spec})


async def numbers(cluster: Cluster, name: str = "web") -> tuple[int, int, int, int]:
    """Expected, desired, healthy, allowed."""
    await cluster.settled()
    status = cluster.get(BUDGET, name)["status"]
    assert status["observedGeneration"] == cluster.get(BUDGET, name)["metadata"]["generation"]
    keys = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    expected, desired, healthy, allowed = (status[key] for key in keys)
    return expected, desired, healthy, allowed


@pytest.mark.parametrize(
    ("spec", "expected", "ready", "desired", "allowed"),
    [
        ({"maxUnavailable": 1}, 4, 4, 3, 1),
        ({"maxUnavailable": 1}, 4, 3, 3, 0),
        ({"maxUnavailable": 0}, 4, 4, 4, 0),
        ({"maxUnavailable": 9}, 4, 4, 0, 4),
        ({"maxUnavailable": "30%"}, 4, 4, 2, 2),
        ({"maxUnavailable": "100%"}, 4, 1, 0, 1),
        ({"minAvailable": 3}, 4, 4, 3, 1),
        ({"minAvailable": 5}, 4, 4, 5, 0),
        ({"minAvailable": "50%"}, 5, 5, 3, 2),
        ({"minAvailable": "0%"}, 0, 0, 0, 0),
        ({"maxUnavailable": 1}, 0, 1, 0, 0),
        ({}, 4, 4, 0, 4),
    ],
)
def test_the_arithmetic(spec: Json, expected: int, ready: int, desired: int, allowed: int) -> None:
    assert calculate_disruptions(spec, expected, ready) == (desired, allowed)


@at_work(DisruptionController)
async def test_a_deployments_pods_count_by_the_deployment_not_by_its_replica_sets(cluster: Cluster) -> None:
    web = await cluster.make(DEPLOYMENT, "web", workload(replicas=5))
    await replica_set(cluster, "old", 3, 2, web)
    await replica_set(cluster, "new", 4, 2, web)
    await budget(cluster, maxUnavailable=2)
    assert await numbers(cluster) == (5, 3, 4, 1)
    said = condition(cluster.get(BUDGET, "web"), "DisruptionAllowed")
    assert (said["status"], said["reason"], said["observedGeneration"]) == ("True", "SufficientPods", 1)


@at_work(DisruptionController)
async def test_an_evicted_pod_does_not_count_until_it_is_gone_or_two_minutes_have_passed(cluster: Cluster) -> None:
    await replica_set(cluster, "web", 3, 3)
    await budget(cluster, maxUnavailable=2)
    assert await numbers(cluster) == (3, 1, 3, 2)
    evicted = {"web-0": clock.stamp(clock.now()), "unheard-of": clock.stamp(clock.now())}
    await cluster.says(BUDGET, "web", disruptedPods=evicted)
    assert await numbers(cluster) == (3, 1, 2, 1)
    assert list(cluster.get(BUDGET, "web")["status"]["disruptedPods"]) == ["web-0"]
    await asyncio.sleep(119)
    assert await numbers(cluster) == (3, 1, 2, 1)
    await asyncio.sleep(3)
    assert await numbers(cluster) == (3, 1, 3, 2)
    assert "disruptedPods" not in cluster.get(BUDGET, "web")["status"]


@at_work(DisruptionController)
async def test_an_evicted_pod_is_forgotten_when_it_is_being_deleted(cluster: Cluster) -> None:
    await replica_set(cluster, "web", 3, 3)
    await budget(cluster, maxUnavailable=2)
    await cluster.settled()
    await cluster.says(BUDGET, "web", disruptedPods={"web-0": clock.stamp(clock.now())})
    await cluster.delete(POD, "web-0")
    assert await numbers(cluster) == (3, 1, 2, 1)
    assert "disruptedPods" not in cluster.get(BUDGET, "web")["status"]


@at_work(DisruptionController)
async def test_nothing_is_allowed_where_nobody_can_say_how_many_pods_there_should_be(cluster: Cluster) -> None:
    daemon = await cluster.make(DAEMON_SET, "web", workload())
    gone = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "gone", "uid": "1-2-3"}}
    strange = {"apiVersion": "nowhere.io/v1", "kind": "Strange", "metadata": {"name": "x", "uid": "1-2-4"}}
    for manager in (daemon, gone, strange):
        await cluster.pod("of-it", node="a", owner=manager, labels=WEB)
        await cluster.runs("of-it")
        await budget(cluster, maxUnavailable=1)
        await cluster.settled()
        found = cluster.get(BUDGET, "web")
        said = condition(found, "DisruptionAllowed")
        assert (said["status"], said["reason"]) == ("False", "SyncFailed")
        assert found["status"]["disruptionsAllowed"] == 0
        await cluster.delete(BUDGET, "web")
        await cluster.delete(POD, "of-it", grace=0)
