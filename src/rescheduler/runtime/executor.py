"""Executes one migration as far as it goes now: observe, decide, record, act, observe again.

Workers call it with a key, and never two at once with the same key. The lifecycle makes the decisions. The result says
when to look again. Errors that it cannot handle go to the caller, which retries with back-off.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace

import structlog
from msgspec import structs

from rescheduler.kube.migrations import MigrationClient, StaleError
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration.commands import Command, Verb
from rescheduler.migration.lifecycle import Lifecycle, Transition
from rescheduler.migration.observation import FailedCommand, Observation, ObservedPart, SteeringMethod, StepContext
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore
from rescheduler.runtime.reconciler import KeyedLock
from rescheduler.runtime.starting.gate import StartDecision

_log = structlog.stdlib.get_logger(__name__)
_LOOKS = 50  # decisions for one migration in a row; more would mean a loop
_CONFLICT_DELAY = 1.0  # seconds after a conflict, a spent budget, or a concurrent change of the PodMigration
_REFUSED_DELAY = 5.0  # seconds after a refusal that another look did not cure
_LATE = 5.0  # seconds after its end at which a migration is observed once more, for late writes of controllers
_TRANSIENT = frozenset({409, 429})
_MOST_VERSIONS = 10_000  # pods; if a pod is dropped too early, its next event causes one needless look

Members = Callable[[PodMigration], tuple[PodMigration, ...]]
CheckStart = Callable[[StepContext], Awaitable[StartDecision]]


class ControllerObserver:
    """Observes the cluster, and adds steering and rival migrations.

    Every write of ours comes back as a watch event a moment later. The versions that an observation has seen are
    remembered, so that such an event does not cause another look at the migration.
    """

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
                self._remember((metadata["namespace"], metadata["name"]), metadata["resourceVersion"])
        return replace(seen, steered=self._steering(migration.namespace), rivals=self._find_rivals(migration))

    def is_old(self, pod: ObjectKey, version: str) -> bool:
        """Whether an observation has seen this version of the pod, or a later one."""
        return version.isdecimal() and int(version) <= self._seen.get(pod, -1)

    def _remember(self, pod: ObjectKey, version: str) -> None:
        if version.isdecimal():
            self._seen[pod] = max(int(version), self._seen.pop(pod, -1))
            if len(self._seen) > _MOST_VERSIONS:
                self._seen.popitem(last=False)

    def _find_rivals(self, migration: PodMigration) -> tuple[PodMigration, ...]:
        """The other migrations under way that move pods of the same controller."""
        controller = migration.status.controller
        if controller is None:
            return ()
        found = (self._migrations.get(key) for key in sorted(self._migrations.by_owner(controller.uid)))
        return tuple(
            each
            for each in found
            if each is not None
            and each.key != migration.key
            and each.status.phase is Phase.IN_PROGRESS
            and each.status.controller is not None
            and each.status.controller.uid == controller.uid
        )


class MigrationExecutor:
    """Executes migrations; keeps no state of them between two calls."""

    def __init__(
        self,
        store: MigrationStore | MigrationClient,
        observer: ControllerObserver | MigrationObserver,
        sender: CommandSender,
        lifecycle: Callable[[], Lifecycle],
        check_start: CheckStart,
    ) -> None:
        self._store = store
        self._observer = observer
        self._sender = sender
        self._lifecycle = lifecycle
        self._check_start = check_start
        self._budget_locks = KeyedLock()

    async def execute(self, key: ObjectKey, now: Callable[[], float], members: Members) -> float | None:
        """Execute a migration as far as it goes now; return the seconds until the next look, if one is needed."""
        try:
            return await self._execute(key, now, members)
        except StaleError as error:
            _log.info("migration changed concurrently, retrying", migration="/".join(key), why=str(error))
            return _CONFLICT_DELAY

    async def _execute(self, key: ObjectKey, now: Callable[[], float], members: Members) -> float | None:
        migration, life = await self._store.read(*key), self._lifecycle()
        refused: FailedCommand | None = None
        done: list[str] = []
        for _ in range(_LOOKS):
            if migration is None:
                return None
            seen = await self._observer.look(migration, life.needs(migration))
            scene = StepContext(migration, replace(seen, members=members(migration), refused=refused), now())
            if migration.status.over:
                return await self._clean_up_after(scene, life)
            if migration.status.phase is Phase.PENDING:
                decision = await self._start(scene, life)
            else:
                decision = life.advance(scene)
            begins = migration.status.phase is Phase.PENDING and decision.status.phase is Phase.IN_PROGRESS
            if decision.status != migration.status:
                migration = await self._record(migration, decision.status)
            if begins:
                return 0.0  # the caller can now lock the controller of the pod
            if migration.status.over:
                return _LATE
            if not decision.commands:
                if decision.wait:
                    return decision.wait
                refused, done = None, []
                continue
            wanted = [migration.status.step, *(str(command) for command in decision.commands)]
            if wanted == done and refused is None:
                _log.warning("command had no effect, retrying", migration="/".join(key), command=wanted[1])
                return _REFUSED_DELAY
            done = wanted
            again, refused = refused is not None, await self._act(scene, decision.commands)
            if refused is not None and (again or refused.code in _TRANSIENT):
                return _CONFLICT_DELAY if refused.code in _TRANSIENT else _REFUSED_DELAY
        _log.warning("migration does not settle, retrying", migration="/".join(key), decisions=_LOOKS)
        return _REFUSED_DELAY

    async def _start(self, scene: StepContext, life: Lifecycle) -> Transition:
        """Start a pending migration, or say why it waits or fails."""
        progress = scene.migration.status
        if held := life.check_hold(scene):
            return Transition(structs.replace(progress, message=held.reason), wait=held.seconds)
        decision = await self._check_start(scene)
        if decision.progress is not None:
            if unapproved := life.check_approval(scene):  # on the object itself: the gate's cache may be behind
                return Transition(structs.replace(progress, message=unapproved.reason), wait=unapproved.seconds)
            return Transition(life.begin(scene, decision.progress))
        waiting = structs.replace(decision.known or progress, message=decision.reason)
        if decision.never:
            return Transition(structs.replace(waiting, phase=Phase.FAILED, completion_time=scene.now))
        return Transition(waiting, wait=decision.wait)

    async def _clean_up_after(self, scene: StepContext, life: Lifecycle) -> float | None:
        """Clean up once more after a migration that is over."""
        todo = life.clean_up(scene)
        if todo:
            await self._act(scene, todo)
            return _CONFLICT_DELAY
        left = (scene.migration.status.completion_time or 0.0) + _LATE - scene.now
        return left if left > 0 else None

    async def _record(self, migration: PodMigration, progress: MigrationStatus) -> PodMigration:
        before = migration.status
        stored = await self._store.update_status(migration, progress)
        if (progress.phase, progress.step) != (before.phase, before.step):
            _log.info(
                "migration " + (f"in step {progress.step}" if progress.step else f"is {progress.phase.value}"),
                migration=migration.full_name,
                pod=f"{migration.namespace}/{migration.spec.pod.name}",
                source=progress.source,
                target=progress.target,
                method=progress.method.value if progress.method else None,
                message=progress.message or None,
            )
        return stored

    async def _act(self, scene: StepContext, commands: tuple[Command, ...]) -> FailedCommand | None:
        for command in commands:
            async with self._lock_budgets(scene, command):
                refused = await self._sender.carry_out(command)
            fields = {"migration": scene.migration.full_name, "command": str(command)}
            if refused is not None:
                _log.info("command refused", **fields, code=refused.code, why=refused.message)
                return refused
            _log.debug("command done", **fields)
        return None

    def _lock_budgets(self, scene: StepContext, command: Command) -> AbstractAsyncContextManager[None]:
        """Serialise evictions against the same disruption budget; different budgets do not block each other."""
        if command.verb is not Verb.EVICT:
            return nullcontext()
        own = (scene.seen.temporary_budget,) if scene.seen.temporary_budget is not None else ()
        budgets: list[Hashable] = [budget["metadata"]["uid"] for budget in (*scene.seen.budgets, *own)]
        return self._budget_locks.acquire(budgets)
