"""Caches all PodMigrations, from their watch and from our own writes.

The cache shows which migration moves which pod, so that no pod is moved twice and limits are kept. Our own writes are
put here at once: the watch delivers them a moment later, and a limit that is computed without them would be exceeded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import msgspec
import structlog

from rescheduler.decode.reader import Bytes
from rescheduler.kube.migrations import InvalidMigrationError, MigrationClient, decode_migration
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration

_log = structlog.stdlib.get_logger(__name__)

Changed = Callable[[ObjectKey, bool], None]
"""Called with a migration that changed or was deleted, and whether the change was ours."""


class MigrationCache:
    """The migrations, indexed by key, phase, proposal, pod and owner."""

    def __init__(self) -> None:
        self._migrations: dict[ObjectKey, PodMigration] = {}
        self._about: defaultdict[ObjectKey, set[ObjectKey]] = defaultdict(set)
        self._proposals: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        self._owners: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        self._phases: defaultdict[Phase, set[ObjectKey]] = defaultdict(set)
        self._listeners: list[Changed] = []

    def listen(self, listener: Changed) -> None:
        """Call the listener for each migration that changes or is deleted."""
        self._listeners.append(listener)

    def get(self, key: ObjectKey) -> PodMigration | None:
        """Return one migration."""
        return self._migrations.get(key)

    def count(self, phase: Phase | None = None) -> int:
        """Count the migrations, in one phase or in all."""
        return len(self._migrations) if phase is None else len(self._phases.get(phase, ()))

    def all(self) -> Iterator[PodMigration]:
        """Every migration, in no order; the cache may change meanwhile."""
        yield from list(self._migrations.values())

    def active(self) -> Iterator[PodMigration]:
        """The migrations that are not over; finished ones cost nothing here."""
        yield from [*self._list_in(Phase.PENDING), *self._list_in(Phase.IN_PROGRESS)]

    def in_progress(self) -> Iterator[PodMigration]:
        """The migrations that have started and are not over."""
        yield from self._list_in(Phase.IN_PROGRESS)

    def by_pod(self, pod: ObjectKey) -> frozenset[ObjectKey]:
        """The migrations whose original or replacement has this namespace and name."""
        return frozenset(self._about.get(pod, ()))

    def by_owner(self, uid: str) -> frozenset[ObjectKey]:
        """The migrations that are not over of pods that this controller or workload owns."""
        return frozenset(self._owners.get(uid, ()))

    def members(self, migration: PodMigration) -> tuple[PodMigration, ...]:
        """The other migrations of its proposal."""
        if migration.spec.members <= 1:
            return ()
        mine = migration.key
        keys = self._proposals.get(migration.spec.proposal_name, set())
        return tuple(self._migrations[key] for key in sorted(keys) if key != mine)

    def put(self, migration: PodMigration, *, ours: bool = False) -> None:
        """Store a migration, unless a newer version is known; `ours` marks our own write."""
        key = migration.key
        known = self._migrations.get(key)
        if (
            known is not None
            and known.uid == migration.uid
            and _parse_version(known.metadata.resource_version) > _parse_version(migration.metadata.resource_version)
        ):
            return
        self._unlink(key)
        self._migrations[key] = migration
        for index, entry in self._index_entries(migration):
            index[entry].add(key)
        if known is None or known.metadata.resource_version != migration.metadata.resource_version:
            self._notify(key, ours=ours)

    def drop(self, key: ObjectKey) -> None:
        """Remove a migration."""
        self._unlink(key)
        if self._migrations.pop(key, None) is not None:
            self._notify(key, ours=False)

    def _list_in(self, phase: Phase) -> list[PodMigration]:
        return [self._migrations[key] for key in self._phases.get(phase, ())]

    def _unlink(self, key: ObjectKey) -> None:
        known = self._migrations.get(key)
        if known is None:
            return
        for index, entry in self._index_entries(known):
            index[entry].discard(key)
            if not index[entry]:
                del index[entry]

    def _index_entries(self, migration: PodMigration) -> Iterator[tuple[defaultdict[Any, set[ObjectKey]], Hashable]]:
        """The index entries of a migration."""
        progress, order = migration.status, migration.spec
        yield self._phases, progress.phase
        yield self._about, (migration.namespace, order.pod.name)
        if progress.replacement is not None and progress.replacement.name != order.pod.name:
            yield self._about, (migration.namespace, progress.replacement.name)
        if order.members > 1:
            yield self._proposals, order.proposal_name
        owners = () if progress.over else (progress.controller, progress.workload)
        for uid in {owner.uid for owner in owners if owner is not None}:
            yield self._owners, uid

    def _notify(self, key: ObjectKey, *, ours: bool) -> None:
        for listener in self._listeners:
            listener(key, ours)


class MigrationSink:
    """Feeds watched PodMigrations to the cache; a sink of the reflector."""

    def __init__(self, migrations: MigrationCache) -> None:
        self._migrations = migrations
        self._listed: set[ObjectKey] | None = None

    def begin(self) -> None:
        """Begin a new list."""
        self._listed = set()

    def put(self, raw: Bytes) -> str:
        """Store a migration; log and leave out a malformed one."""
        body = msgspec.json.decode(raw)
        metadata = body["metadata"]
        key = (str(metadata["namespace"]), str(metadata["name"]))
        if self._listed is not None:
            self._listed.add(key)
        try:
            self._migrations.put(decode_migration(body))
        except InvalidMigrationError as error:
            _log.warning("malformed migration ignored", why=str(error))
            self._migrations.drop(key)
        return str(metadata.get("resourceVersion", ""))

    def drop(self, raw: Bytes) -> str:
        """Remove a deleted migration."""
        metadata = msgspec.json.decode(raw)["metadata"]
        self._migrations.drop((metadata["namespace"], metadata["name"]))
        return str(metadata.get("resourceVersion", ""))

    def complete(self) -> None:
        """End the list: whatever it lacks was deleted."""
        if self._listed is not None:
            for each in self._migrations.all():
                if each.key not in self._listed:
                    self._migrations.drop(each.key)
            self._listed = None


def _parse_version(version: str) -> int:
    """Versions of one object are numbers that grow, as Kubernetes promises since v1.35 and always kept."""
    return int(version) if version.isdecimal() else 0


Tell = Callable[[PodMigration, PodMigration], None]
"""Called with a migration before and after a change."""


class MigrationStore:
    """Stores migrations, updates the cache and notifies."""

    def __init__(self, client: MigrationClient, migrations: MigrationCache, tell: Tell) -> None:
        self.client = client
        self.migrations = migrations
        self._notify = tell

    async def create(self, migration: PodMigration) -> PodMigration:
        """Store a new migration."""
        added = await self.client.create(migration)
        self.migrations.put(added)  # this queues it
        return added

    async def read(self, namespace: str, name: str) -> PodMigration | None:
        """Read a migration from the API server."""
        found = await self.client.read(namespace, name)
        if found is None:
            self.migrations.drop((namespace, name))
        return found

    async def update_status(self, migration: PodMigration, progress: MigrationStatus) -> PodMigration:
        """Store progress, then notify."""
        stored = await self.client.update_status(migration, progress)
        self.migrations.put(stored, ours=True)
        self._notify(migration, stored)
        return stored
