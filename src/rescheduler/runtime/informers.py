"""Follows the cluster: one reflector a kind, into the cache that is planned on and onto the board of migrations.

Every replica watches, leader or not. `synced` waits for the first whole state; `stale` tells what is not up to date,
because on that nothing is planned.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.structs import RESOURCES, WORKLOADS, ApiResource
from rescheduler.kube.client import ApiClient
from rescheduler.kube.reflector import Reflector, Sink, wait_for_first_sync
from rescheduler.model.migration import ObjectReference
from rescheduler.model.objects import Workload
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.runtime.migration_cache import MigrationCache, MigrationSink

_log = structlog.stdlib.get_logger(__name__)
_TOLD_EVERY = 10.0
MIGRATIONS = ApiResource("PodMigration", "rescheduler.io/v1alpha1", "/apis/rescheduler.io/v1alpha1/podmigrations")
CRON_JOBS = ApiResource("CronJob", "batch/v1", "/apis/batch/v1/cronjobs")
"""Only the controller reads them: their annotations speak for the pods of their Jobs."""
# Measured usage cannot be watched, only asked for.
WATCHED = tuple(resource for resource in RESOURCES if not resource.optional)

Overlay = Callable[[ClusterSnapshot], ClusterSnapshot]
"""Adds to a snapshot what no watch tells, such as what is measured."""


@dataclass(frozen=True, slots=True)
class InformerStatus:
    """How well one kind is known."""

    kind: str
    """As paths name it: `pods`."""
    objects: int
    lag: float | None
    """Seconds since the last sign of its watch; None while it has not been read even once."""
    failure: str
    """Why the copy is not up to date; empty when it is."""


class Informers:
    """The copy of the cluster and what keeps it up to date."""

    def __init__(
        self, client: ApiClient, source: str, resources: Sequence[ApiResource] = (*WATCHED, CRON_JOBS, MIGRATIONS)
    ) -> None:
        self._now = client.clock.now
        self.cache = ClusterCache(source)
        self.migrations = MigrationCache()
        self._overlays: list[Overlay] = []
        self._resources = {resource.plural: resource for resource in resources}
        self._reflectors = {
            resource.plural: Reflector(client, resource, self._sink(resource)) for resource in resources
        }

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors.values():
                group.create_task(reflector.run())

    async def wait_for_sync(self) -> None:
        """Wait until everything has been read once, and say what is being waited for."""
        started = time.monotonic()
        syncing = asyncio.ensure_future(wait_for_first_sync(self._reflectors.values()))
        try:
            while not (await asyncio.wait([syncing], timeout=_TOLD_EVERY))[0]:
                for plural, reflector in self._reflectors.items():
                    if not reflector.synced.is_set():
                        _log.info("waiting for the first list", kind=plural, why=reflector.failure or "being read")
            await syncing
        finally:
            syncing.cancel()
        nodes, pods = self.cache.count("Node"), self.cache.count("Pod")
        _log.info("the cluster is known", nodes=nodes, pods=pods, seconds=round(time.monotonic() - started, 3))

    def unsynced(self) -> str:
        """What has not been read even once; empty when all has."""
        missing = [plural for plural, each in self._reflectors.items() if not each.synced.is_set()]
        return f"being read: {', '.join(missing)}" if missing else ""

    def why_not_ready(self) -> str:
        """Why what is known may not be true: it is not read yet, or not up to date."""
        return self.unsynced() or self.stale()

    def stale(self) -> str:
        """Which kinds are not up to date, and why; empty when all are."""
        failing = [f"{plural}: {each.failure}" for plural, each in self._reflectors.items() if each.failure]
        return "; ".join(failing)

    def statuses(self) -> list[InformerStatus]:
        """How well each kind is known, for metrics and the page."""
        return [
            InformerStatus(plural, self._count(self._resources[plural]), each.lag, each.failure)
            for plural, each in self._reflectors.items()
        ]

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as it is known now."""
        return self.capture()()

    def capture(self) -> Callable[[], ClusterSnapshot]:
        """What makes the snapshot of now, in a thread if need be: see `Cache.copied`."""
        copied, overlays = self.cache.copied(self._now()), tuple(self._overlays)

        def whole() -> ClusterSnapshot:
            snapshot = copied()
            for overlay in overlays:
                snapshot = overlay(snapshot)
            return snapshot

        return whole

    def replicas(self, namespace: str, owner: ObjectReference) -> int | None:
        """How many pods a workload should have; None where that is not known."""
        if owner.kind not in WORKLOADS:
            return None
        found: Workload | None = self.cache.row(owner.kind, (owner.kind, namespace, owner.name))
        return found.replicas if found is not None else None

    def add_overlay(self, overlay: Overlay) -> None:
        """Have every snapshot from now on say what else is known of the cluster; it may be asked in a thread."""
        self._overlays.append(overlay)

    def _count(self, resource: ApiResource) -> int:
        return self.migrations.count() if resource is MIGRATIONS else self.cache.count(resource.kind)

    def _sink(self, resource: ApiResource) -> Sink:
        return MigrationSink(self.migrations) if resource is MIGRATIONS else self.cache.sink(resource.kind)
