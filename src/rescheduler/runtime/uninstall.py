"""Removes everything of the controller from a cluster before an uninstall, for `rescheduler cleanup`.

Running migrations are rolled back and orphans cleaned up first. Then the trace of finished moves is taken off pods:
cool-downs and people read it while the controller is installed, and it has no use afterwards.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.structs import CRON_JOBS, RESOURCES, WORKLOADS, ApiResource
from rescheduler.kube.client import ApiClient, ListPage
from rescheduler.kube.errors import ApiError
from rescheduler.kube.migrations import MigrationClient, StaleError
from rescheduler.kube.objects import CommandSender, ObjectClient, list_cluster
from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration import rollback
from rescheduler.migration.commands import Command, delete, patch
from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.migration.observation import StepContext
from rescheduler.migration.settings import MigrationSettings
from rescheduler.migration.steps.common import erase_trace
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.runtime.executor import MigrationExecutor
from rescheduler.runtime.maintenance import CordonController
from rescheduler.runtime.orphans import WATCHED, MarkedObject, OrphanCleaner
from rescheduler.runtime.starting.gate import StartDecision


def find_traced(cache: ClusterCache) -> Iterator[MarkedObject]:
    """Yield pods with the trace of a finished move, and no mark of a running one."""
    for row in cache.rows("Pod"):
        trace = (*labels.TRACE_LABELS, *labels.TRACE_ANNOTATIONS)
        has_trace = any(key in row.labels or key in row.annotations for key in trace)
        if has_trace and not rollback.names_on_pod(row.labels, row.annotations):
            yield MarkedObject("Pod", row.namespace, row.name)


def _without_trace(pod: Json) -> Json:
    """Return the patch of a pod's metadata that removes the trace; empty if there is nothing to remove."""
    if rollback.names_on(pod):
        return {}
    return erase_trace(pod)


# Deployments first: their controller copies annotations to ReplicaSets.
KINDS = ("Deployment", *sorted(WORKLOADS - {"Deployment"}), "Pod")


def find_recorded(cache: ClusterCache) -> Iterator[MarkedObject]:
    """Yield workloads and pods with a record of failures."""
    for kind in KINDS:
        for row in cache.rows(kind):
            if row.annotations and labels.FAILURES in row.annotations:
                yield MarkedObject(kind, row.namespace, row.name)


def _without_record(workload: Json) -> Json:
    """Return the patch of a workload's metadata that removes the record; empty if there is none."""
    return {"annotations": {labels.FAILURES: None}} if labels.FAILURES in annotations_of(workload) else {}


_REASON = "undone by rescheduler cleanup"
_PATIENCE = 120.0  # seconds for one migration to be rolled back: a copy that ends has its grace period
_ROUNDS = 5  # each lists the cluster again: controllers may copy annotations late
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class UninstallResult:
    """What was undone, and what could not be."""

    migrations: int = 0
    things: int = 0
    left: tuple[str, ...] = ()


class Uninstaller:
    """One cleanup; calls `tell` with a line of text for each thing that it undoes."""

    def __init__(self, client: ApiClient, settings: MigrationSettings, tell: Tell) -> None:
        self._client = client
        self._tell = tell
        self._migration_client, self._observer, self._writer = (
            MigrationClient(client),
            MigrationObserver(client),
            CommandSender(client),
        )
        self._lifecycle = Lifecycle(settings)
        self._executor = MigrationExecutor(
            self._migration_client, self._observer, self._writer, lambda: self._lifecycle, _never
        )
        self._ended: dict[tuple[str, str], Phase] = {}
        self._things = 0

    async def run(self) -> UninstallResult:
        """Undo everything."""
        migrations, left = await self._read_migrations()
        for migration in migrations:
            if not await self._roll_back(migration):
                left.append(f"migration {migration.full_name} is still being rolled back")
        left += await self._clean()
        removed = 0 if left else await self._delete_migrations()
        return UninstallResult(removed, self._things, tuple(left))

    async def preview(self) -> list[str]:
        """What `run` would do, as far as that can be known beforehand."""
        migrations, _ = await self._read_migrations()
        lines = [f"roll back migration {each.full_name}" for each in migrations if not each.status.over]
        cache = await self._list()
        todo, _ = await self._cleaner(cache).preview(self._fate)
        lines += [str(command) for command in todo]
        lines += [f"patch Node {row.name}: take our cordon down" for row in cache.rows("Node") if row.cordoned]
        lines += [f"patch {_title(each)}: forget where its pods failed" for each in find_recorded(cache)]
        lines += [f"patch {_title(each)}: take the trace of its move off" for each in find_traced(cache)]
        bodies = await self._list_migrations()
        return lines + [f"delete PodMigration {_full_name(body)}: nothing is left of it" for body in bodies]

    async def _read_migrations(self) -> tuple[list[PodMigration], list[str]]:
        """All migrations, after reporting malformed ones; none if the kind is not installed."""
        try:
            migrations, complaints = await self._migration_client.all()
        except ApiError as error:
            if error.status != 404:
                raise
            return [], []
        for complaint in complaints:
            self._tell(f"{complaint}; whatever is marked with its name is undone")
        return migrations, []

    async def _roll_back(self, migration: PodMigration) -> bool:
        """Roll a migration back; False if it takes too long."""
        key = (migration.namespace, migration.name)
        found: PodMigration | None = migration
        try:
            async with asyncio.timeout(_PATIENCE):
                while found is not None and not found.status.over:
                    await self._cancel(found)
                    wait = await self._executor.execute(key, time.time, lambda _: ())
                    found = await self._migration_client.read(*key)
                    if found is not None and not found.status.over:
                        await asyncio.sleep(wait or 0.0)
        except TimeoutError:
            return False
        if found is not None:
            self._ended[key] = found.status.phase
            if not migration.status.over:
                how = "finished" if found.status.phase is Phase.COMPLETED else "rolled back"
                self._tell(f"{how} migration {migration.full_name}")
        return True

    async def _cancel(self, migration: PodMigration) -> None:
        scene = StepContext(migration, await self._observer.look(migration), time.time())
        progress = self._lifecycle.cancel(scene, _REASON).status
        if progress != migration.status:
            try:
                await self._migration_client.update_status(migration, progress)
            except StaleError:
                return  # another client wrote to it: the caller reads it again

    async def _clean(self) -> list[str]:
        """Undo changes until a new list of the cluster has none left; return what is left after the last round."""
        left: list[str] = []
        for _ in range(_ROUNDS):
            cache = await self._list()
            cleaner = self._cleaner(cache)
            todo, stuck = await cleaner.preview(self._fate)
            left = [*map(str, todo), *stuck, *(f"Node {r.name} is cordoned" for r in cache.rows("Node") if r.cordoned)]
            left += [f"{_title(each)} has a record of failures" for each in find_recorded(cache)]
            left += [f"{_title(each)} has the trace of a move" for each in find_traced(cache)]
            if not left:
                break
            await cleaner.clean(self._fate)
            await self._patch(find_recorded(cache), _without_record, "forget where its pods failed")
            await self._patch(find_traced(cache), _without_trace, "take the trace of its move off")
            await CordonController(
                cache, self._observer, self._writer, should_cordon=lambda labels: False, tell=self._report
            ).remove_all()
        return left

    async def _patch(self, found: Iterable[MarkedObject], changes: Callable[[Json], Json], why: str) -> None:
        """Change the metadata of objects; those that are refused are found again by the next round."""
        for each in list(found):
            body = await self._observer.find(each.kind, each.namespace, each.name)
            if body is None or not (metadata := changes(body)):
                continue
            command = patch(body, {"metadata": metadata}, why)
            if await self._writer.carry_out(command) is None:
                self._report(command)

    async def _delete_migrations(self) -> int:
        """Delete all migrations, also malformed ones."""
        bodies = await self._list_migrations()
        for body in bodies:
            await self._writer.carry_out(delete(body, "nothing is left of it"))
        return len(bodies)

    async def _list_migrations(self) -> list[Json]:
        try:
            return await ObjectClient(self._client).list_all("PodMigration")
        except ApiError as error:
            if error.status != 404:
                raise
            return []

    async def _list(self) -> ClusterCache:
        """List the cluster as it is now."""
        cache = ClusterCache("the cluster")
        kinds = [resource for resource in (*RESOURCES, CRON_JOBS) if resource.kind in (*WATCHED, *KINDS)]
        sinks = {resource.kind: cache.sink(resource.kind) for resource in kinds}

        def take(resource: ApiResource, page: ListPage) -> None:
            if page.first:
                sinks[resource.kind].begin()
            for item in page.items():
                sinks[resource.kind].put(item)

        await list_cluster(self._client, take, kinds)
        for sink in sinks.values():
            sink.complete()
        return cache

    def _cleaner(self, cache: ClusterCache) -> OrphanCleaner:
        return OrphanCleaner(cache, self._observer, self._writer, self._report)

    def _report(self, command: Command) -> None:
        self._things += 1
        self._tell(str(command))

    async def _fate(self, marked: MarkedObject, name: str) -> Phase | None:
        """Return how a migration ended; one that was not rolled back counts as failed."""
        return self._ended.get((marked.namespace, name), Phase.FAILED)


def _title(marked: MarkedObject) -> str:
    return f"{marked.kind} {marked.namespace}/{marked.name}"


def _full_name(body: Json) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


async def _never(_: StepContext) -> StartDecision:
    """Refuse to start any migration."""
    return StartDecision(None, _REASON, never=True)
