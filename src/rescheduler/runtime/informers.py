"""Informers: one reflector per kind keeps the cluster cache and the migration cache up to date.

Every replica watches, leader or not. `wait_for_sync` waits for the first list of each kind. `stale` says what is not up
to date; nothing is planned on stale caches.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.structs import CRON_JOBS, RESOURCES, ApiResource
from rescheduler.kube.client import ApiClient
from rescheduler.kube.objects import MIGRATIONS
from rescheduler.kube.reflector import Reflector, Sink, wait_for_first_sync
from rescheduler.model.migration import ObjectReference
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.runtime.migration_cache import MigrationCache, MigrationSink

_log = structlog.stdlib.get_logger(__name__)
_LOG_EVERY = 10.0
# Measured usage cannot be watched.
WATCHED = tuple(resource for resource in RESOURCES if not resource.optional)

Overlay = Callable[[ClusterSnapshot], ClusterSnapshot]
"""Adds to a snapshot what no watch delivers, such as usage."""


@dataclass(frozen=True, slots=True)
class InformerStatus:
    """The state of one informer."""

    kind: str
    """The plural name, as in paths: `pods`."""
    objects: int
    lag: float | None
    """Seconds since the last sign of its watch; None before the first list."""
    failure: str
    """Why the cache is not up to date; empty if it is."""


class Informers:
    """The caches of the cluster, and the reflectors that keep them up to date."""

    def __init__(
        self, client: ApiClient, source: str, resources: Sequence[ApiResource] = (*WATCHED, CRON_JOBS, MIGRATIONS)
    ) -> None:
        self.now = client.clock.now
        self.cache = ClusterCache(source)
        self.migrations = MigrationCache()
        self._overlays: list[Overlay] = []
        self._resources = {resource.plural: resource for resource in resources}
        self._reflectors = {
            resource.plural: Reflector(client, resource.path, self._sink(resource)) for resource in resources
        }

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors.values():
                group.create_task(reflector.run())

    async def wait_for_sync(self) -> None:
        """Wait for the first list of every kind, and log which ones are missing."""
        started = time.monotonic()
        syncing = asyncio.ensure_future(wait_for_first_sync(self._reflectors.values()))
        try:
            while not (await asyncio.wait([syncing], timeout=_LOG_EVERY))[0]:
                for plural, reflector in self._reflectors.items():
                    if not reflector.synced.is_set():
                        _log.info("waiting for the first list", kind=plural, why=reflector.failure or None)
            await syncing
        finally:
            syncing.cancel()
        nodes, pods = self.cache.count("Node"), self.cache.count("Pod")
        _log.info("caches synced", nodes=nodes, pods=pods, seconds=round(time.monotonic() - started, 3))

    def unsynced(self) -> str:
        """The kinds that have not been listed yet; empty if all have."""
        missing = [plural for plural, each in self._reflectors.items() if not each.synced.is_set()]
        return f"being read: {', '.join(missing)}" if missing else ""

    def why_not_ready(self) -> str:
        """Why the caches cannot be relied on: not synced yet, or not up to date."""
        return self.unsynced() or self.stale()

    def stale(self) -> str:
        """The kinds that are not up to date, and why; empty if all are."""
        failing = [f"{plural}: {each.failure}" for plural, each in self._reflectors.items() if each.failure]
        return "; ".join(failing)

    def statuses(self) -> list[InformerStatus]:
        """The state of each informer, for metrics and the page."""
        return [
            InformerStatus(plural, self._count(self._resources[plural]), each.lag, each.failure)
            for plural, each in self._reflectors.items()
        ]

    def capture(self) -> Callable[[], ClusterSnapshot]:
        """Capture the caches; the result builds the snapshot, in a thread if need be (see `ClusterCache.capture`)."""
        copied, overlays = self.cache.capture(self.now()), tuple(self._overlays)

        def whole() -> ClusterSnapshot:
            snapshot = copied()
            for overlay in overlays:
                snapshot = overlay(snapshot)
            return snapshot

        return whole

    def replicas(self, namespace: str, owner: ObjectReference) -> int | None:
        """The replicas that a workload should have; None if unknown."""
        found = self.cache.workload(namespace, owner)
        return found.replicas if found is not None else None

    def add_overlay(self, overlay: Overlay) -> None:
        """Apply the overlay to every snapshot from now on, possibly in a thread."""
        self._overlays.append(overlay)

    def _count(self, resource: ApiResource) -> int:
        return self.migrations.count() if resource is MIGRATIONS else self.cache.count(resource.kind)

    def _sink(self, resource: ApiResource) -> Sink:
        return MigrationSink(self.migrations) if resource is MIGRATIONS else self.cache.sink(resource.kind)
