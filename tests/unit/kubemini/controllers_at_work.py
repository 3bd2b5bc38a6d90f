"""Any of the embedded controllers at work in virtual time, for their unit tests.

    @at_work(DisruptionController)
    async def test_a_new_budget_is_counted(cluster: Cluster) -> None:
        ...

The event loop's time and the time of day stand still while anything can be done, and jump when all wait: an hour
passes in a moment, and a test that waits for what never comes fails at once. There is no kubelet and no scheduler:
a test says itself what they would (`says`, `runs`, `ends`). What a controller trips over fails the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from kubemini import clock
from kubemini.api import Api, Deletion, Target
from kubemini.controllers.base import Controller, Runner
from kubemini.errors import Json
from kubemini.kinds import NAMESPACE, NODE, POD, Kind
from tests.support.virtual_time import VirtualLoop

IMAGE = "hollow:1"
SPACE = "default"
_MORNING = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)

Scene = Callable[["Cluster"], Coroutine[Any, Any, None]]


def at_work(*controllers: Callable[[Api], Controller]) -> Callable[[Scene], Callable[[], None]]:
    """A test whose coroutine is played with these controllers at work."""

    def decorate(scene: Scene) -> Callable[[], None]:
        def test() -> None:
            with asyncio.Runner(loop_factory=VirtualLoop) as runner:
                loop = runner.get_loop()

                def now() -> datetime:
                    return _MORNING + timedelta(seconds=loop.time())

                with mock.patch.object(clock, "now", now):
                    runner.run(_play(scene, controllers))

        test.__name__, test.__doc__ = scene.__name__, scene.__doc__
        return test

    return decorate


async def _play(scene: Scene, controllers: tuple[Callable[[Api], Controller], ...]) -> None:
    async with _cluster(controllers) as cluster:
        await scene(cluster)


@contextlib.asynccontextmanager
async def _cluster(controllers: tuple[Callable[[Api], Controller], ...]) -> AsyncIterator[Cluster]:
    cluster = Cluster(Api())
    for name in (SPACE, "kube-node-lease"):
        await cluster.make(NAMESPACE, name)
    errors = LoggedErrors()
    logging.getLogger("kubemini").addHandler(errors)
    try:
        for make in controllers:
            await cluster.start(make)
        yield cluster
    finally:
        for task in cluster.tasks:
            task.cancel()
        await asyncio.gather(*cluster.tasks, return_exceptions=True)
        logging.getLogger("kubemini").removeHandler(errors)
    assert not errors.texts, "\n".join(errors.texts)


class Cluster:
    """The API, and what a kubelet, a scheduler and people do."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.store = api.store
        self.runners: list[Runner] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, make: Callable[[Api], Controller]) -> None:
        """Have one more controller at work."""
        self.runners.append(Runner(self.store, make(self.api)))
        self.tasks.append(asyncio.create_task(self.runners[-1].run()))
        await self.settled()

    async def make(self, kind: Kind, name: str, body: Json | None = None, namespace: str = SPACE) -> Json:
        """A new object; the body need not repeat its name."""
        made = dict(body or {})
        made["metadata"] = {**made.get("metadata", {}), "name": name}
        return await self.api.create(Target(kind, namespace if kind.namespaced else ""), made)

    def get(self, kind: Kind, name: str, namespace: str = SPACE) -> Json:
        return self.api.get(Target(kind, namespace if kind.namespaced else "", name))

    def find(self, kind: Kind, name: str, namespace: str = SPACE) -> Json | None:
        return self.api.find(kind, (namespace if kind.namespaced else "", name))

    def all(self, kind: Kind) -> list[Json]:
        return [entry.object() for entry in self.store.entries(kind)]

    async def edit(self, kind: Kind, name: str, change: Callable[[Json], Any], subresource: str = "") -> Json:
        """A new version of an object; the function changes it in place."""

        def edited(body: Json) -> Json:
            change(body)
            return body

        return await self.api.edit(Target(kind, SPACE if kind.namespaced else "", name, subresource), edited)

    async def says(self, kind: Kind, name: str, **status: Any) -> Json:
        """Fields of an object's status."""
        return await self.edit(kind, name, lambda body: body.setdefault("status", {}).update(status), "status")

    async def delete(self, kind: Kind, name: str, **how: Any) -> None:
        await self.api.delete(Target(kind, SPACE if kind.namespaced else "", name), Deletion(**how))

    async def node(self, name: str, *, ready: str = "True", labels: Json | None = None, **spec: Any) -> Json:
        """A node, and what its kubelet says of itself."""
        await self.make(
            NODE, name, {"metadata": {"labels": {"kubernetes.io/hostname": name, **(labels or {})}}, "spec": spec}
        )
        return await self.heartbeat(name, ready)

    async def heartbeat(self, name: str, ready: str = "True") -> Json:
        now = clock.stamp(clock.now())
        before = condition(self.get(NODE, name), "Ready")
        since = before["lastTransitionTime"] if before.get("status") == ready else now
        said = {"type": "Ready", "status": ready, "lastHeartbeatTime": now, "lastTransitionTime": since}
        return await self.says(NODE, name, conditions=[said])

    async def pod(self, name: str, *, node: str = "", owner: Json | None = None, **metadata: Any) -> Json:
        """A pod, bound from the beginning if it says where."""
        body = pod_body(node=node)
        body["metadata"] = metadata | ({"ownerReferences": [reference(owner)]} if owner else {})
        return await self.make(POD, name, body)

    async def runs(self, name: str, *, ready: str = "True", phase: str = "Running") -> Json:
        """What a kubelet says of a pod."""
        stamp = clock.stamp(clock.now())
        conditions = [{"type": "Ready", "status": ready, "lastProbeTime": None, "lastTransitionTime": stamp}]
        return await self.says(POD, name, phase=phase, conditions=conditions)

    async def ends(self, name: str) -> None:
        """A kubelet is done with a pod that is deleted."""
        await self.delete(POD, name, grace=0)

    async def settled(self) -> None:
        """Until nobody has anything to do now; what waits for its time does not count."""
        await asyncio.sleep(0)
        while not all(runner.idle for runner in self.runners):  # noqa: ASYNC110  no event says it
            await asyncio.sleep(0.001)  # of virtual time: Runners let a key rest for a moment


def pod_body(*, node: str = "", **spec: Any) -> Json:
    containers: Json = {"containers": [{"name": "main", "image": IMAGE}]}
    return {"spec": containers | ({"nodeName": node} if node else {}) | spec}


def reference(owner: Json, **more: Any) -> Json:
    """How a dependent names its owner; as its controller, unless told otherwise."""
    head = {key: owner[key] for key in ("apiVersion", "kind")}
    return {**head, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True, **more}


class LoggedErrors(logging.Handler):
    """What went wrong inside a controller: a Runner only logs it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(logging.Formatter().format(record))


def condition(body: Json, kind: str) -> Json:
    """One condition of an object's status; empty if it has none of this type."""
    found = body.get("status", {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind), {})
