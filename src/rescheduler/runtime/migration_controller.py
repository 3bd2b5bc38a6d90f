"""The migration controller: workers take keys of migrations from a queue and execute them.

A key is queued when its object changes, when a pod of its own or of the same controller changes, when another member
of its proposal changes, and when a timer fires. Moves of one controller are executed one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import structlog

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.structs import WORKLOADS
from rescheduler.migration.steps.common import AwaitMembers
from rescheduler.migration.steps.copy import AwaitReady, EvictOriginal, Land
from rescheduler.migration.steps.evict import (
    AwaitRebuilt,
    Evict,
    NominateRebuilt,
    PauseDeployment,
    Prefer,
    Restore,
    TakeTurn,
    UngateRebuilt,
)
from rescheduler.migration.steps.handoff import AwaitGone, Cheapen, HandOver
from rescheduler.migration.steps.placeholder import ReleaseRoom
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.objects import Pod, Workload
from rescheduler.runtime.executor import ControllerObserver, MigrationExecutor
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.reconciler import KeyedLock, Reconciler
from rescheduler.runtime.starting.gate import StartGate
from rescheduler.runtime.starting.limits import is_in_line, is_stuck

_log = structlog.stdlib.get_logger(__name__)
WORKERS = 24
_INDEPENDENT = frozenset(step.name for step in (AwaitMembers, Land, AwaitReady, AwaitGone))
"""Steps that depend on the original and its copy alone, unless the workload is rolled out."""
_IN_LINE = 5.0  # seconds between looks at a queued migration; the end of another one queues it earlier
_LAST_REQUESTS = 5.0  # seconds that workers have to finish their requests at shutdown
_RETRY_DELAY = 60.0  # seconds between tries once the back-off is exhausted
_LATELY = 60.0  # seconds; earlier ones had their last look, or are left to the garbage collector
_EVICTING = (PauseDeployment, Prefer, Evict, AwaitRebuilt, Restore, NominateRebuilt, ReleaseRoom, UngateRebuilt)
DELICATE = frozenset(step.name for step in (Cheapen, HandOver, EvictOriginal, *_EVICTING))
"""Steps in which a move should not be left at shutdown: something is paused, steered, held back, or to be replaced."""


class MigrationController(Reconciler[ObjectKey]):
    """Queues migrations and executes them."""

    noun = "migration"

    def __init__(
        self,
        executor: MigrationExecutor,
        gate: StartGate,
        migrations: MigrationCache,
        cache: ClusterCache,
        observer: ControllerObserver,
        now: Callable[[], float],
    ) -> None:
        super().__init__(WORKERS)
        self._executor = executor
        self._gate = gate
        self._migrations = migrations
        self._cache = cache
        self._observer = observer
        self._now = now
        self._locks = KeyedLock()
        self._closing = False
        self._progressed = asyncio.Event()
        """Set whenever a migration has changed or a worker has finished an attempt."""
        migrations.listen(self._migration_changed)
        cache.listen(self._object_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        for migration in self._migrations.all():
            finished = migration.status.completion_time
            if not migration.status.over or (finished is not None and self._now() - finished < _LATELY):
                self._queue.add(migration.key)
        await super().run()

    async def drain(self, grace: float) -> None:
        """Wait until no move is in a delicate step, for at most `grace` seconds; then let the workers finish.

        A move that is left in the middle loses nothing: every step is recorded, and the next leader continues.
        """
        try:
            async with asyncio.timeout(grace):
                await self._until(lambda: not any(each.status.step in DELICATE for each in self._migrations.active()))
        except TimeoutError:
            _log.warning("moves left unfinished, the next leader continues")
        self._closing = True
        try:
            async with asyncio.timeout(_LAST_REQUESTS):
                await self._until(lambda: self._queue.idle)
        except TimeoutError:
            _log.warning("API server does not answer, requests abandoned")

    def is_busy(self, key: ObjectKey) -> bool:
        """Whether a worker executes a migration now."""
        return self._queue.is_busy(key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Execute a migration, unless it would only be queued for a limit again."""
        if self._closing:
            return None
        migration = self._migrations.get(key)
        if migration is None:  # not seen yet, or deleted: the executor reads it
            return await self._executor.execute(key, self._now, self._migrations.members)
        if self._gate.still_waits(migration, self._now()) and self._has_pod(migration):
            return _IN_LINE
        with self._gate.reserve(migration):
            async with self._locks.acquire(_shared_owners(migration)):
                return await self._executor.execute(key, self._now, self._migrations.members)

    def retry_delay(self, key: ObjectKey) -> float | None:
        """Retry a migration under way forever: it must be ended or rolled back, however long that takes."""
        migration = self._migrations.get(key)
        under_way = migration is not None and migration.status.phase is Phase.IN_PROGRESS
        return _RETRY_DELAY if under_way else None

    def on_finish(self) -> None:
        """Wake `drain`."""
        self._progressed.set()

    async def _until(self, reached: Callable[[], bool]) -> None:
        """Wait for a condition that only the cache or a worker can change."""
        while not reached():
            self._progressed.clear()
            await self._progressed.wait()

    def _has_pod(self, migration: PodMigration) -> bool:
        """Whether the cache has the pod: a migration without a pod need not wait."""
        return self._cache.row("Pod", (migration.namespace, migration.spec.pod.name)) is not None

    def _migration_changed(self, key: ObjectKey, ours: bool) -> None:  # noqa: FBT001 - a listener of the cache
        self._progressed.set()
        migration = self._migrations.get(key)
        if not ours and migration is not None:
            self._queue.add(key)
        if migration is not None:
            for member in self._migrations.members(migration):
                self._queue.add(member.key)
            self._add_all(self._waiting_for(migration))
        if migration is None or migration.status.over or is_stuck(migration):
            self._add_next()

    def _waiting_for(self, migration: PodMigration) -> Iterator[ObjectKey]:
        """The migrations that wait for their turn because this one evicts a pod of the same controller."""
        controller = migration.status.controller
        for key in self._migrations.by_owner(controller.uid) if controller is not None else ():
            other = self._migrations.get(key)
            if other is not None and other.name != migration.name and other.status.step == TakeTurn.name:
                yield key

    def _add_next(self) -> None:
        """Queue the migrations that may start now that a limit may have room, the longest waiting first."""
        waiting = [each for each in self._migrations.active() if is_in_line(each)]
        for each in sorted(waiting, key=lambda one: (one.metadata.creation_timestamp or 0.0, one.namespace, one.name)):
            if not self._gate.still_waits(each, self._now()):
                self._queue.add(each.key)

    def _object_changed(self, kind: str, key: Any, version: str) -> None:
        if kind == "Pod":
            pod: Pod | None = self._cache.row(kind, key)
            about = self._migrations.by_pod(key)
            fellows = self._dependent(pod.owner.uid) if pod is not None and pod.owner is not None else set()
            self._add_all(fellows - about if self._observer.is_old(key, version) else fellows | about)
        elif kind in WORKLOADS:
            workload: Workload | None = self._cache.row(kind, key)
            if workload is not None:
                rolling = self._migrations.by_owner(workload.uid) if workload.changing else ()
                self._add_all(rolling or self._dependent(workload.uid))

    def _dependent(self, owner: str) -> set[ObjectKey]:
        """The migrations of an owner's pods whose step depends on the owner and on its other pods."""
        found = ((key, self._migrations.get(key)) for key in self._migrations.by_owner(owner))
        return {key for key, each in found if each is not None and each.status.step not in _INDEPENDENT}

    def _add_all(self, keys: Iterable[ObjectKey]) -> None:
        for key in keys:
            self._queue.add(key)


def _shared_owners(migration: PodMigration) -> tuple[str, ...]:
    """The UID of the controller, whose migrations under way are executed one at a time."""
    if migration.status.controller is None:
        return ()
    return (migration.status.controller.uid,) if migration.status.phase is Phase.IN_PROGRESS else ()
