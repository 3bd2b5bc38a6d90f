"""A cluster that has a scheduler and nothing else, and the objects that tests of the scheduler put into it."""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kubemini import clock
from kubemini.api import Api, Deletion, Target
from kubemini.errors import Json
from kubemini.kinds import CORE_EVENT, NAMESPACE, POD, Kinds
from kubemini.scheduler.scheduler import Scheduler
from kubemini.store import Entry

HOSTNAME = "kubernetes.io/hostname"
GATES = [{"name": "example.com/wait"}]
_KINDS = Kinds()


def node(name: str, *, cpu: str = "4", pods: int = 110, labels: Json | None = None, **spec: Any) -> Json:
    """A node of 4 CPUs and 16Gi; what is left over goes into its spec."""
    resources = {"cpu": cpu, "memory": "16Gi", "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name} | (labels or {})},
        "spec": spec,
        "status": {"capacity": resources, "allocatable": resources},
    }


def pod(name: str, *, cpu: str = "100m", app: str = "", owner: str = "", **spec: Any) -> Json:
    """A pod; what is left over goes into its spec."""
    container: Json = {"name": "main", "image": "hollow:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    if port := spec.pop("port", 0):
        container["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]
    metadata: Json = {"name": name, "namespace": "default", "labels": {"app": app} if app else {}}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]} | spec}


def bound(name: str, at: str, **more: Any) -> Json:
    """A pod that is on its node already."""
    return pod(name, nodeName=at, **more)


def nominated(body: Json, to: str) -> Json:
    """The pod with a nomination."""
    return body | {"status": {"phase": "Pending", "nominatedNodeName": to}}


def near(app: str) -> Json:
    """A required affinity to pods of an app, node by node."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(app)]}}


def away(app: str) -> Json:
    """The opposite."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(app)]}}


def _term(app: str) -> Json:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}


class Stage:
    """The store, the scheduler, and words for what is in the one and done by the other."""

    def __init__(self) -> None:
        self.api = Api()
        self.store = self.api.store
        self.scheduler = Scheduler(self.api)
        self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})

    def put(self, *bodies: Json) -> None:
        """Have objects, whole and as they are."""
        for body in bodies:
            made = _whole(copy.deepcopy(body))
            kind = _KINDS.named(made["apiVersion"], made["kind"])
            assert kind is not None
            self.store.create(kind, made)

    def pod(self, name: str) -> Json:
        return self.api.get(Target(POD, "default", name))

    def answer(self, name: str) -> str:
        """The pod's node, or what its condition says; the reason too, where it isn't the usual one."""
        pod = self.pod(name)
        if pod["spec"].get("nodeName"):
            return str(pod["spec"]["nodeName"])
        said = self.condition(name)
        if not said:
            return ""
        return str(said["message"] if said["reason"] == "Unschedulable" else f"{said['reason']}: {said['message']}")

    def condition(self, name: str) -> Json:
        found = [each for each in self.pod(name)["status"].get("conditions", ()) if each["type"] == "PodScheduled"]
        return found[0] if found else {}

    def events(self, name: str) -> list[tuple[str, str, str]]:
        """Type, reason and message, in the order in which they were made."""
        made = [entry.object() for entry in sorted(self.store.entries(CORE_EVENT), key=_version)]
        about = [event for event in made if event["involvedObject"]["name"] == name]
        return [(event["type"], event["reason"], event["message"]) for event in about]

    def change(self, body: Json) -> None:
        """A new version of an object, whoever may have made it."""
        kind = _KINDS.named(body["apiVersion"], body["kind"])
        assert kind is not None
        key = (body["metadata"].get("namespace", ""), body["metadata"]["name"])
        entry = self.store.get(kind, key)
        assert entry is not None
        self.store.replace(kind, body, entry.version)

    async def remove(self, name: str) -> None:
        """Have a pod gone."""
        await self.api.delete(Target(POD, "default", name), Deletion(grace=0))

    async def settled(self) -> None:
        """Until the scheduler has done what it can."""
        await self._until(lambda: self.scheduler.idle)

    async def reaches(self, name: str, answer: str) -> None:
        """Until a pod has this node, or this message: refused pods are tried again after a moment."""
        await self._until(lambda: self.answer(name) == answer)

    async def _until(self, true: Callable[[], bool]) -> None:
        await asyncio.sleep(0)
        while not true():  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0)


@asynccontextmanager
async def staged(*bodies: Json, extender: Json | None = None) -> AsyncIterator[Stage]:
    """A running scheduler that has seen these objects."""
    stage = Stage()
    stage.put(*bodies)
    stage.scheduler.configure(extender)
    task = asyncio.create_task(stage.scheduler.run())
    try:
        async with asyncio.timeout(30):
            await stage.settled()
            yield stage
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    if not task.cancelled():
        task.result()


def _whole(body: Json) -> Json:
    """With what the API server and its admission would have filled in."""
    metadata = body["metadata"]
    metadata.setdefault("uid", str(uuid.uuid4()))
    metadata.setdefault("creationTimestamp", clock.stamp(clock.now()))
    if body["kind"] == NAMESPACE.name:
        metadata.setdefault("labels", {"kubernetes.io/metadata.name": metadata["name"]})
    if body["kind"] == POD.name:
        metadata.setdefault("generation", 1)
        body["spec"] = {"schedulerName": "default-scheduler", "priority": 0, "restartPolicy": "Always"} | body["spec"]
        body.setdefault("status", {"phase": "Running" if body["spec"].get("nodeName") else "Pending"})
    return body


def _version(entry: Entry) -> int:
    return entry.version
