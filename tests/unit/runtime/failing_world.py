"""Objects for the tests of recovery, as the API server gives them out: small, with what recovery reads of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from rescheduler.decode.cache import ClusterCache
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.time import format_instant
from tests.support.virtual_time import clock, in_virtual_time
from tests.unit.runtime.migrations import NOW

SPACE = "shop"
ASKS = {labels.SCHEDULING_RETRIES: "2"}
RECORD = {labels.FAILURES: '{"count":1}'}
_GROUPS = {"Pod": "v1", "Node": "v1", "Job": "batch/v1", "CronJob": "batch/v1"}


def body(kind: str, name: str, notes: dict[str, str] | None = None, of: Json | None = None, **more: Any) -> Json:
    """An object; `of` is its controller."""
    metadata: Json = {"name": name, "uid": f"{name}-uid", "resourceVersion": "1", "annotations": notes or {}}
    metadata["creationTimestamp"] = format_instant(NOW)
    if kind != "Node":
        metadata["namespace"] = SPACE
    if of is not None:
        metadata["ownerReferences"] = [
            {"apiVersion": of["apiVersion"], "kind": of["kind"], "name": of["metadata"]["name"]}
            | {"uid": of["metadata"]["uid"], "controller": True}
        ]
    made: Json = {"apiVersion": _GROUPS.get(kind, "apps/v1"), "kind": kind, "metadata": metadata, "spec": {}}
    return made | more


def pod(name: str, of: Json | None = None, notes: dict[str, str] | None = None, **status: Any) -> Json:
    """A pod that runs well on node one, unless its status says otherwise."""
    node = status.pop("node", "one")
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_instant(NOW)}
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "hollow"}]}
    return body("Pod", name, notes, of, spec=spec, status={"phase": "Running", "conditions": [ready]} | status)


def crashing(name: str, of: Json | None = None, notes: dict[str, str] | None = None, restarts: int = 5) -> Json:
    """A pod in a crash loop on node one."""
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    status = {"name": "main", "state": waiting, "restartCount": restarts, "ready": False}
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": format_instant(NOW - 60)}
    return pod(name, of, notes, containerStatuses=[status], conditions=[condition])


def starting(name: str, of: Json | None = None, notes: dict[str, str] | None = None) -> Json:
    """A pod that is on node one and has not started."""
    return pod(name, of, notes, phase="Pending", conditions=[])


def node(name: str, *, ready: bool = True) -> Json:
    """A node; what is not ready has become so just now."""
    since = format_instant(NOW + clock())
    condition = {"type": "Ready", "status": "True" if ready else "Unknown", "lastTransitionTime": since}
    return body("Node", name, status={"conditions": [condition]})


def told(cache: ClusterCache, *bodies: Json) -> None:
    """The watch tells of these."""
    for each in bodies:
        cache.put(each["kind"], json.dumps(each).encode())


def beside(running: Callable[[], Awaitable[None]], story: Callable[[], Awaitable[None]]) -> None:
    """A loop at work in virtual time while a story is told."""

    async def both() -> None:
        task = asyncio.ensure_future(running())
        try:
            await asyncio.sleep(1)
            await story()
            assert not task.done(), "it has ended by itself"
        finally:
            task.cancel()
            await asyncio.wait([task])

    in_virtual_time(both)()
