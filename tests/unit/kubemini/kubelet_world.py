"""A cluster of nothing but kubelets, in virtual time: what takes an hour there takes a moment here.

Tests of the kubelets run a coroutine with `in_virtual_time`, and in it a World: nodes, and pods that are bound from the
beginning. The event loop's time stands still while anything can be done, and jumps when all wait; the time of day goes
with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from kubemini import clock
from kubemini.api import Api, Deletion, Target
from kubemini.conditions import condition_of
from kubemini.controllers.base import Runner
from kubemini.errors import Json
from kubemini.kinds import CORE_EVENT, NAMESPACE, NODE, POD
from kubemini.kubelet.node import HeartbeatController, NodeShape, node
from kubemini.kubelet.pods import PodController
from kubemini.simulation import KUBELET_LABEL, PREFIX
from tests.support.virtual_time import VirtualLoop

SPACE = "default"
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def in_virtual_time(scene: Callable[[World], Awaitable[None]], nodes: int = 1, shape: NodeShape | None = None) -> None:
    """Play a scene in a world of so many nodes, named node-0 and so on."""

    async def play() -> None:
        async with _world(nodes, shape or NodeShape()) as world:
            await scene(world)

    def now() -> datetime:
        return BEGINNING + timedelta(seconds=loop.time())

    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner, mock.patch.object(clock, "now", now):
        runner.run(play())


@contextlib.asynccontextmanager
async def _world(nodes: int, shape: NodeShape) -> AsyncIterator[World]:
    api = Api()
    for name in (SPACE, "kube-node-lease"):
        await api.create(Target(NAMESPACE, name=name), {"metadata": {"name": name}})
    world = World(api)
    tasks = [asyncio.create_task(kubelet.run()) for kubelet in world.kubelets]
    try:
        for number in range(nodes):
            await world.add_node(f"node-{number}", number, shape)
        await world.settled()
        yield world
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class World:
    """The kubelets' cluster."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.kubelets = [Runner(api.store, kubelet) for kubelet in (PodController(api), HeartbeatController(api))]

    async def add_node(self, name: str, number: int = 0, shape: NodeShape | None = None) -> None:
        body = node(name, number, shape or NodeShape())
        status = body["status"]
        await self.api.create(Target(NODE, name=name), body)
        await self.api.edit(Target(NODE, name=name, subresource="status"), lambda found: found | {"status": status})

    async def settled(self) -> None:
        """Until nobody has anything to do now: only then does any time pass."""
        await asyncio.sleep(1e-6)
        assert all(kubelet.idle for kubelet in self.kubelets)

    async def after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.settled()

    async def create(self, name: str, body: Json | None = None, **marks: str) -> Json:
        """A pod on node-0 with these marks for its kubelet, as its kubelet describes it right away."""
        made = body or pod(name)
        made["metadata"]["annotations"] = {PREFIX + key.replace("_", "-"): value for key, value in marks.items()}
        await self.api.create(Target(POD, SPACE, name), made)
        await self.settled()
        return self.pod(name)

    async def mark(self, name: str, **marks: str | None) -> Json:
        """A pod that is there is told to behave otherwise; None takes a mark off."""
        changed = {PREFIX + key.replace("_", "-"): value for key, value in marks.items()}

        def edit(body: Json) -> Json:
            annotations = body["metadata"].get("annotations", {}) | changed
            body["metadata"]["annotations"] = {key: value for key, value in annotations.items() if value is not None}
            return body

        await self.api.edit(Target(POD, SPACE, name), edit)
        await self.settled()
        return self.pod(name)

    async def edit_status(self, name: str, edit: Callable[[Json], Json]) -> None:
        """Somebody else writes the status of a pod."""
        await self.api.edit(Target(POD, SPACE, name, "status"), edit)
        await self.settled()

    async def delete(self, name: str, grace: int | None = None) -> None:
        await self.api.delete(Target(POD, SPACE, name), Deletion(grace=grace))
        await self.settled()

    async def kubelet(self, name: str, state: str | None) -> None:
        """Tell a node's kubelet to be NotReady or Dead, or healthy again."""

        def edit(body: Json) -> Json:
            labels = {key: value for key, value in body["metadata"]["labels"].items() if key != KUBELET_LABEL}
            body["metadata"]["labels"] = labels | ({KUBELET_LABEL: state} if state else {})
            return body

        await self.api.edit(Target(NODE, name=name), edit)
        await self.settled()

    def pod(self, name: str) -> Json:
        return self.api.get(Target(POD, SPACE, name))

    def is_there(self, name: str) -> bool:
        return self.api.find(POD, (SPACE, name)) is not None

    def node(self, name: str = "node-0") -> Json:
        return self.api.get(Target(NODE, name=name))

    def events(self, about: str) -> list[tuple[str, str, str]]:
        """Type, reason and message of the Events about an object, in the order of saying."""
        entries = sorted(self.api.store.entries(CORE_EVENT), key=lambda entry: entry.version)
        found = [entry.object() for entry in entries]
        return [(e["type"], e["reason"], e["message"]) for e in found if e["involvedObject"]["name"] == about]


def pod(name: str, *, cpu: str = "100m", node_name: str = "node-0", **spec: Any) -> Json:
    containers = [{"name": "main", "image": "hollow:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]
    return {"metadata": {"name": name}, "spec": {"nodeName": node_name, "containers": containers} | spec}


def said(body: Json, kind: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    found = condition_of(body, kind)
    return found.get("status", ""), found.get("reason", "")


def container(body: Json, name: str = "main") -> Json:
    status = body["status"]
    every = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    found: Json = next(each for each in every if each["name"] == name)
    return found


def state(body: Json, name: str = "main") -> str:
    """running, waiting or terminated."""
    (found,) = container(body, name)["state"]
    return str(found)
