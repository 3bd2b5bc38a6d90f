"""Limits on migrations under way: in total, per node, per namespace and per workload.

A granted start counts at once, although the cache shows it only when it is stored. So two migrations that are checked
together cannot both take the last place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rescheduler.config.live import LiveConfig
from rescheduler.migration.steps.common import STUCK
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.policy import Concurrency
from rescheduler.runtime.migration_cache import MigrationCache

_IN_LINE = "it waits its turn"


@dataclass(frozen=True, slots=True)
class MigrationFootprint:
    """What a migration under way counts for."""

    namespace: str
    workload: str
    nodes: frozenset[str]
    proposal: str


Replicas = Callable[[str, ObjectReference], int | None]
"""The replicas that an owner in a namespace should have; None if unknown."""


class ConcurrencyLimits:
    """Counts the migrations under way, and those that were just granted."""

    def __init__(
        self, migrations: MigrationCache, live: LiveConfig, replicas: Replicas = lambda namespace, owner: None
    ) -> None:
        self._migrations = migrations
        self._live = live
        self._replicas = replicas
        self._granted: dict[ObjectKey, MigrationFootprint] = {}
        """Pending migrations that are being checked or about to start."""
        self._reserved: set[ObjectKey] = set()
        """Those of them that are only being checked."""
        migrations.listen(self._changed)

    def find_exceeded(self, migration: PodMigration, progress: MigrationStatus) -> str:
        """Return the limit that stops a migration with this progress; empty if none does."""
        wanted = footprint(migration, progress)
        taken = list(self._list_taken(migration.key))
        if wanted.proposal and any(each.proposal == wanted.proposal for each in taken):
            return ""  # the other moves of its proposal have started, and wait for it
        limits = self._live.concurrency()
        per_node = (
            (limits.per_node, _count(node in each.nodes for each in taken), f"perNode, {node}")
            for node in sorted(wanted.nodes)
        )
        per_workload, share = self._of_workload(limits, migration.namespace, progress.workload or progress.controller)
        counts = (
            (limits.total, len(taken), "total"),
            (limits.per_namespace, _count(each.namespace == wanted.namespace for each in taken), "perNamespace"),
            (per_workload, _count(each.workload == wanted.workload for each in taken), f"perWorkload{share}"),
            *per_node,
        )
        for limit, count, name in counts:
            if limit is not None and count >= limit:
                return f"{_IN_LINE}: {limit} under way (migration.concurrency.{name})"
        return ""

    def _of_workload(
        self, limits: Concurrency, namespace: str, owner: ObjectReference | None
    ) -> tuple[int | None, str]:
        """The limit for one workload, and the text that explains a percentage."""
        if not isinstance(limits.per_workload, str):
            return limits.per_workload, ""
        replicas = self._replicas(namespace, owner) if owner is not None else 1
        number = "an unknown number of" if replicas is None else replicas
        of_these = "1 replica" if replicas == 1 else f"{number} replicas"
        return limits.of_workload(replicas), f", {limits.per_workload} of {of_these}"

    def reserve(self, migration: PodMigration, progress: MigrationStatus) -> None:
        """Count a migration during its check."""
        self._granted[migration.key] = footprint(migration, progress)
        self._reserved.add(migration.key)

    def grant(self, migration: PodMigration, progress: MigrationStatus) -> None:
        """Count a migration that starts."""
        self.reserve(migration, progress)
        self._reserved.discard(migration.key)

    def has_granted(self, key: ObjectKey) -> bool:
        """Whether a pending migration is about to start."""
        return key in self._granted and key not in self._reserved

    def release(self, key: ObjectKey) -> None:
        """Stop counting a migration, unless it has started."""
        self._granted.pop(key, None)
        self._reserved.discard(key)

    def _changed(self, key: ObjectKey, _ours: bool) -> None:  # noqa: FBT001  a listener of the cache
        known = self._migrations.get(key)
        if known is None or known.status.phase is not Phase.PENDING:
            self.release(key)  # it counts as under way now, or is gone

    def _list_taken(self, apart: ObjectKey) -> Iterable[MigrationFootprint]:
        yield from (granted for key, granted in self._granted.items() if key != apart)
        for each in self._migrations.in_progress():
            if each.key != apart and not is_stuck(each):
                yield footprint(each, each.status)


def is_in_line(migration: PodMigration) -> bool:
    """Whether a migration waits for a limit."""
    return migration.status.phase is Phase.PENDING and migration.status.message.startswith(_IN_LINE)


def is_stuck(migration: PodMigration) -> bool:
    """Whether a migration only waits for an original that is stuck in Terminating: it holds no slot."""
    return migration.status.phase is Phase.IN_PROGRESS and migration.status.message.startswith(STUCK)


def footprint(migration: PodMigration, progress: MigrationStatus) -> MigrationFootprint:
    """What a migration counts for with this progress."""
    owner = progress.workload or progress.controller
    workload = f"{migration.namespace}/{owner or migration.spec.pod.name}"
    nodes = frozenset(node for node in (progress.source, progress.target) if node)
    proposal = migration.spec.proposal_name if migration.spec.members > 1 else ""
    return MigrationFootprint(migration.namespace, workload, nodes, proposal)


def _count(matches: Iterable[bool]) -> int:
    return sum(matches)
