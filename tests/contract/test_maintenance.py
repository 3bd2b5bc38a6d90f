"""Cordons on a cluster: the label brings one and takes it away, and nobody else's is touched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.model.json import Json
from rescheduler.model.labels import CORDONED, MAINTENANCE
from rescheduler.runtime.maintenance import CordonController
from tests.support.both_clusters import ClusterUnderTest
from tests.support.watching import SECONDS, Watched, watch_cluster
from tests.testbed.hollow import NodeShape


class OneNode:
    """A node, with words for what is done to it."""

    def __init__(self, cluster: ClusterUnderTest, name: str) -> None:
        self.cluster, self.name = cluster, name
        self._path = f"/api/v1/nodes/{name}"

    def label(self, value: str | None) -> None:
        self._patch({"metadata": {"labels": {MAINTENANCE: value}}})

    def cordon(self, *, closed: bool) -> None:
        self._patch({"spec": {"unschedulable": closed or None}})

    def state(self) -> tuple[bool, bool]:
        """Is it cordoned; and does it say that it was by us?"""
        found: Json = self.cluster.api.get(self._path)
        return bool(found["spec"].get("unschedulable")), CORDONED in (found["metadata"].get("annotations") or {})

    def _patch(self, body: Json) -> None:
        self.cluster.api.patch(self._path, body)


@pytest.fixture
def node(cluster: ClusterUnderTest) -> Iterator[OneNode]:
    (name,) = cluster.add_nodes(1, NodeShape(), prefix="kept")
    yield OneNode(cluster, name)
    cluster.remove_nodes([name])


@pytest.fixture
async def seen(cluster: ClusterUnderTest) -> AsyncIterator[Watched]:
    async with watch_cluster(cluster) as found:
        yield found


def cordons(seen: Watched, *, enabled: bool = True) -> CordonController:
    return CordonController(
        seen.cache, MigrationObserver(seen.client), CommandSender(seen.client), should_cordon=lambda labels: enabled
    )


async def keeps(controller: CordonController, node: OneNode, state: tuple[bool, bool]) -> None:
    """Called again and again, as the loop does, until the node is as it should be; and then it has nothing to do."""
    async with asyncio.timeout(SECONDS):
        while node.state() != state:
            await controller.reconcile(time.time())
            await asyncio.sleep(0.02)
    assert await controller.reconcile(time.time()) == 0
    assert node.state() == state


async def known(seen: Watched, node: OneNode) -> None:
    """The cache has the node as it is now."""
    async with asyncio.timeout(SECONDS):
        while True:
            row, live = seen.cache.row("Node", node.name), node.cluster.api.get(f"/api/v1/nodes/{node.name}")
            label = (live["metadata"].get("labels") or {}).get(MAINTENANCE)
            state = (row.unschedulable, row.cordoned) if row is not None else None
            if state == node.state() and row.labels.get(MAINTENANCE) == label:
                return
            await asyncio.sleep(0.02)


async def test_the_label_brings_a_cordon_and_takes_it_away(node: OneNode, seen: Watched) -> None:
    controller = cordons(seen)
    node.label("true")
    await keeps(controller, node, (True, True))
    node.label(None)
    await keeps(controller, node, (False, False))


async def test_a_cordon_of_somebody_else_stays(node: OneNode, seen: Watched) -> None:
    node.cordon(closed=True)
    node.label("true")
    await known(seen, node)
    assert await cordons(seen).reconcile(time.time()) == 0
    node.label(None)
    await known(seen, node)
    assert await cordons(seen).reconcile(time.time()) == 0
    assert node.state() == (True, False)


async def test_while_the_label_stays_the_cordon_comes_back(node: OneNode, seen: Watched) -> None:
    controller = cordons(seen)
    node.label("true")
    await keeps(controller, node, (True, True))
    node.cordon(closed=False)
    await known(seen, node)
    await keeps(controller, node, (True, True))


async def test_where_somebody_has_taken_our_cordon_down_only_the_note_goes(node: OneNode, seen: Watched) -> None:
    controller = cordons(seen)
    node.label("true")
    await keeps(controller, node, (True, True))
    node.cordon(closed=False)
    node.label("false")
    await known(seen, node)
    await keeps(controller, node, (False, False))


async def test_without_the_strategy_nothing_is_cordoned_but_ours_are_taken_down(node: OneNode, seen: Watched) -> None:
    idle = cordons(seen, enabled=False)
    node.label("true")
    await known(seen, node)
    assert await idle.reconcile(time.time()) == 0
    await keeps(cordons(seen), node, (True, True))
    await known(seen, node)
    assert await idle.reconcile(time.time()) == 0
    assert node.state() == (True, True)
    node.label(None)
    await keeps(idle, node, (False, False))


async def test_all_of_ours_can_be_taken_down_though_the_label_stays(node: OneNode, seen: Watched) -> None:
    node.label("true")
    await keeps(cordons(seen), node, (True, True))
    await known(seen, node)
    assert await cordons(seen).remove_all() == 1
    assert node.state() == (False, False)
