"""The executor records before it acts, and no refusal or foreign write makes it spin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from rescheduler.kube.errors import ApiError
from rescheduler.kube.migrations import MigrationClient, StaleError
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration.commands import Command
from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.migration.observation import FailedCommand, Observation, ObservedPart, StepContext
from rescheduler.model.labels import MIGRATION_ID, MIGRATION_REASON, MIGRATION_STATUS
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from rescheduler.model.plan import Method
from rescheduler.runtime.executor import MigrationExecutor
from rescheduler.runtime.starting.gate import StartDecision
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.unit.migration.scenes import NOW, migration, pod, replica_set, scene

KEY = ("shop", "m")
PENDING = pod_migration("shop", "m", migration_spec("web-a", target="two"), MigrationStatus(), "m-uid", "1")


@dataclass
class Stage:
    """A store, a cluster that never changes, and a writer that answers as scripted; all in one log."""

    kept: PodMigration | None
    seen: Observation
    answers: list[FailedCommand | None] = field(default_factory=list)
    admitted: StartDecision = field(default_factory=lambda: StartDecision(None, "the limit is reached", 7.0))
    failure: Exception | None = None
    log: list[str] = field(default_factory=list)

    async def read(self, _namespace: str, _name: str) -> PodMigration | None:
        return self.kept

    async def update_status(self, migration: PodMigration, progress: MigrationStatus) -> PodMigration:
        if self.failure is not None:
            raise self.failure
        self.log.append(f"store {progress.step or progress.phase}")
        self.kept = replace(migration, status=progress)
        return self.kept

    async def look(self, _migration: PodMigration, _parts: frozenset[ObservedPart]) -> Observation:
        return self.seen

    async def carry_out(self, command: Command) -> FailedCommand | None:
        self.log.append(f"{command.verb} {command.kind}")
        return self.answers.pop(0) if self.answers else None

    async def admit(self, _scene: StepContext) -> StartDecision:
        return self.admitted

    async def work(self) -> float | None:
        executor = MigrationExecutor(
            cast("MigrationClient", self),
            cast("MigrationObserver", self),
            cast("CommandSender", self),
            Lifecycle,
            self.admit,
        )
        return await executor.execute(KEY, lambda: NOW, lambda _: ())


def stage(moving: PodMigration | None, **seen: object) -> Stage:
    return Stage(moving, scene(moving or migration(), **seen).seen)


async def test_a_migration_that_is_gone_needs_no_further_look() -> None:
    assert await stage(None).work() is None


async def test_a_step_is_stored_before_its_commands_are_carried_out() -> None:
    found = stage(migration())
    await found.work()
    assert found.log[:3] == ["store Mark", "patch Pod", "patch Deployment"]


async def test_commands_that_have_no_effect_are_not_repeated_without_end() -> None:
    found = stage(migration())
    assert await found.work() == 5.0
    assert found.log == ["store Mark", "patch Pod", "patch Deployment"]


@pytest.mark.parametrize("code", [409, 429])
async def test_what_passes_by_itself_is_looked_at_again_soon(code: int) -> None:
    found = stage(migration())
    found.answers = [FailedCommand(code, "", "later")]
    assert await found.work() == 1.0
    assert found.log == ["store Mark", "patch Pod"]


async def test_a_refusal_is_looked_at_again_once_and_then_left_for_later() -> None:
    found = stage(migration())
    found.answers = [FailedCommand(422, "Invalid", "metadata.uid: field is immutable")] * 9
    assert await found.work() == 5.0
    assert found.log == ["store Mark", "patch Pod", "store Mark", "patch Pod"]
    assert found.kept is not None
    assert found.kept.status.message == "mark the original: metadata.uid: field is immutable"


async def test_the_step_sees_how_it_was_refused() -> None:
    labels = {MIGRATION_ID: "m", MIGRATION_STATUS: "in-progress", MIGRATION_REASON: "Manual"}
    found = stage(migration(step="CreateCopy"), pod=pod(labels=labels))
    found.answers = [FailedCommand(403, "Forbidden", "exceeded quota")]
    await found.work()
    assert found.log[:4] == ["store CreateCopy", "create Pod", "store RollBack", "patch Pod"]
    assert found.kept is not None
    assert found.kept.status.tried_methods == (Method.HANDOFF,)


async def test_a_migration_that_something_else_wrote_to_is_read_again_later() -> None:
    found = stage(migration())
    found.failure = StaleError("shop/m: the object has been modified")
    assert await found.work() == 1.0
    assert found.log == []


async def test_errors_without_an_answer_are_the_callers() -> None:
    found = stage(migration())
    found.failure = ApiError(None, "Unreachable", "nobody is there", "/")
    with pytest.raises(ApiError):
        await found.work()
    assert found.log == []


async def test_a_migration_that_may_not_begin_says_why_once() -> None:
    found = stage(PENDING)
    assert await found.work() == 7.0
    assert await found.work() == 7.0
    assert found.log == ["store Pending"]
    assert found.kept is not None
    assert found.kept.status.message == "the limit is reached"


async def test_a_migration_that_can_never_begin_has_failed() -> None:
    found = stage(PENDING)
    found.admitted = StartDecision(None, "the pod is gone", never=True)
    await found.work()
    assert found.kept is not None
    assert (found.kept.status.phase, found.kept.status.completion_time) == (Phase.FAILED, NOW)


async def test_a_paused_migration_is_not_even_asked_about() -> None:
    found = stage(replace(PENDING, spec=migration_spec("web-a", paused=True)))
    found.admitted = StartDecision(migration().status)
    assert await found.work() == 300.0
    assert found.kept is not None
    assert (found.kept.status.phase, found.kept.status.message) == (Phase.PENDING, "paused")


async def test_the_next_attempt_waits_for_its_time() -> None:
    found = stage(replace(PENDING, status=MigrationStatus(retry_time=NOW + 20, message="no room")))
    found.admitted = StartDecision(migration().status)
    assert await found.work() == 20.0
    assert found.log == []


async def test_an_admitted_migration_begins_and_goes_on_at_once() -> None:
    found = stage(PENDING)
    found.admitted = StartDecision(replace(migration().status, attempts=0))
    assert await found.work() == 0.0
    await found.work()
    assert found.log[:3] == ["store InProgress", "store Mark", "patch Pod"]


async def test_a_migration_that_is_over_is_looked_at_once_more_for_late_notes() -> None:
    noted = replica_set(annotations={MIGRATION_ID: "m"})
    over = migration(phase=Phase.COMPLETED, completion_time=NOW - 60)
    found = stage(over, controller=noted)
    assert await found.work() == 1.0
    assert found.log == ["patch ReplicaSet"]
    assert await stage(over).work() is None
    assert await stage(migration(phase=Phase.COMPLETED, completion_time=NOW - 2)).work() == 3.0


async def test_nothing_begins_without_approval_whatever_the_start_gate_says() -> None:
    wanted = migration_spec("web-a", target="two", approval_required=True, plan="k4m9tz")
    begun = StartDecision(MigrationStatus(method=Method.HANDOFF, pod_uid="web-a-uid", source="one", target="two"))
    found = stage(replace(PENDING, spec=wanted))
    found.admitted = begun
    assert (await found.work() or 0.0) > 0
    assert found.kept is not None
    assert found.kept.status == MigrationStatus(message="waits for approval: rescheduler approve k4m9tz")
    approved = stage(replace(PENDING, spec=wanted, approved_by="me"))
    approved.admitted = begun
    await approved.work()
    assert approved.kept is not None
    assert approved.kept.status.phase is Phase.IN_PROGRESS
