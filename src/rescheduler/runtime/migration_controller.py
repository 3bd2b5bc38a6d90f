"""Carries migrations out: workers take keys from a queue and have the migrator work on them.

What may bring a migration on puts its key into the queue: a change of its object, of its pods, of a pod of the same
controller, of another member of its proposal; else time does. Moves of one controller take turns. An error ends
nothing but the attempt: it is told, and tried again ever more slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import structlog

from rescheduler.decode.cache import Changed
from rescheduler.decode.structs import WORKLOADS
from rescheduler.kube.errors import ClusterError
from rescheduler.migration.steps.common import AwaitMembers, AwaitReady, Land
from rescheduler.migration.steps.copy import EvictOriginal
from rescheduler.migration.steps.evict import (
    Evict,
    NominateRebuilt,
    PauseDeployment,
    Prefer,
    ReleaseRoom,
    TakeTurn,
    UngateRebuilt,
)
from rescheduler.migration.steps.handoff import AwaitGone, Cheapen, HandOver
from rescheduler.migration.steps.rebuild import AwaitRebuilt, Restore
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.objects import Pod, Workload
from rescheduler.runtime.executor import MigrationExecutor
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.reconciler import KeyedLock, WorkQueue
from rescheduler.runtime.starting.gate import StartGate
from rescheduler.runtime.starting.limits import is_in_line

_log = structlog.stdlib.get_logger(__name__)
WORKERS = 24
_HEEDLESS = frozenset(step.name for step in (AwaitMembers, Land, AwaitReady, AwaitGone))
"""Steps that wait for the original or its copy alone."""
_IN_LINE = 5.0  # seconds between looks at what waits its turn; whoever ends calls the others, too
_LAST_REQUESTS = 5.0  # seconds that workers have to come to an end when everything does
_STUBBORN = 60.0  # seconds between tries when all tries with back-off have failed
_LATELY = 60.0  # seconds; what ended before has been looked at after its end, or is the janitor's
_EVICTING = (PauseDeployment, Prefer, Evict, AwaitRebuilt, Restore, NominateRebuilt, ReleaseRoom, UngateRebuilt)
DELICATE = frozenset(step.name for step in (Cheapen, HandOver, EvictOriginal, *_EVICTING))
"""Steps in which a move is better not left for long: something is paused, steered, held back, or to be replaced."""


class Changes(Protocol):
    """Who tells of changes in the cluster, and what has been seen of them."""

    def listen(self, listener: Changed) -> None: ...
    def row(self, kind: str, key: Any) -> Any: ...
    def is_old(self, pod: ObjectKey, version: str) -> bool: ...


class MigrationController:
    """The workers and their queue."""

    def __init__(
        self,
        migrator: MigrationExecutor,
        gatekeeper: StartGate,
        board: MigrationCache,
        changes: Changes,
        now: Callable[[], float],
    ) -> None:
        self._migrator = migrator
        self._gatekeeper = gatekeeper
        self._now = now
        self._board = board
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
        self._turns = KeyedLock()
        self._changes = changes
        self._closing = False
        self._stirred = asyncio.Event()
        """Set whenever a migration has changed or a worker is done."""
        board.listen(self._migration_changed)
        changes.listen(self._object_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        for migration in self._board.all():
            finished = migration.status.completion_time
            if not migration.status.over or (finished is not None and self._now() - finished < _LATELY):
                self._queue.add((migration.namespace, migration.name))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(WORKERS):
                    group.create_task(self._work())
        finally:
            self._queue.close()

    async def drain(self, grace: float) -> None:
        """Bring what is in a delicate step to a better one, for at most `grace` seconds; then let the workers end.

        Nothing is lost by what is left in the middle: every step is recorded, and the next leader goes on from there.
        """
        try:
            async with asyncio.timeout(grace):
                await self._until(lambda: not any(each.status.step in DELICATE for each in self._board.active()))
        except TimeoutError:
            _log.warning("some moves are left in the middle; the next leader goes on with them")
        self._closing = True
        try:
            async with asyncio.timeout(_LAST_REQUESTS):
                await self._until(lambda: self._queue.idle)
        except TimeoutError:
            _log.warning("the API server does not answer; requests are given up")

    def is_busy(self, key: ObjectKey) -> bool:
        """Whether a worker works on a migration just now."""
        return self._queue.is_busy(key)

    async def _until(self, reached: Callable[[], bool]) -> None:
        """Wait for something that only the board or a worker can bring about."""
        while not reached():
            self._stirred.clear()
            await self._stirred.wait()

    async def _work(self) -> None:
        while True:
            key = await self._queue.take()
            try:
                again = None if self._closing else await self.reconcile(key)
            except ClusterError as error:
                self._failed(key, str(error))
            except Exception as error:  # noqa: BLE001 - one bad object never stops the loop
                _log.exception("a bug of ours, or an object that makes no sense", migration="/".join(key))
                self._failed(key, f"{type(error).__name__}: {error}")
            else:
                self._queue.done(key, again)
            self._stirred.set()

    async def reconcile(self, key: ObjectKey) -> float | None:
        migration = self._board.get(key)
        if migration is None:  # not seen yet, or gone: the migrator finds out
            return await self._migrator.execute(key, self._now, self._board.members)
        if self._gatekeeper.still_waits(migration, self._now()) and self._has_pod(migration):
            return _IN_LINE
        with self._gatekeeper.reserve(migration):
            async with self._turns.acquire(self._shared(migration)):
                return await self._migrator.execute(key, self._now, self._board.members)

    def _has_pod(self, migration: PodMigration) -> bool:
        """Whether the pod is there, as far as we know: without it, there is nothing to wait for."""
        return self._changes.row("Pod", (migration.namespace, migration.spec.pod.name)) is not None

    def _shared(self, migration: PodMigration) -> tuple[str, ...]:
        """What only one migration at a time may work on."""
        if migration.status.controller is None:
            return ()
        return (migration.status.controller.uid,) if migration.status.phase is Phase.IN_PROGRESS else ()

    def _failed(self, key: ObjectKey, why: str) -> None:
        delay = self._queue.failed(key)
        migration = self._board.get(key)
        if delay is None and migration is not None and migration.status.phase is Phase.IN_PROGRESS:
            delay = _STUBBORN  # what it has begun must be ended or taken back, however long it takes
            self._queue.add_later(key, delay)
        when = "when something changes" if delay is None else f"in {delay:.1f} s"
        _log.warning("could not go on", migration="/".join(key), why=why, again=when)

    def _migration_changed(self, key: ObjectKey, ours: bool) -> None:  # noqa: FBT001 - as the board tells it
        self._stirred.set()
        migration = self._board.get(key)
        if not ours and migration is not None:
            self._queue.add(key)
        if migration is not None:
            for member in self._board.members(migration):
                self._queue.add((member.namespace, member.name))
            self._concerns(self._waiting_for(migration))
        if migration is None or migration.status.over:
            self._call_next()

    def _waiting_for(self, migration: PodMigration) -> Iterator[ObjectKey]:
        """The migrations that wait for their turn, because one evicts a pod of the same controller."""
        controller = migration.status.controller
        for key in self._board.by_owner(controller.uid) if controller is not None else ():
            other = self._board.get(key)
            if other is not None and other.name != migration.name and other.status.step == TakeTurn.name:
                yield key

    def _call_next(self) -> None:
        """A turn may be free: those that wait are looked at, the longest waiting first."""
        waiting = [each for each in self._board.active() if is_in_line(each)]
        for each in sorted(waiting, key=lambda one: (one.metadata.creation_timestamp or 0.0, one.namespace, one.name)):
            if not self._gatekeeper.still_waits(each, self._now()):
                self._queue.add((each.namespace, each.name))

    def _object_changed(self, kind: str, key: Any, version: str) -> None:
        if kind == "Pod":
            pod: Pod | None = self._changes.row(kind, key)
            about = self._board.by_pod(key)
            fellows = self._heedful(pod.owner.uid) if pod is not None and pod.owner is not None else set()
            self._concerns(fellows - about if self._changes.is_old(key, version) else fellows | about)
        elif kind in WORKLOADS:
            workload: Workload | None = self._changes.row(kind, key)
            if workload is not None:
                self._concerns(self._heedful(workload.uid))

    def _heedful(self, owner: str) -> set[ObjectKey]:
        """The migrations of an owner's pods that go by what becomes of it and of its other pods."""
        found = ((key, self._board.get(key)) for key in self._board.by_owner(owner))
        return {key for key, each in found if each is not None and each.status.step not in _HEEDLESS}

    def _concerns(self, keys: Iterable[ObjectKey]) -> None:
        for key in keys:
            self._queue.add(key)
