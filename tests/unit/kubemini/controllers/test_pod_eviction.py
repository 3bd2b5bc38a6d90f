"""Pods that may not stay: evictions by NoExecute taints, and pods of nodes that are gone."""

import asyncio
from typing import Any

import pytest

from kubemini.controllers.pod_eviction import PodGarbageCollector, TaintEvictionController, tolerated_for
from kubemini.errors import Json
from kubemini.kinds import NODE, POD
from rescheduler.model.shape import Taint
from tests.unit.kubemini.controllers_at_work import Cluster, at_work, pod_body

GONE = Taint("gone", "", "NoExecute")
TEAM = Taint("team", "a", "NoExecute")


def tolerating(key: str = "", *, seconds: int | None = None, **more: Any) -> Json:
    found = {"key": key, "operator": "Exists", "effect": "NoExecute"} | more
    return found if seconds is None else found | {"tolerationSeconds": seconds}


@pytest.mark.parametrize(
    ("taints", "tolerations", "seconds"),
    [
        ([], [], None),
        ([GONE], [], 0),
        ([GONE], [tolerating("other")], 0),
        ([GONE], [tolerating("gone")], None),
        ([GONE], [tolerating("gone", seconds=300)], 300),
        ([GONE], [tolerating("gone", seconds=0)], 0),
        ([GONE], [tolerating("gone", seconds=-5)], 0),
        ([GONE, TEAM], [tolerating("gone", seconds=300)], 0),
        ([GONE, TEAM], [tolerating("gone", seconds=300), tolerating("team", seconds=60)], 60),
        ([GONE, TEAM], [tolerating("gone", seconds=300), tolerating("team")], 300),
        ([TEAM], [tolerating("team", operator="Equal", value="b")], 0),
        ([TEAM], [tolerating("team", operator="Equal", value="a")], None),
        ([GONE], [{"operator": "Exists"}], None),
        ([GONE], [{"key": "gone", "operator": "Exists", "effect": "NoSchedule"}], 0),
    ],
)
def test_how_long_a_pod_may_stay(taints: list[Taint], tolerations: list[Json], seconds: float | None) -> None:
    assert tolerated_for(taints, tolerations) == seconds


async def taint(cluster: Cluster, *keys: str, node: str = "a") -> None:
    taints = [{"key": key, "effect": "NoExecute"} for key in keys]
    await cluster.edit(NODE, node, lambda body: body["spec"].update(taints=taints))


async def bound(cluster: Cluster, name: str, *tolerations: Json, node: str = "a") -> None:
    await cluster.make(POD, name, pod_body(node=node, tolerations=list(tolerations)))
    await cluster.runs(name)


def leaving(cluster: Cluster, name: str) -> bool:
    pod = cluster.find(POD, name)
    return pod is None or "deletionTimestamp" in pod["metadata"]


@at_work(TaintEvictionController)
async def test_a_taint_that_goes_in_time_cancels_the_eviction(cluster: Cluster) -> None:
    await cluster.node("a")
    await bound(cluster, "web", tolerating("gone", seconds=300))
    await taint(cluster, "gone")
    await asyncio.sleep(200)
    await taint(cluster)
    await asyncio.sleep(1000)
    assert not leaving(cluster, "web")
    await taint(cluster, "gone")
    await asyncio.sleep(200)
    assert not leaving(cluster, "web")
    await asyncio.sleep(101)
    assert leaving(cluster, "web")


@at_work(TaintEvictionController)
async def test_another_taint_in_its_place_does_not_start_the_time_anew(cluster: Cluster) -> None:
    await cluster.node("a")
    await bound(cluster, "web", tolerating("not-ready", seconds=300), tolerating("unreachable", seconds=300))
    await taint(cluster, "not-ready")
    await asyncio.sleep(200)
    await taint(cluster, "unreachable")
    await asyncio.sleep(99)
    assert not leaving(cluster, "web")
    await asyncio.sleep(2)
    assert leaving(cluster, "web")


@at_work(PodGarbageCollector)
async def test_a_node_that_comes_back_in_time_keeps_its_pods(cluster: Cluster) -> None:
    await cluster.node("a")
    await cluster.pod("web", node="a")
    await cluster.delete(NODE, "a")
    await asyncio.sleep(30)
    await cluster.node("a")
    await asyncio.sleep(100)
    assert cluster.find(POD, "web") is not None
    await cluster.delete(NODE, "a")
    await asyncio.sleep(39)
    assert cluster.find(POD, "web") is not None
    await asyncio.sleep(2)
    assert cluster.find(POD, "web") is None
