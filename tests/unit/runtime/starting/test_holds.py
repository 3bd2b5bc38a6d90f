"""Approval and pause: what they hold, what the start gate makes of it, and that no timeout runs meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from rescheduler.kube.pause_state import PauseDetails
from rescheduler.migration.observation import Observation, StepContext
from rescheduler.model.migration import MigrationSpec, MigrationStatus, Phase, PodMigration
from rescheduler.model.plan import Method
from rescheduler.model.policy import Concurrency
from rescheduler.planning.revalidate import MoveVerdict, RequestedMove
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.starting.gate import CachedRevalidator, StartDecision, StartGate
from rescheduler.runtime.starting.limits import ConcurrencyLimits
from tests.support.live import live
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.unit.migration.scenes import NOW, deployment, node, pod, replica_set
from tests.unit.runtime.starting.gate_parts import Pauses, holds_of

TIMEOUT = 600.0
HOUR = 3600.0
ONE_AT_A_TIME = Concurrency(total=1, per_node=None, per_namespace=None, per_workload=None)
ORDER = migration_spec(
    "web-a", "web-a-uid", target="two", strategy="LoadBalancing", approval_required=True, plan="k4m9tz"
)
WAITING = "waits for approval: rescheduler approve k4m9tz"
JANE = PauseDetails("jane", NOW, "why")
TOLD = "rescheduling is paused by jane: why; `rescheduler resume` goes on"


@dataclass
class Ruled:
    """Rules as it is told; meanwhile somebody may pause."""

    verdict: MoveVerdict = field(default_factory=lambda: MoveVerdict(Method.HANDOFF, "two"))
    held: Pauses | None = None
    asked: list[RequestedMove] = field(default_factory=list)

    async def check(self, wanted: RequestedMove) -> MoveVerdict:
        self.asked.append(wanted)
        if self.held is not None:
            self.held.pause = JANE
        return self.verdict


class Stage:
    def __init__(self, judge: Ruled | None = None, held: Pauses | None = None) -> None:
        self.judge, self.held = judge or Ruled(), held or Pauses()
        self.migrations = MigrationCache()
        now_live = live(concurrency=lambda: ONE_AT_A_TIME, timeout=TIMEOUT, approval_timeout=HOUR)
        self.concurrency_limits = ConcurrencyLimits(self.migrations, now_live)
        self.holds = holds_of(self.migrations, now_live, self.held)
        self.start_gate = StartGate(
            self.migrations, cast("CachedRevalidator", self.judge), self.concurrency_limits, self.holds, now_live
        )

    async def admit(self, migration: PodMigration, now: float = NOW, **seen: Any) -> StartDecision:
        self.migrations.put(migration)
        there = {"pod": pod(), "controller": replica_set(), "deployment": deployment(), "target": node()}
        observed = Observation(**(there | seen), members=self.migrations.members(migration))
        with self.start_gate.reserve(migration):
            return await self.start_gate.check(StepContext(migration, observed, now))

    async def told(self, migration: PodMigration, now: float = NOW) -> PodMigration:
        """Looked at, and what it was told is stored."""
        admitted = await self.admit(migration, now)
        assert admitted.known is not None
        stored = replace(migration, status=replace(admitted.known, message=admitted.reason), version="2")
        self.migrations.put(stored)
        return stored


def waiting(name: str = "m", order: MigrationSpec = ORDER, **more: Any) -> PodMigration:
    return replace(pod_migration("shop", name, order, MigrationStatus(), f"{name}-uid", "1", NOW), **more)


async def test_without_approval_it_waits_is_not_judged_and_takes_no_slot() -> None:
    stage = Stage()
    admitted = await stage.admit(waiting())
    assert (admitted.progress, admitted.reason, admitted.never) == (None, WAITING, False)
    assert admitted.known is not None
    assert (admitted.known.source, admitted.known.target) == ("one", "two")
    assert stage.judge.asked == []
    with stage.start_gate.reserve(waiting()):
        assert stage.concurrency_limits.find_exceeded(waiting("other"), MigrationStatus()) == ""


async def test_what_is_approved_is_judged_as_any_other() -> None:
    stage = Stage()
    assert (await stage.admit(waiting(approved_by="me"))).progress is not None
    assert len(stage.judge.asked) == 1


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ({"pod": None}, "the pod is gone"),
        ({"target": None}, "there is no node two any more"),
    ],
)
async def test_it_does_not_wait_for_approval_of_what_cannot_be_done(seen: dict[str, Any], reason: str) -> None:
    admitted = await Stage().admit(waiting(), **seen)
    assert (admitted.reason, admitted.never) == (reason, True)


async def test_nobody_waits_for_ever() -> None:
    stage = Stage()
    assert not (await stage.admit(waiting(), NOW + HOUR)).never
    late = await stage.admit(waiting(), NOW + HOUR + 1)
    assert (late.reason, late.never) == ("not approved within 1h0m0s (approvalTimeout)", True)


async def test_it_is_looked_at_again_only_now_and_then_and_at_once_when_something_is_new() -> None:
    stage = Stage()
    assert not stage.start_gate.still_waits(waiting(), NOW)
    told = await stage.told(waiting())
    assert stage.start_gate.still_waits(told, NOW + 29)
    assert not stage.start_gate.still_waits(told, NOW + 30)
    assert not stage.start_gate.still_waits(replace(told, approved_by="me"), NOW + 1)
    assert not stage.start_gate.still_waits(replace(told, rejected_by="me"), NOW + 1)
    assert not stage.start_gate.still_waits(told, NOW + HOUR + 1)


async def test_the_time_in_which_it_must_begin_runs_from_when_it_was_approved() -> None:
    stage = Stage(Ruled(MoveVerdict(reason="DisruptionBudget: spent", temporary=True)))
    await stage.told(waiting())
    approved = waiting(approved_by="me", version="3")
    assert not (await stage.admit(approved, NOW + 3000)).never
    assert not (await stage.admit(approved, NOW + 3000 + TIMEOUT)).never
    late = await stage.admit(approved, NOW + 3001 + TIMEOUT)
    assert late.reason == "it could not begin in time: DisruptionBudget: spent"


async def test_approval_that_is_taken_back_and_given_again_counts_from_then() -> None:
    stage = Stage(Ruled(MoveVerdict(reason="DisruptionBudget: spent", temporary=True)))
    await stage.admit(waiting(approved_by="me"), NOW)
    assert (await stage.admit(waiting(version="2"), NOW + 100)).reason == WAITING
    assert not (await stage.admit(waiting(approved_by="me", version="3"), NOW + 2000)).never


async def test_a_new_leader_gives_what_was_approved_long_ago_its_time() -> None:
    stage = Stage(Ruled(MoveVerdict(reason="DisruptionBudget: spent", temporary=True)))
    assert not (await stage.admit(waiting(approved_by="me"), NOW + 3000)).never


async def test_a_member_that_is_not_approved_keeps_the_others_waiting_and_a_lost_one_ends_them() -> None:
    pair = replace(ORDER, proposal="swap", members=2)
    stage, mine, other = Stage(), waiting("m", pair, approved_by="me"), waiting("n", pair)
    stage.migrations.put(other)
    assert (await stage.admit(mine)).reason.startswith("waits for approval of shop/n, which belongs to it")
    stage.migrations.put(replace(other, approved_by="me", version="2"))
    assert (await stage.admit(mine)).progress is not None
    stage.migrations.put(replace(other, status=MigrationStatus(Phase.FAILED, message="rejected by joe"), version="3"))
    ended = await stage.admit(mine)
    assert (ended.reason, ended.never) == ("shop/n, which belongs to it, was given up: rejected by joe", True)


@pytest.mark.parametrize("order", [replace(ORDER, approval_required=False), migration_spec("web-a", target="two")])
async def test_while_paused_nothing_begins_be_it_planned_or_by_hand(order: MigrationSpec) -> None:
    stage = Stage(held=Pauses(JANE))
    told = await stage.told(waiting(order=order))
    assert (told.status.phase, told.status.message) == (Phase.PENDING, TOLD)
    assert stage.judge.asked == []
    assert stage.start_gate.still_waits(told, NOW + 1)
    stage.held.pause = replace(JANE, reason="another")
    assert not stage.start_gate.still_waits(told, NOW + 1)
    stage.held.pause = None
    assert not stage.start_gate.still_waits(told, NOW + 1)
    assert (await stage.admit(told)).progress is not None


async def test_who_pauses_while_one_is_judged_is_heeded() -> None:
    held = Pauses()
    stage = Stage(Ruled(held=held), held)
    admitted = await stage.admit(waiting(approved_by="me"))
    assert (admitted.progress, admitted.reason) == (None, TOLD)


async def test_what_waits_in_line_is_told_of_a_pause_and_a_pause_does_not_make_it_late() -> None:
    stage = Stage(Ruled(MoveVerdict(reason="DisruptionBudget: spent", temporary=True)))
    planned = waiting(order=replace(ORDER, approval_required=False))
    in_line = replace(planned, status=MigrationStatus(message="it waits its turn: 1 under way"), version="2")
    stage.migrations.put(
        replace(waiting("busy"), status=MigrationStatus(Phase.IN_PROGRESS, source="one", target="three"))
    )
    assert stage.start_gate.still_waits(in_line, NOW)
    stage.held.pause = JANE
    assert not stage.start_gate.still_waits(in_line, NOW)
    stage.migrations.drop(("shop", "busy"))
    stage.held.pause, stage.held.resumed = None, NOW + 9 * HOUR
    assert not (await stage.admit(planned, NOW + 9 * HOUR + 1)).never
    assert (await stage.admit(planned, NOW + 10 * HOUR)).never


async def test_a_pause_does_not_tear_apart_what_belongs_together_and_has_begun() -> None:
    pair = replace(ORDER, proposal="swap", members=2, approval_required=False)
    stage = Stage(held=Pauses(JANE))
    begun = replace(
        waiting("n", replace(pair, pod="web-b")),
        status=MigrationStatus(Phase.IN_PROGRESS, source="one", target="three"),
    )
    stage.migrations.put(begun)
    assert (await stage.admit(waiting("m", pair))).progress is not None
