"""Pods of the embedded cluster that nobody can end: removed, after a while, and only they."""

import asyncio

from kubemini.controllers.pod_garbage import PodGarbageController
from kubemini.kinds import NODE, POD
from kubemini.refusals import Json
from kubemini.store import Change
from tests.unit.kubemini.controllers_at_work import SPACE, Cluster, at_work, condition

OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


def last_seen(cluster: Cluster) -> dict[str, Json]:
    """How each pod that is gone looked at last."""
    seen: dict[str, Json] = {}

    def note(change: Change) -> None:
        if change.type == "DELETED":
            seen[change.entry.key[1]] = change.entry.object()

    cluster.store.subscribe(note, POD)
    return seen


@at_work(PodGarbageController)
async def test_pods_of_a_node_that_is_gone_are_failed_and_removed_after_a_quarantine(cluster: Cluster) -> None:
    gone = last_seen(cluster)
    await cluster.node("a")
    await cluster.node("b")
    for name, node in (("lost", "a"), ("also-lost", "a"), ("fine", "b")):
        await cluster.pod(name, node=node)
        await cluster.runs(name)
    await cluster.delete(NODE, "a")
    await asyncio.sleep(39)
    assert gone == {}
    await asyncio.sleep(2)
    assert sorted(gone) == ["also-lost", "lost"]
    assert gone["lost"]["status"]["phase"] == "Failed"
    said = condition(gone["lost"], "DisruptionTarget")
    assert (said["reason"], said["message"]) == ("DeletionByPodGC", "PodGC: node no longer exists")
    assert cluster.find(POD, "fine") is not None


@at_work(PodGarbageController)
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


@at_work(PodGarbageController)
async def test_a_pod_bound_to_a_node_that_never_was_goes_too(cluster: Cluster) -> None:
    await cluster.pod("web", node="nowhere")
    await cluster.until(lambda: cluster.find(POD, "web") is None)


@at_work(PodGarbageController)
async def test_pods_that_had_ended_keep_how_they_ended(cluster: Cluster) -> None:
    gone = last_seen(cluster)
    await cluster.pod("done", node="nowhere")
    await cluster.runs("done", ready="False", phase="Succeeded")
    await cluster.until(lambda: gone)
    assert gone["done"]["status"]["phase"] == "Succeeded"
    assert condition(gone["done"], "DisruptionTarget") == {}


@at_work(PodGarbageController)
async def test_a_pod_that_was_never_bound_and_is_deleted_needs_no_kubelet(cluster: Cluster) -> None:
    await cluster.pod("web")
    entry = cluster.store.get(POD, (SPACE, "web"))
    assert entry is not None
    body = entry.object()
    body["metadata"] |= {"deletionTimestamp": "2026-11-15T08:30:00Z", "deletionGracePeriodSeconds": 30}
    cluster.store.replace(POD, body, entry.version)
    await cluster.settled()
    assert cluster.find(POD, "web") is None


@at_work(PodGarbageController)
async def test_deleted_pods_of_a_node_out_of_service_are_removed_once_it_is_not_ready(cluster: Cluster) -> None:
    await cluster.node("a")
    for name in ("deleted", "staying"):
        await cluster.pod(name, node="a")
        await cluster.runs(name)
    await cluster.delete(POD, "deleted")
    await cluster.edit(NODE, "a", lambda body: body["spec"].update(taints=[OUT_OF_SERVICE]))
    await cluster.settled()
    assert cluster.find(POD, "deleted") is not None
    await cluster.heartbeat("a", "Unknown")
    await cluster.settled()
    assert cluster.find(POD, "deleted") is None
    await cluster.delete(POD, "staying")
    await cluster.settled()
    assert cluster.find(POD, "staying") is None
