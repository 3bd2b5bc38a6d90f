"""All migrations as they are known now: from their watch, and from what we have just written ourselves.

The loops ask it who moves what, so that no pod is moved twice and limits are kept. Our own writes are put here at once,
because the watch tells of them a moment later, and a limit that is reckoned without them would be overrun.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import msgspec

from rescheduler.kube.migrations import InvalidMigrationError, MigrationClient, decode_migration
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration

_log = logging.getLogger(__name__)

Bytes = bytes | memoryview | msgspec.Raw
Changed = Callable[[ObjectKey, bool], None]
"""Told which migration has changed or gone, and whether it was we who wrote it."""


class MigrationCache:
    """The migrations by key, by phase, by proposal, and by the pods that they are about."""

    def __init__(self) -> None:
        self._migrations: dict[ObjectKey, PodMigration] = {}
        self._about: defaultdict[ObjectKey, set[ObjectKey]] = defaultdict(set)
        self._proposals: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        self._owners: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        self._phases: defaultdict[Phase, set[ObjectKey]] = defaultdict(set)
        self._listeners: list[Changed] = []

    def listen(self, listener: Changed) -> None:
        """Be told of migrations that change or go."""
        self._listeners.append(listener)

    def get(self, key: ObjectKey) -> PodMigration | None:
        """One migration."""
        return self._migrations.get(key)

    def count(self, phase: Phase | None = None) -> int:
        """How many migrations there are, in this phase or in any."""
        return len(self._migrations) if phase is None else len(self._phases.get(phase, ()))

    def all(self) -> Iterator[PodMigration]:
        """Every migration, in no order; the board may change meanwhile."""
        yield from list(self._migrations.values())

    def active(self) -> Iterator[PodMigration]:
        """Those that are not over; what is kept of those that are, however much, costs nothing here."""
        yield from [*self._in(Phase.PENDING), *self._in(Phase.IN_PROGRESS)]

    def in_progress(self) -> Iterator[PodMigration]:
        """Those that have begun and are not over."""
        yield from self._in(Phase.IN_PROGRESS)

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
        mine = (migration.namespace, migration.name)
        keys = self._proposals.get(migration.spec.proposal_name, set())
        return tuple(self._migrations[key] for key in sorted(keys) if key != mine)

    def put(self, migration: PodMigration, *, ours: bool = False) -> None:
        """Take a migration, unless a newer state of it is known; `ours` if we have just written it."""
        key = (migration.namespace, migration.name)
        known = self._migrations.get(key)
        if (
            known is not None
            and known.uid == migration.uid
            and _order(known.metadata.resource_version) > _order(migration.metadata.resource_version)
        ):
            return
        self._unlink(key)
        self._migrations[key] = migration
        for index, entry in self._entries(migration):
            index[entry].add(key)
        if known is None or known.metadata.resource_version != migration.metadata.resource_version:
            self._tell(key, ours=ours)

    def drop(self, key: ObjectKey) -> None:
        """Forget a migration."""
        self._unlink(key)
        if self._migrations.pop(key, None) is not None:
            self._tell(key, ours=False)

    def _in(self, phase: Phase) -> list[PodMigration]:
        return [self._migrations[key] for key in self._phases.get(phase, ())]

    def _unlink(self, key: ObjectKey) -> None:
        known = self._migrations.get(key)
        if known is None:
            return
        for index, entry in self._entries(known):
            index[entry].discard(key)
            if not index[entry]:
                del index[entry]

    def _entries(self, migration: PodMigration) -> Iterator[tuple[defaultdict[Any, set[ObjectKey]], Hashable]]:
        """Where a migration can be found."""
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

    def _tell(self, key: ObjectKey, *, ours: bool) -> None:
        for listener in self._listeners:
            listener(key, ours)


class MigrationSink:
    """The way of watched PodMigrations onto the board, as `reflector.Sink` wants it."""

    def __init__(self, board: MigrationCache) -> None:
        self._board = board
        self._listed: set[ObjectKey] | None = None

    def begin(self) -> None:
        """A whole new state follows."""
        self._listed = set()

    def put(self, raw: Bytes) -> str:
        """A migration is there, or has changed; one that makes no sense is told of and left out."""
        body = msgspec.json.decode(raw)
        metadata = body["metadata"]
        key = (str(metadata["namespace"]), str(metadata["name"]))
        if self._listed is not None:
            self._listed.add(key)
        try:
            self._board.put(decode_migration(body))
        except InvalidMigrationError as error:
            _log.warning("%s; it is left alone", error)
            self._board.drop(key)
        return str(metadata.get("resourceVersion", ""))

    def drop(self, raw: Bytes) -> str:
        """A migration is gone."""
        metadata = msgspec.json.decode(raw)["metadata"]
        self._board.drop((metadata["namespace"], metadata["name"]))
        return str(metadata.get("resourceVersion", ""))

    def complete(self) -> None:
        """The new state is whole: what it does not have is gone."""
        if self._listed is not None:
            for each in self._board.all():
                if (each.namespace, each.name) not in self._listed:
                    self._board.drop((each.namespace, each.name))
            self._listed = None


def _order(version: str) -> int:
    """Versions of one object are numbers that grow, as Kubernetes promises since v1.35 and always kept."""
    return int(version) if version.isdecimal() else 0


Tell = Callable[[PodMigration, PodMigration], None]
"""Told a migration as it was and as it is."""


class MigrationStore:
    """A journal that tells."""

    def __init__(self, journal: MigrationClient, board: MigrationCache, tell: Tell) -> None:
        self._journal = journal
        self._board = board
        self._tell = tell

    async def add(self, migration: PodMigration) -> PodMigration:
        """Store a new migration."""
        added = await self._journal.add(migration)
        self._board.put(added)  # whoever carries migrations out hears of it here
        return added

    async def read(self, namespace: str, name: str) -> PodMigration | None:
        """A migration as it is now."""
        found = await self._journal.read(namespace, name)
        if found is None:
            self._board.drop((namespace, name))
        return found

    async def store(self, migration: PodMigration, progress: MigrationStatus) -> PodMigration:
        """Record progress, then tell of it."""
        stored = await self._journal.store(migration, progress)
        self._board.put(stored, ours=True)
        self._tell(migration, stored)
        return stored
