"""A page without a cluster: its parts are the controller's own, and the test puts into the cache what a watch would.

`Stage` holds them; `served` serves them on a free port with the real server, and `asked` asks it as a browser would.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import msgspec

from rescheduler.app import planning as app
from rescheduler.app.context import AppContext, UsageMonitor
from rescheduler.app.servers import Page, make_page
from rescheduler.config.live import LiveConfig
from rescheduler.kube.client import ApiClient, ServerClock
from rescheduler.kube.connection import Connection
from rescheduler.kube.pause_state import PauseDetails, PauseStore
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationSpec, MigrationStatus, PodMigration
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.starting.holds import PauseWatcher
from rescheduler.runtime.usage_poller import UsagePoller
from rescheduler.web.metrics import Metrics
from rescheduler.web.server import WebApp, serve
from tests.support.pod_migrations import pod_migration

HERE = "127.0.0.1"
NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
CREATED = "2027-01-15T07:00:00Z"
IDENTITY = "replica-1"


@dataclass
class Clock:
    """Stands still until it is moved."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


class _Client:
    """All that watching needs of a client before it runs."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.clock = ServerClock(now)


class Read(Informers):
    """Watching that has read everything: what the test has put there is all there is."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(cast("ApiClient", _Client(now)), "the test's cluster")
        self.lacks = ""

    def unsynced(self) -> str:
        return self.lacks


class _Usage:
    """The source of usage for a stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    @property
    def current(self) -> UsagePoller | None:
        return self._stage.metering


@dataclass
class Stage:
    """A cluster in memory and the page that shows it."""

    overrides: Mapping[str, object] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    pause: PauseDetails | None = None
    local: bool = False
    metering: UsagePoller | None = None

    def __post_init__(self) -> None:
        self.watching = Read(self.clock)
        self.live_config = LiveConfig(app.load_configuration(None, {"minPodAge": "0s", **self.overrides}), self.clock())
        own = cast("ApiClient", _Client(self.clock))
        context = AppContext(
            live=self.live_config,
            own=own,
            client=own,
            connection=cast("Connection", SimpleNamespace(source="the test's cluster")),
            namespace="ours",
            identity=IDENTITY,
            informers=self.watching,
            election=None,
            pause_store=cast("PauseStore", None),
            pauses=cast("PauseWatcher", self),
            metrics=Metrics(),
            usage=cast("UsageMonitor", _Usage(self)),
        )
        self.page: Page = make_page(context, {"caches": self.watching.why_not_ready}, local=self.local)

    def current(self) -> PauseDetails | None:
        """The pause, as a watcher has it."""
        return self.pause

    def put(self, kind: str, body: Json) -> None:
        """An object comes or changes."""
        self.watching.cache.put(kind, msgspec.json.encode(body))

    def node(self, name: str, *, cpu: str = "4", memory: str = "8Gi", **more: Any) -> None:
        """A node comes or changes."""
        self.put("Node", node(name, cpu=cpu, memory=memory, **more))

    def pod(self, name: str, on: str, **more: Any) -> None:
        """A pod comes or changes."""
        self.put("Pod", pod(name, on, **more))

    def migration(
        self, name: str, order: MigrationSpec, progress: MigrationStatus | None = None, **more: Any
    ) -> PodMigration:
        """A migration comes or changes; each has a newer version than all before."""
        self._versions = getattr(self, "_versions", 0) + 1
        made = pod_migration(
            "shop", name, order, progress or MigrationStatus(), f"{name}-uid", str(self._versions), **more
        )
        self.watching.migrations.put(made)
        return made


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    ready: bool = True,
    **spec: Any,
) -> Json:
    """A node's object."""
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def pod(
    name: str,
    on: str = "",
    *,
    namespace: str = "shop",
    cpu: str = "500m",
    memory: str = "512Mi",
    phase: str = "Running",
    nominated: str = "",
    owner: str = "",
) -> Json:
    """A pod's object; its owner is a ReplicaSet."""
    references = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "rs", "controller": True}]
    ready = "True" if phase == "Running" else "False"
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}-{name}",
            "labels": {"app": "web", "pod-template-hash": "abc"},
            "creationTimestamp": CREATED,
            "ownerReferences": references if owner else [],
        },
        "spec": {
            "nodeName": on,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        },
        "status": {
            "phase": phase,
            "nominatedNodeName": nominated,
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


@asynccontextmanager
async def served(stage: Stage) -> AsyncGenerator[str]:
    """Serve the page with the real server; gives its address."""
    async with serve(WebApp(Metrics(), {}, parts=[stage.page.api]), HERE, 0) as port:
        yield f"http://{HERE}:{port}"


async def ask(address: str, path: str, **options: Any) -> tuple[int, Any]:
    """The status and the JSON of an answer."""
    async with aiohttp.ClientSession() as session, session.get(address + path, **options) as answer:
        return answer.status, await answer.json()
