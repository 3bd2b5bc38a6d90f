"""The embedded cluster as a whole: it starts, it ends, and it says so when a part of it fails."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import aiohttp
import pytest

from kubemini.api import Target
from kubemini.cluster import EmbeddedCluster
from kubemini.controllers.deployment import DeploymentController
from kubemini.kinds import DEPLOYMENT, NODE, POD, Kind
from kubemini.scheduler.scheduler import Scheduler
from kubemini.store import Entry
from tests.testbed.hollow import deployment


async def until(cluster: EmbeddedCluster, kind: Kind, is_so: Callable[[Entry], bool], count: int) -> None:
    """Until it is so for so many objects of a kind."""
    changed = asyncio.Event()
    unsubscribe = cluster.api.store.subscribe(lambda _: changed.set(), kind)
    async with asyncio.timeout(60):
        while sum(map(is_so, cluster.api.store.entries(kind))) < count:
            changed.clear()
            await changed.wait()
    unsubscribe()


async def running(cluster: EmbeddedCluster, pods: int) -> None:
    await until(cluster, POD, lambda entry: entry.fields["status.phase"] == "Running", pods)


async def test_a_deployment_on_new_nodes_runs() -> None:
    async with EmbeddedCluster() as cluster:
        names = await cluster.add_nodes(3)
        await until(cluster, NODE, lambda entry: "taints" not in entry.object()["spec"], 3)
        await cluster.api.create(Target(DEPLOYMENT, "default"), deployment("web", 6))
        await running(cluster, 6)
        assert {entry.fields["spec.nodeName"] for entry in cluster.api.store.entries(POD)} == set(names)


async def test_nothing_is_left_when_it_has_ended() -> None:
    before = asyncio.all_tasks()
    async with EmbeddedCluster() as cluster:
        await cluster.add_nodes(1)
        url, known = f"{cluster.url}/api/v1/pods", {"Authorization": f"Bearer {cluster.token}"}
    assert asyncio.all_tasks() == before
    async with aiohttp.ClientSession() as session:
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get(url, headers=known) as answer:
                assert answer.status != 200, "another program may have its port by now, and doesn't know its token"


async def test_a_part_that_fails_ends_the_cluster_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_: Scheduler) -> None:
        raise ZeroDivisionError("the scheduler")

    monkeypatch.setattr(Scheduler, "run", broken)
    with pytest.raises(ExceptionGroup) as failed:
        async with EmbeddedCluster():
            await asyncio.Event().wait()
    assert failed.group_contains(ZeroDivisionError, match="the scheduler")
    await asyncio.sleep(0)  # a cancellation that was left over would strike here


async def test_an_object_that_trips_a_controller_is_tried_again_and_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reconcile = DeploymentController.reconcile
    tripped: list[str] = []

    async def tripping(self: DeploymentController, key: tuple[str, str]) -> float | None:
        if key[1] == "bad" and len(tripped) < 3:
            tripped.append(key[1])
            raise KeyError("unforeseen")
        return await reconcile(self, key)

    monkeypatch.setattr(DeploymentController, "reconcile", tripping)
    with caplog.at_level(logging.ERROR):
        async with EmbeddedCluster() as cluster:
            await cluster.add_nodes(1)
            for name in ("bad", "good"):
                await cluster.api.create(Target(DEPLOYMENT, "default"), deployment(name, 1))
            await running(cluster, 2)
    assert len(tripped) == 3
    assert "default/bad failed; tried again" in caplog.text
