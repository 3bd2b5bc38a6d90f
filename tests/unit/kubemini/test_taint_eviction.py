"""Evictions by NoExecute taints in the embedded cluster: who goes, when, and who is spared."""

import asyncio
from typing import Any

import pytest

from kubemini.controllers.taint_eviction import TaintEvictionController, tolerated_for
from kubemini.kinds import NODE, POD
from kubemini.refusals import Json
from rescheduler.model.shape import Taint
from tests.unit.kubemini.controllers_at_work import SPACE, Cluster, at_work, condition, pod_body

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
async def test_a_pod_that_does_not_tolerate_the_taint_is_marked_and_deleted_with_its_grace(cluster: Cluster) -> None:
    await cluster.node("a")
    await cluster.node("b")
    await bound(cluster, "goes")
    await bound(cluster, "stays", tolerating("gone"))
    await bound(cluster, "elsewhere", node="b")
    await taint(cluster, "gone")
    await cluster.settled()
    pod = cluster.get(POD, "goes")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    said = condition(pod, "DisruptionTarget")
    assert (said["status"], said["reason"]) == ("True", "DeletionByTaintManager")
    assert said["message"] == "Taint manager: deleting due to NoExecute taint"
    assert cluster.events("goes") == ["TaintManagerEviction"]
    assert not leaving(cluster, "stays")
    assert not leaving(cluster, "elsewhere")


@at_work(TaintEvictionController)
async def test_a_toleration_with_seconds_is_kept(cluster: Cluster) -> None:
    await cluster.node("a")
    await bound(cluster, "web", tolerating("gone", seconds=300))
    await taint(cluster, "gone")
    await asyncio.sleep(299)
    assert not leaving(cluster, "web")
    await asyncio.sleep(2)
    assert leaving(cluster, "web")


@at_work(TaintEvictionController)
async def test_a_taint_that_goes_in_time_cancels_the_eviction(cluster: Cluster) -> None:
    await cluster.node("a")
    await bound(cluster, "web", tolerating("gone", seconds=300))
    await taint(cluster, "gone")
    await asyncio.sleep(200)
    await taint(cluster)
    await asyncio.sleep(1000)
    assert not leaving(cluster, "web")
    assert cluster.events("web") == ["TaintManagerEviction"]
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


@at_work(TaintEvictionController)
async def test_a_second_taint_that_is_not_tolerated_ends_the_wait(cluster: Cluster) -> None:
    await cluster.node("a")
    await bound(cluster, "web", tolerating("gone", seconds=300))
    await taint(cluster, "gone")
    await cluster.settled()
    await taint(cluster, "gone", "fire")
    await cluster.settled()
    assert leaving(cluster, "web")


@at_work(TaintEvictionController)
async def test_a_pod_that_comes_to_a_tainted_node_goes_too(cluster: Cluster) -> None:
    await cluster.node("a", taints=[{"key": "gone", "effect": "NoExecute"}])
    await bound(cluster, "web")
    await cluster.settled()
    assert leaving(cluster, "web")


@at_work(TaintEvictionController)
async def test_a_new_pod_of_the_same_name_has_its_own_time(cluster: Cluster) -> None:
    await cluster.node("a")
    await bound(cluster, "web", tolerating("gone", seconds=300))
    await taint(cluster, "gone")
    await asyncio.sleep(200)
    await cluster.delete(POD, "web", grace=0)
    await bound(cluster, "web", tolerating("gone", seconds=300))
    await asyncio.sleep(200)
    assert not leaving(cluster, "web")
    await asyncio.sleep(101)
    assert leaving(cluster, "web")


@at_work(TaintEvictionController)
async def test_taints_that_only_keep_new_pods_away_evict_nobody(cluster: Cluster) -> None:
    await cluster.node("a")
    await bound(cluster, "web")
    taints = [{"key": "full", "effect": "NoSchedule"}, {"key": "slow", "effect": "PreferNoSchedule"}]
    await cluster.edit(NODE, "a", lambda body: body["spec"].update(taints=taints))
    await cluster.settled()
    assert not leaving(cluster, "web")


@at_work(TaintEvictionController)
async def test_the_pods_of_a_node_that_is_gone_are_left_to_others(cluster: Cluster) -> None:
    await cluster.node("a")
    await bound(cluster, "web", tolerating("gone", seconds=10))
    await taint(cluster, "gone")
    await cluster.settled()
    await cluster.delete(NODE, "a")
    await asyncio.sleep(20)
    assert not leaving(cluster, "web")
    assert cluster.store.get(POD, (SPACE, "web")) is not None
