"""How many migrations may be under way at once: in all, per node, per namespace and per workload.

`gatekeeper` asks before a migration begins. What was granted counts at once, although the board tells of it only when
it is stored; so two that are looked at together cannot both take the last slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.policy import Concurrency
from rescheduler.runtime.migration_cache import MigrationCache

_IN_LINE = "it waits its turn"


@dataclass(frozen=True, slots=True)
class MigrationFootprint:
    """What a migration under way takes."""

    namespace: str
    workload: str
    nodes: frozenset[str]
    proposal: str


Replicas = Callable[[str, ObjectReference], int | None]
"""How many pods an owner in a namespace should have; None where nobody knows."""


def _unknown(_namespace: str, _owner: ObjectReference) -> int | None:
    return None


class ConcurrencyLimits:
    """The slots that are taken, by the board and by what has just been granted."""

    def __init__(
        self, board: MigrationCache, concurrency: Callable[[], Concurrency], replicas: Replicas = _unknown
    ) -> None:
        self._board = board
        self._concurrency = concurrency
        self._replicas = replicas
        self._granted: dict[ObjectKey, tuple[int, MigrationFootprint]] = {}
        """With the attempts that were made before: one more, and it has begun."""
        self._held: set[ObjectKey] = set()
        """Those of them that are only being looked at."""

    def find_exceeded(self, migration: PodMigration, progress: MigrationStatus) -> str:
        """Which limit keeps a migration from beginning with this progress; empty when none does."""
        wanted = slot(migration, progress)
        taken = list(self._taken((migration.namespace, migration.name)))
        if wanted.proposal and any(each.proposal == wanted.proposal for each in taken):
            return ""  # those that it belongs to have begun, and wait for it
        limits = self._concurrency()
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
        """How many of a pod's workload may be under way, and of what that is a share."""
        if not isinstance(limits.per_workload, str):
            return limits.per_workload, ""
        replicas = self._replicas(namespace, owner) if owner is not None else 1
        number = "an unknown number of" if replicas is None else replicas
        of_these = "1 replica" if replicas == 1 else f"{number} replicas"
        return limits.of_workload(replicas), f", {limits.per_workload} of {of_these}"

    def still_waits(self, migration: PodMigration) -> bool:
        """Whether one that waits its turn has to wait on, be it for another limit: asked often, it costs no request."""
        if migration.spec.paused or not is_in_line(migration):
            return False
        return bool(self.find_exceeded(migration, migration.status))

    def reserve(self, migration: PodMigration, progress: MigrationStatus) -> None:
        """Count it while it is looked at, although it may not begin."""
        key = (migration.namespace, migration.name)
        self._granted[key] = (progress.attempts, slot(migration, progress))
        self._held.add(key)

    def grant(self, migration: PodMigration, progress: MigrationStatus) -> None:
        """Count it from now on: it begins."""
        self.reserve(migration, progress)
        self._held.discard((migration.namespace, migration.name))

    def has_granted(self, key: ObjectKey) -> bool:
        """Whether a migration that the board tells to be pending is about to begin."""
        return key not in self._held and self._counts(key)

    def release(self, key: ObjectKey) -> None:
        """Count it no longer, unless it has begun."""
        self._granted.pop(key, None)
        self._held.discard(key)

    def _counts(self, key: ObjectKey) -> bool:
        """Whether what was granted or is held has not begun yet; else the board tells more of it."""
        attempts, _ = self._granted.get(key, (-1, None))
        known = self._board.get(key)
        return known is not None and known.status.phase is Phase.PENDING and known.status.attempts <= attempts

    def _taken(self, apart: ObjectKey) -> Iterable[MigrationFootprint]:
        for key, (_, granted) in list(self._granted.items()):
            if not self._counts(key):
                self.release(key)  # it has begun since, or is gone
            elif key != apart:
                yield granted
        for each in self._board.in_progress():
            if (each.namespace, each.name) != apart:
                yield slot(each, each.status)


def is_in_line(migration: PodMigration) -> bool:
    """Whether it has been told to wait its turn."""
    return migration.status.phase is Phase.PENDING and migration.status.message.startswith(_IN_LINE)


def slot(migration: PodMigration, progress: MigrationStatus) -> MigrationFootprint:
    """What a migration takes with this progress."""
    owner = progress.workload or progress.controller
    workload = f"{migration.namespace}/{owner or migration.spec.pod.name}"
    nodes = frozenset(node for node in (progress.source, progress.target) if node)
    proposal = migration.spec.proposal_name if migration.spec.members > 1 else ""
    return MigrationFootprint(migration.namespace, workload, nodes, proposal)


def _count(matches: Iterable[bool]) -> int:
    return sum(matches)
