"""Which versions of pods have been seen by a look: what the watch tells of them afterwards is no news.

Every write of ours comes back as a watch event a moment later. Without this, each would have its migration looked at
once more, for nothing. The migrator looks through it, the carrier asks it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from rescheduler.decode.cache import Changed, ClusterCache
from rescheduler.migration.observation import Observation, ObservedPart, SteeringMethod
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.runtime.migration_cache import MigrationCache

_MOST = 10_000  # pods; of one that is forgotten too early an event is looked at in vain


class Observer(Protocol):
    """Who looks at the cluster."""

    async def look(self, migration: PodMigration, parts: frozenset[ObservedPart]) -> Observation: ...


class Sightings:
    """An observer that remembers, and the changes that it has not seen."""

    def __init__(self, observer: Observer, cache: ClusterCache) -> None:
        self._observer = observer
        self._cache = cache
        self._seen: OrderedDict[ObjectKey, int] = OrderedDict()

    async def look(self, migration: PodMigration, parts: frozenset[ObservedPart]) -> Observation:
        """Look, and remember which versions were there."""
        seen = await self._observer.look(migration, parts)
        for pod in (seen.pod, *seen.marked):
            if pod is not None:
                metadata = pod["metadata"]
                self._note((metadata["namespace"], metadata["name"]), metadata["resourceVersion"])
        return seen

    def is_old(self, pod: ObjectKey, version: str) -> bool:
        """Whether a look has seen the pod as it is in this version, or later."""
        return version.isdecimal() and int(version) <= self._seen.get(pod, -1)

    def listen(self, listener: Changed) -> None:
        """Be told of all changes, as the cache tells them."""
        self._cache.listen(listener)

    def row(self, kind: str, key: Any) -> Any:
        """What the cache knows of one object."""
        return self._cache.row(kind, key)

    def _note(self, pod: ObjectKey, version: str) -> None:
        if version.isdecimal():
            self._seen[pod] = max(int(version), self._seen.pop(pod, -1))
            if len(self._seen) > _MOST:
                self._seen.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """An observer that adds what the runtime knows."""

    observer: Observer
    board: MigrationCache
    steered: Callable[[str], SteeringMethod]
    """How it is done in a namespace: the API server does not ask about all of them."""

    async def look(self, migration: PodMigration, parts: frozenset[ObservedPart]) -> Observation:
        """Look, and add what is known as of after it."""
        seen = await self.observer.look(migration, parts)
        return replace(seen, steered=self.steered(migration.namespace), rivals=self._rivals(migration))

    def _rivals(self, migration: PodMigration) -> tuple[PodMigration, ...]:
        controller = migration.status.controller
        if controller is None:
            return ()
        mine = (migration.namespace, migration.name)
        found = (self.board.get(key) for key in sorted(self.board.by_owner(controller.uid)) if key != mine)
        return tuple(
            each
            for each in found
            if each is not None
            and each.status.phase is Phase.IN_PROGRESS
            and each.status.controller is not None
            and each.status.controller.uid == controller.uid
        )
