"""May a pending migration begin now, by which method and to which node? Asked by the migrator just before it begins.

A plan is seconds old by then, or a person has ordered the move: so the pod, its workload and its node are judged on the
newest state, by the same rules as a plan. What may pass (a spent budget, a rollout, a full node, a limit) makes it
wait, for as long as its time-out says; what will not pass ends it, with the reason. People come first: without their
approval, where it is needed, or while they have paused rescheduling, nothing is judged at all (`consent`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import structs

from rescheduler.migration.observation import StepContext, controller_of, has_finished, is_terminating
from rescheduler.migration.steps.common import rollout_reason
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.plan import Method
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.cycle import with_inflight_moves
from rescheduler.planning.revalidate import MoveVerdict, RequestedMove, Revalidator
from rescheduler.runtime.executor import StartDecision
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.starting.holds import Hold, Holds
from rescheduler.runtime.starting.limits import ConcurrencyLimits

_SOON = 1.0
_LATER = 5.0
_FRESH = 1.0  # seconds that a judgement's picture of the cluster may be old
_SHARE = 5.0  # … and it may be older where drawing it takes long: at most a fifth of the time goes into that

Copied = Callable[[], Callable[[], ClusterSnapshot]]
"""Copies what is known of the cluster; the snapshot can then be made of it in a thread."""


class CachedRevalidator:
    """Keeps a picture of the cluster to rule on, drawn anew when it is too old."""

    def __init__(self, copied: Copied, board: MigrationCache, policy: Callable[[], Policy]) -> None:
        self._copied = copied
        self._board = board
        self._policy = policy
        self._rulings: Revalidator | None = None
        self._by: Policy | None = None
        """What the picture was drawn for."""
        self._drawn = 0.0
        self._took = 0.0
        self._drawing = asyncio.Lock()

    async def rule(self, wanted: RequestedMove) -> MoveVerdict:
        """Judge one order."""
        async with self._drawing:
            clock = asyncio.get_running_loop().time
            policy, fresh = self._policy(), max(_FRESH, _SHARE * self._took)
            if self._rulings is None or policy != self._by or clock() - self._drawn > fresh:
                started = clock()
                # What is measured, and the columns, take long in a large cluster: not in the event loop.
                drawn = self._draw(policy)
                self._rulings, self._by = await asyncio.to_thread(drawn), policy
                ruling = await asyncio.to_thread(self._rulings.check, wanted)
                self._drawn, self._took = clock(), clock() - started
                return ruling
            return await asyncio.to_thread(self._rulings.check, wanted)

    def _draw(self, policy: Policy) -> Callable[[], Revalidator]:
        """Draws the picture of now, in a thread."""
        copy, under_way = self._copied(), list(self._board.in_progress())
        return lambda: Revalidator(with_inflight_moves(copy(), under_way, 0.0), policy)


class StartGate:
    """Admits pending migrations, one decision at a time."""

    def __init__(
        self,
        board: MigrationCache,
        judge: CachedRevalidator,
        slots: ConcurrencyLimits,
        timeout: Callable[[], float],
        consent: Holds | None = None,
    ) -> None:
        self._board = board
        self._judge = judge
        self._slots = slots
        self._timeout = timeout
        self._consent = consent or Holds(board)
        self.open = True
        """Whether new migrations begin at all; not while the process is ending."""

    async def check(self, scene: StepContext) -> StartDecision:
        """The answer for one pending migration."""
        migration, pod = scene.migration, scene.seen.pod
        if not self.open:
            return StartDecision(None, "the controller is ending; the next one goes on", _LATER)
        if pod is None:
            return StartDecision(None, "the pod is gone", never=True)
        if scene.original is None:
            return StartDecision(None, "another pod has its name by now", never=True)
        if is_terminating(pod):
            return StartDecision(None, "the pod is being deleted", never=True)
        progress = _told(scene, pod)
        if withheld := self._consent.check(migration, scene.now):
            return self._withheld(scene, progress, withheld)
        if rival := self._rival(migration):
            return self._later(scene, progress, f"migration {rival} is moving the pod")
        if objection := self._slots.find_exceeded(migration, progress):
            return self._queued(scene, progress, objection)
        removed = migration.spec.fixed_method is Method.REMOVE
        if removed and not has_finished(pod):
            return StartDecision(None, "it has not ended: only pods that have are removed", never=True)
        if not removed and scene.seen.controller is not None and (changing := rollout_reason(scene)):
            return self._later(scene, progress, changing)
        wanted = _wanted(migration)
        if wanted.target and scene.seen.target is None:
            return StartDecision(None, f"there is no node {wanted.target}", never=True)
        return self._ruled(scene, progress, await self._judge.rule(wanted))

    def _ruled(self, scene: StepContext, progress: MigrationStatus, ruling: MoveVerdict) -> StartDecision:
        migration = scene.migration
        if ruling.method is None:
            if ruling.temporary:
                return self._later(scene, progress, ruling.reason)
            return StartDecision(None, ruling.reason, never=True)
        if not self.open:
            return StartDecision(None, "the controller is ending; the next one goes on", _LATER)
        if withheld := self._consent.check(migration, scene.now):  # somebody has paused while it was judged
            return self._withheld(scene, progress, withheld)
        progress = structs.replace(progress, method=ruling.method, target=ruling.target)
        if rival := self._rival(migration):  # two orders of the same move get the same ruling, and only one begins
            return self._later(scene, progress, f"migration {rival} is moving the pod")
        if objection := self._slots.find_exceeded(
            migration, progress
        ):  # now that the target is known, and time has passed
            return self._queued(scene, progress, objection)
        self._slots.grant(migration, progress)
        self._consent.note_start(migration)
        return StartDecision(progress)

    def _withheld(self, scene: StepContext, progress: MigrationStatus, withheld: Hold) -> StartDecision:
        """People keep it from beginning; one that has nowhere to go any more does not wait for them."""
        known = _known(scene, progress)
        target = scene.migration.spec.target
        if not withheld.never and target and scene.seen.target is None:
            return StartDecision(None, f"there is no node {target} any more", never=True, known=known)
        return StartDecision(None, withheld.reason, _LATER, withheld.never, known)

    def _rival(self, migration: PodMigration) -> str:
        """Another migration that has begun to move the same pod, or is about to."""
        for key in sorted(self._board.by_pod((migration.namespace, migration.spec.pod.name))):
            other = self._board.get(key)
            if other is None or other.name == migration.name:
                continue
            if other.status.phase is Phase.IN_PROGRESS or self._slots.has_granted(key):
                return other.name
        return ""

    def still_waits(self, migration: PodMigration, now: float) -> bool:
        """Whether a pending migration would only be told again what it has been told, or is the next leader's."""
        if not self.open:
            return migration.status.phase is Phase.PENDING
        if self._consent.is_held(migration):
            return self._consent.has_reported(migration, now)
        grows_stale = not migration.spec.by_hand
        return self._slots.still_waits(migration) and not (grows_stale and self._is_late(migration, now))

    @contextmanager
    def reserve(self, migration: PodMigration) -> Iterator[None]:
        """Hold a slot while it is looked at, so that of many who wait for the same one only one is looked at."""
        if migration.status.phase is not Phase.PENDING or self._consent.is_held(migration):
            yield
            return
        self._slots.reserve(migration, structs.replace(migration.status, target=migration.spec.target))
        try:
            yield
        finally:
            known = self._board.get((migration.namespace, migration.name))
            if known is None or known.status.phase is Phase.PENDING:
                self._slots.release((migration.namespace, migration.name))

    def _queued(self, scene: StepContext, progress: MigrationStatus, reason: str) -> StartDecision:
        """It waits in line: a plan grows stale meanwhile, an order of a person does not."""
        if scene.migration.spec.by_hand:
            return StartDecision(None, reason, _SOON, known=_known(scene, progress))
        return self._later(scene, progress, reason, _SOON)

    def _later(self, scene: StepContext, progress: MigrationStatus, reason: str, wait: float = _LATER) -> StartDecision:
        if self._is_late(scene.migration, scene.now):
            return StartDecision(None, f"it could not begin in time: {reason}", never=True)
        return StartDecision(None, reason, wait, known=_known(scene, progress))

    def _is_late(self, migration: PodMigration, now: float) -> bool:
        timeout = migration.spec.timeout or self._timeout()
        began_to_wait = (
            migration.metadata.creation_timestamp or now,
            migration.status.retry_time or 0.0,
            self._consent.since(migration),
        )
        return now - max(began_to_wait) > timeout


def _wanted(migration: PodMigration) -> RequestedMove:
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


def _told(scene: StepContext, pod: Json) -> MigrationStatus:
    """What the pod itself tells: which one it is, where it is and whose."""
    controller = controller_of(pod)
    workload = scene.seen.deployment or scene.seen.controller
    return structs.replace(
        scene.migration.status,
        pod_uid=pod["metadata"]["uid"],
        source=pod["spec"].get("nodeName", ""),
        target=scene.migration.spec.target,
        controller=ObjectReference(controller["kind"], controller["name"], controller["uid"]) if controller else None,
        workload=_reference(workload) if workload is not None else None,
    )


def _known(scene: StepContext, progress: MigrationStatus) -> MigrationStatus:
    """What is told of one that waits: not which pod it is, because only when it begins that is settled."""
    return structs.replace(
        scene.migration.status, source=progress.source, target=progress.target, workload=progress.workload
    )


def _reference(body: Json) -> ObjectReference:
    return ObjectReference(body["kind"], body["metadata"]["name"], body["metadata"]["uid"])
