"""The embedded cluster as a whole: started and ended by one line, leaving nothing behind.

    async with EmbeddedCluster() as cluster:
        await cluster.add_nodes(3)
        ...  # talk to cluster.url with cluster.token, or write cluster.kubeconfig() to a file for kubectl

The demo and the fast tests run on it. Here the parts are put together: the API with its admission, the HTTP server,
the controllers, the scheduler and the kubelets, all in the event loop that enters it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from kubemini.admission import AdmissionChain
from kubemini.api import Api, Target
from kubemini.controllers.base import Controller, Runner
from kubemini.controllers.daemon_set import DaemonSetController
from kubemini.controllers.deployment import DeploymentController
from kubemini.controllers.disruption import DisruptionController
from kubemini.controllers.garbage_collector import EventExpiry, GarbageCollector
from kubemini.controllers.job import JobController
from kubemini.controllers.namespaces import NamespaceController, ServiceAccountController
from kubemini.controllers.node_lifecycle import NodeLifecycleController
from kubemini.controllers.pod_eviction import QUARANTINE, PodGarbageCollector, TaintEvictionController
from kubemini.controllers.replica_set import ReplicaSetController
from kubemini.controllers.stateful_set import StatefulSetController
from kubemini.controllers.volumes import VolumeController
from kubemini.definitions import CrdController
from kubemini.kinds import NAMESPACE, NODE, NODE_METRICS, POD_METRICS, PRIORITY_CLASS
from kubemini.kubelet.node import HeartbeatController, NodeShape, node
from kubemini.kubelet.pods import PodController
from kubemini.scheduler.scheduler import Scheduler
from kubemini.server.app import Server
from kubemini.store import Store

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITY_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_REST = 0.02  # seconds: a hundred pods that start at once are one change to their ReplicaSet
_CONTROLLERS: tuple[type[Any], ...] = (
    CrdController,
    ServiceAccountController,
    NamespaceController,
    GarbageCollector,
    DeploymentController,
    ReplicaSetController,
    StatefulSetController,
    DaemonSetController,
    JobController,
    DisruptionController,
    TaintEvictionController,
    VolumeController,
    EventExpiry,
)


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """Intervals and timeouts of kubelet heartbeats, in seconds.

    A dead kubelet is noticed sooner than after the 40 s of a real cluster, so that demos and tests need not wait.
    """

    renewed_every: float = 3.0
    grace: float = 12.0
    """For how long one may be silent; several times as long as a renewal takes to come."""
    lost_after: float = QUARANTINE
    """For how long a node is gone before its pods are, too."""


class EmbeddedCluster:
    """One running cluster."""

    def __init__(self, heartbeat: HeartbeatSettings | None = None) -> None:
        heartbeat = heartbeat or HeartbeatSettings()
        store = Store()
        self._admission = AdmissionChain(store)
        self.api = Api(store, admission=self._admission)
        self.token = secrets.token_urlsafe(24)
        self.scheduler = Scheduler(self.api)
        self._server = Server(self.api, self.token)
        nodes = NodeLifecycleController(self.api, heartbeat.grace)
        garbage = PodGarbageCollector(self.api, heartbeat.lost_after)
        controllers: list[Controller] = [nodes, garbage, *(make(self.api) for make in _CONTROLLERS)]
        kubelets: list[Controller] = [PodController(self.api), HeartbeatController(self.api, heartbeat.renewed_every)]
        self._runners = [
            *(Runner(store, controller, _REST) for controller in controllers),
            *(Runner(store, kubelet) for kubelet in kubelets),
        ]
        self._stack = contextlib.AsyncExitStack()
        self._numbered = 0

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            await self._make_first_objects()
            stack.push_async_callback(self._admission.close)
            await self._server.start()
            stack.push_async_callback(self._server.close)
            # A part that fails cancels the others and the task that uses the cluster, and is raised at the end.
            parts = await stack.enter_async_context(asyncio.TaskGroup())
            for work in (self.scheduler.run(), *(runner.run() for runner in self._runners)):
                stack.callback(parts.create_task(work).cancel)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    @property
    def url(self) -> str:
        """Where the API is served."""
        return self._server.url

    @property
    def idle(self) -> bool:
        """Whether no part has work now. Work that waits for its time (a slow start, a heartbeat) does not count."""
        return self.scheduler.idle and all(runner.idle for runner in self._runners)

    def kubeconfig(self) -> dict[str, Any]:
        """A kubeconfig. The token is in the address, because Go clients send none without TLS."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "embedded", "cluster": {"server": self._server.private_url}}],
            "users": [{"name": "embedded", "user": {}}],
            "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "embedded"}}],
            "current-context": "embedded",
        }

    @contextlib.contextmanager
    def kubeconfig_file(self) -> Iterator[Path]:
        """A file with the kubeconfig that only this user may read, for the block."""
        with tempfile.TemporaryDirectory(prefix="rescheduler-") as folder:
            path = Path(folder) / "kubeconfig"
            path.touch(mode=0o600)
            path.write_text(yaml.safe_dump(self.kubeconfig()))
            yield path

    async def add_nodes(self, count: int, shape: NodeShape | None = None, *, prefix: str = "node") -> list[str]:
        """Have more kubelets register; they are numbered on, so that names never repeat."""
        first, self._numbered = self._numbered, self._numbered + count
        names = [f"{prefix}-{number}" for number in range(first, self._numbered)]
        for number, name in enumerate(names, first):
            await self.api.create(Target(NODE, name=name), node(name, number, shape or NodeShape()))
        return names

    def serve_metrics(self) -> None:
        """Serve metrics.k8s.io from now on, as a cluster with metrics-server does."""
        for kind in (NODE_METRICS, POD_METRICS):
            self.api.kinds.add(kind)

    def end_metrics(self) -> None:
        """Serve it no longer."""
        for kind in (NODE_METRICS, POD_METRICS):
            self.api.kinds.remove(kind)

    async def _make_first_objects(self) -> None:
        for name in _NAMESPACES:
            await self.api.create(Target(NAMESPACE, name=name), {"metadata": {"name": name}})
        for name, value in _PRIORITY_CLASSES.items():
            body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"}
            await self.api.create(Target(PRIORITY_CLASS, name=name), body)
