"""Observes what a migration touches, and adds state that only the controller has.

Every write of ours comes back as a watch event a moment later. The versions that an observation has seen are
remembered here, so that such an event does not cause another look at the migration.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration.observation import Observation, ObservedPart, SteeringMethod
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.runtime.migration_cache import MigrationCache

_MOST = 10_000  # pods; if a pod is dropped too early, its next event causes one needless look


class ControllerObserver:
    """Observes the cluster, remembers the versions it saw, and adds steering and rival migrations."""

    def __init__(
        self,
        observer: MigrationObserver,
        migrations: MigrationCache,
        steering: Callable[[str], SteeringMethod],
    ) -> None:
        """`steering` says how evictions in a namespace are steered: the webhook does not see all of them."""
        self._observer = observer
        self._migrations = migrations
        self._steering = steering
        self._seen: OrderedDict[ObjectKey, int] = OrderedDict()

    async def look(self, migration: PodMigration, parts: frozenset[ObservedPart]) -> Observation:
        """Observe, remember the versions, and add what is known after the reads."""
        seen = await self._observer.look(migration, parts)
        for pod in (seen.pod, *seen.marked):
            if pod is not None:
                metadata = pod["metadata"]
                self._note((metadata["namespace"], metadata["name"]), metadata["resourceVersion"])
        return replace(seen, steered=self._steering(migration.namespace), rivals=self._rivals(migration))

    def is_old(self, pod: ObjectKey, version: str) -> bool:
        """Whether an observation has seen this version of the pod, or a later one."""
        return version.isdecimal() and int(version) <= self._seen.get(pod, -1)

    def _note(self, pod: ObjectKey, version: str) -> None:
        if version.isdecimal():
            self._seen[pod] = max(int(version), self._seen.pop(pod, -1))
            if len(self._seen) > _MOST:
                self._seen.popitem(last=False)

    def _rivals(self, migration: PodMigration) -> tuple[PodMigration, ...]:
        """The other migrations under way that move pods of the same controller."""
        controller = migration.status.controller
        if controller is None:
            return ()
        mine = (migration.namespace, migration.name)
        found = (self._migrations.get(key) for key in sorted(self._migrations.by_owner(controller.uid)) if key != mine)
        return tuple(
            each
            for each in found
            if each is not None
            and each.status.phase is Phase.IN_PROGRESS
            and each.status.controller is not None
            and each.status.controller.uid == controller.uid
        )
