"""Decides whether a pending migration may start now, by which method and to which node.

The executor asks just before a migration starts. By then the plan is seconds old, or a person has ordered the move. So
the pod, its workload and its node are checked on the newest state, by the same rules as in a plan. A reason that may
pass (a spent budget, a rollout, a full node, a limit) makes the migration wait until its timeout. Any other reason
fails it. Holds come first: without a required approval, and while rescheduling is paused, no rule is checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from msgspec import structs

from rescheduler.config.live import LiveConfig
from rescheduler.kube.observer import owner_of
from rescheduler.migration.observation import StepContext, has_finished, is_terminating
from rescheduler.migration.steps.common import rollout_reason
from rescheduler.migration.steps.handoff import unready_replica
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.plan import Method
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.cycle import with_inflight_moves
from rescheduler.planning.revalidate import MoveVerdict, RequestedMove, Revalidator
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.starting.holds import Holds
from rescheduler.runtime.starting.limits import ConcurrencyLimits, is_in_line
from rescheduler.runtime.starting.windows import Hold

_SOON = 1.0
_LATER = 5.0
_FRESH = 1.0  # seconds for which a snapshot is reused
_SHARE = 5.0  # … or this many times as long as it took to build: at most a fifth of the time goes into building

Capture = Callable[[], Callable[[], ClusterSnapshot]]
"""Captures the cache; the function it returns builds the snapshot, in a thread if need be."""


@dataclass(frozen=True, slots=True)
class StartDecision:
    """Whether a pending migration may start: with this progress, or not yet or never for this reason."""

    progress: MigrationStatus | None
    reason: str = ""
    wait: float = 5.0
    never: bool = False
    known: MigrationStatus | None = None
    """What is known of a migration that may not start yet, so that it can be shown and counted while it waits."""


class CachedRevalidator:
    """Revalidates moves on a snapshot that is rebuilt when it is too old, or when the policy has changed."""

    def __init__(self, capture: Capture, migrations: MigrationCache, live: LiveConfig) -> None:
        self._capture = capture
        self._migrations = migrations
        self._live = live
        self._revalidator: Revalidator | None = None
        self._policy: Policy | None = None
        """The policy that the snapshot was built for."""
        self._built = 0.0
        self._took = 0.0
        self._building = asyncio.Lock()

    async def check(self, wanted: RequestedMove) -> MoveVerdict:
        """Check one move."""
        async with self._building:
            clock = asyncio.get_running_loop().time
            policy, fresh = self._live.policy(), max(_FRESH, _SHARE * self._took)
            if self._revalidator is None or policy != self._policy or clock() - self._built > fresh:
                started = clock()
                snapshot, under_way = self._capture(), list(self._migrations.in_progress())
                # Usage and columns take long in a large cluster: not in the event loop.
                self._revalidator = await asyncio.to_thread(
                    lambda: Revalidator(with_inflight_moves(snapshot(), under_way, 0.0), policy)
                )
                self._policy = policy
                verdict = await asyncio.to_thread(self._revalidator.check, wanted)
                self._built, self._took = clock(), clock() - started
                return verdict
            return await asyncio.to_thread(self._revalidator.check, wanted)


class StartGate:
    """Checks pending migrations, one at a time."""

    def __init__(
        self,
        migrations: MigrationCache,
        revalidator: CachedRevalidator,
        limits: ConcurrencyLimits,
        holds: Holds,
        live: LiveConfig,
    ) -> None:
        self._migrations = migrations
        self._revalidator = revalidator
        self._limits = limits
        self._holds = holds
        self._live = live
        self.open = True
        """Whether migrations may start at all; false while the process ends."""

    async def check(self, scene: StepContext) -> StartDecision:
        """Decide about one pending migration."""
        migration, pod = scene.migration, scene.seen.pod
        if not self.open:
            return StartDecision(None, "the controller is ending; the next one goes on", _LATER)
        if pod is None:
            return StartDecision(None, "the pod is gone", never=True)
        if scene.original is None:
            return StartDecision(None, "another pod has its name by now", never=True)
        if is_terminating(pod):
            return StartDecision(None, "the pod is being deleted", never=True)
        progress = _describe(scene, pod)
        if (waiting := self._find_obstacle(scene, progress)) is not None:
            return waiting
        removed = migration.spec.fixed_method is Method.REMOVE
        if removed and not has_finished(pod):
            return StartDecision(None, "it has not ended: only pods that have are removed", never=True)
        if not removed and scene.seen.controller is not None and (changing := rollout_reason(scene)):
            return self._wait(scene, progress, changing)
        wanted = request_of(migration)
        if wanted.target and scene.seen.target is None:
            return StartDecision(None, f"there is no node {wanted.target}", never=True)
        return self._decide(scene, progress, await self._revalidator.check(wanted))

    def _decide(self, scene: StepContext, progress: MigrationStatus, verdict: MoveVerdict) -> StartDecision:
        migration = scene.migration
        if verdict.method is None:
            if verdict.temporary:
                return self._wait(scene, progress, verdict.reason)
            return StartDecision(None, verdict.reason, never=True)
        if not self.open:
            return StartDecision(None, "the controller is ending; the next one goes on", _LATER)
        if verdict.method is Method.HANDOFF and (unready := unready_replica(scene)):
            return self._wait(scene, progress, unready)  # here it holds nothing, with a copy it would
        progress = structs.replace(progress, method=verdict.method, target=verdict.target)
        # Now that the target is known, and time has passed: a pause may have begun during the check, and of two
        # migrations of one pod, which get the same verdict, only one starts.
        if (waiting := self._find_obstacle(scene, progress)) is not None:
            return waiting
        self._limits.grant(migration, progress)
        self._holds.note_start(migration)
        return StartDecision(progress)

    def _find_obstacle(self, scene: StepContext, progress: MigrationStatus) -> StartDecision | None:
        """What keeps a migration waiting whatever the rules say: a hold, a rival, or a limit."""
        migration = scene.migration
        if hold := self._holds.check(migration, scene.now):
            return self._hold(scene, progress, hold)
        if rival := self._find_rival(migration):
            return self._wait(scene, progress, f"migration {rival} is moving the pod")
        if exceeded := self._limits.find_exceeded(migration, progress):
            # A planned move times out while it waits for a limit, a move ordered by hand does not.
            if migration.spec.by_hand:
                return StartDecision(None, exceeded, _SOON, known=_describe_waiting(scene, progress))
            return self._wait(scene, progress, exceeded, _SOON)
        return None

    def _hold(self, scene: StepContext, progress: MigrationStatus, hold: Hold) -> StartDecision:
        """Wait for a hold to end; fail a migration whose target is gone."""
        known = _describe_waiting(scene, progress)
        target = scene.migration.spec.target
        if not hold.never and target and scene.seen.target is None:
            return StartDecision(None, f"there is no node {target} any more", never=True, known=known)
        return StartDecision(None, hold.reason, _LATER, hold.never, known)

    def _find_rival(self, migration: PodMigration) -> str:
        """Another migration that moves the same pod, or is about to."""
        for key in sorted(self._migrations.by_pod((migration.namespace, migration.spec.pod.name))):
            other = self._migrations.get(key)
            if other is None or other.name == migration.name:
                continue
            if other.status.phase is Phase.IN_PROGRESS or self._limits.has_granted(key):
                return other.name
        return ""

    def still_waits(self, migration: PodMigration, now: float) -> bool:
        """Whether checking a pending migration again would give the same answer, or is left to the next leader."""
        if migration.status.phase is not Phase.PENDING or not self.open:
            return migration.status.phase is Phase.PENDING
        if (hold := self._holds.find(migration)) is not None:
            return self._holds.has_reported(migration, hold, now)
        if migration.spec.paused or not is_in_line(migration):
            return False
        if not migration.spec.by_hand and self._is_late(migration, now):
            return False
        return bool(self._limits.find_exceeded(migration, migration.status))

    @contextmanager
    def reserve(self, migration: PodMigration) -> Iterator[None]:
        """Count a migration against the limits during its check: only one of many is checked for the same place."""
        if migration.status.phase is not Phase.PENDING or self._holds.find(migration) is not None:
            yield
            return
        self._limits.reserve(migration, structs.replace(migration.status, target=migration.spec.target))
        try:
            yield
        finally:
            self._limits.release(migration.key)  # if it has started, the cache shows that by now

    def _wait(self, scene: StepContext, progress: MigrationStatus, reason: str, wait: float = _LATER) -> StartDecision:
        if self._is_late(scene.migration, scene.now):
            return StartDecision(None, f"it could not begin in time: {reason}", never=True)
        return StartDecision(None, reason, wait, known=_describe_waiting(scene, progress))

    def _is_late(self, migration: PodMigration, now: float) -> bool:
        timeout = migration.spec.timeout or self._live.config.fields.migration.timeout
        waits_since = (
            migration.metadata.creation_timestamp or now,
            migration.status.retry_time or 0.0,
            self._holds.free_since(migration),
        )
        return now - max(waits_since) > timeout


def request_of(migration: PodMigration) -> RequestedMove:
    """What a migration asks the rules for."""
    order, progress = migration.spec, migration.status
    return RequestedMove(
        migration.namespace,
        order.pod.name,
        progress.pod_uid or order.pod.uid,
        order.target,
        order.fixed_method,
        progress.tried_methods,
        by_hand=order.by_hand,
    )


def _describe(scene: StepContext, pod: Json) -> MigrationStatus:
    """The progress with what the pod shows: its UID, its node and its controller."""
    workload = scene.seen.deployment or scene.seen.controller
    return structs.replace(
        scene.migration.status,
        pod_uid=pod["metadata"]["uid"],
        source=pod["spec"].get("nodeName", ""),
        target=scene.migration.spec.target,
        controller=owner_of(pod),
        workload=_reference(workload) if workload is not None else None,
    )


def _describe_waiting(scene: StepContext, progress: MigrationStatus) -> MigrationStatus:
    """The progress of a waiting migration: without the UID, which is settled only when it starts."""
    return structs.replace(
        scene.migration.status, source=progress.source, target=progress.target, workload=progress.workload
    )


def _reference(body: Json) -> ObjectReference:
    return ObjectReference(body["kind"], body["metadata"]["name"], body["metadata"]["uid"])
