"""StartGate: what may pass makes a migration wait, what will not pass ends it, and what may begin counts at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from rescheduler.migration.observation import Observation, StepContext
from rescheduler.model.migration import MigrationSpec, MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.plan import Method
from rescheduler.model.policy import Concurrency, Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.revalidate import MoveVerdict, RequestedMove
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.starting.gate import CachedRevalidator, StartDecision, StartGate
from rescheduler.runtime.starting.limits import ConcurrencyLimits, is_in_line
from tests.support import builders as b
from tests.support.live import live
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.unit.migration.scenes import NOW, deployment, leaving, node, pod, replica_set
from tests.unit.runtime.starting.gate_parts import holds_of

FREE = Concurrency(total=None, per_node=None, per_namespace=None, per_workload=None)
ONE_AT_A_TIME = replace(FREE, total=1)
TIMEOUT = 600.0
PLANNED = migration_spec("web-a", "web-a-uid", target="two", strategy="LoadBalancing")
BY_HAND = migration_spec("web-a", target="two")


@dataclass
class Ruled:
    """Rules as it is told; meanwhile something may happen."""

    verdict: MoveVerdict = field(default_factory=lambda: MoveVerdict(Method.HANDOFF, "two"))
    meanwhile: Callable[[], None] = lambda: None
    asked: list[RequestedMove] = field(default_factory=list)

    async def check(self, wanted: RequestedMove) -> MoveVerdict:
        self.asked.append(wanted)
        await asyncio.sleep(0)
        self.meanwhile()
        return self.verdict


@dataclass
class Stage:
    judge: Ruled = field(default_factory=Ruled)
    limits: Concurrency = FREE
    migrations: MigrationCache = field(default_factory=MigrationCache)
    stores: bool = True

    def __post_init__(self) -> None:
        now_live = live(concurrency=lambda: self.limits, timeout=TIMEOUT, approval_timeout=3600.0)
        self.concurrency_limits = ConcurrencyLimits(self.migrations, now_live)
        holds = holds_of(self.migrations, now_live)
        self.start_gate = StartGate(
            self.migrations, cast("CachedRevalidator", self.judge), self.concurrency_limits, holds, now_live
        )

    async def admit(self, migration: PodMigration, now: float = NOW, **seen: Any) -> StartDecision:
        """As controller and executor do: reserve, observe, and store if it may begin."""
        self.migrations.put(migration)
        with self.start_gate.reserve(migration):
            admitted = await self.start_gate.check(scene(migration, now, **seen))
            if admitted.progress is not None and self.stores:
                begun = replace(admitted.progress, phase=Phase.IN_PROGRESS, attempts=admitted.progress.attempts + 1)
                self.migrations.put(replace(migration, status=begun, version="2"), ours=True)
            return admitted


def ordered(order: MigrationSpec = PLANNED, name: str = "m", *, created: float = NOW, **progress: Any) -> PodMigration:
    return pod_migration("shop", name, order, MigrationStatus(**progress), f"{name}-uid", "1", created)


def moving(name: str = "other", **order: Any) -> PodMigration:
    """Another migration of the namespace, under way."""
    progress = MigrationStatus(phase=Phase.IN_PROGRESS, source="one", target="three")
    return pod_migration("shop", name, replace(migration_spec("somebody"), **order), progress, f"{name}-uid", "1")


def scene(migration: PodMigration, now: float = NOW, **seen: Any) -> StepContext:
    """The pod, its workload and its target as they should be, but for what is given."""
    there = {"pod": pod(), "controller": replica_set(), "deployment": deployment(), "target": node()}
    return StepContext(migration, Observation(**(there | seen)), now)


async def test_what_may_begin_has_its_method_target_source_and_owners_recorded() -> None:
    stage = Stage()
    admitted = await stage.admit(ordered())
    assert admitted.progress == MigrationStatus(
        method=Method.HANDOFF,
        pod_uid="web-a-uid",
        source="one",
        target="two",
        controller=ObjectReference("ReplicaSet", "web-1", "rs-uid"),
        workload=ObjectReference("Deployment", "web", "dep-uid"),
    )
    assert [each.name for each in stage.migrations.in_progress()] == ["m"]


async def test_a_bare_pod_has_no_owners() -> None:
    stage = Stage(Ruled(MoveVerdict(Method.COPY, "two")))
    admitted = await stage.admit(ordered(), pod=pod(owner=False), controller=None, deployment=None)
    assert admitted.progress is not None
    assert (admitted.progress.controller, admitted.progress.workload) == (None, None)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ({"pod": None}, "the pod is gone"),
        ({"pod": pod() | {"metadata": pod()["metadata"] | {"uid": "new"}}}, "another pod has its name by now"),
        ({"pod": leaving(pod())}, "the pod is being deleted"),
        ({"target": None}, "there is no node two"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_will_not_pass_ends_it_with_the_reason(seen: dict[str, Any], reason: str) -> None:
    stage = Stage()
    admitted = await stage.admit(ordered(), **seen)
    assert (admitted.progress, admitted.reason, admitted.never) == (None, reason, True)
    assert stage.judge.asked == []


async def test_an_order_of_a_name_means_whoever_has_it_when_it_begins() -> None:
    other = pod() | {"metadata": pod()["metadata"] | {"uid": "new"}}
    admitted = await Stage().admit(ordered(BY_HAND), pod=other)
    assert admitted.progress is not None
    assert admitted.progress.pod_uid == "new"


async def test_a_second_attempt_means_the_pod_of_the_first() -> None:
    other = pod() | {"metadata": pod()["metadata"] | {"uid": "new"}}
    admitted = await Stage().admit(ordered(BY_HAND, pod_uid="web-a-uid", attempts=1), pod=other)
    assert (admitted.reason, admitted.never) == ("another pod has its name by now", True)


async def test_a_rollout_makes_it_wait_and_is_not_judged() -> None:
    stage = Stage()
    changing = deployment()
    changing["status"]["updatedReplicas"] = 1
    admitted = await stage.admit(ordered(), deployment=changing)
    assert (admitted.progress, admitted.never) == (None, False)
    assert "is being rolled out or scaled" in admitted.reason
    assert stage.judge.asked == []


async def test_a_replica_that_is_not_ready_makes_a_handoff_wait_before_there_is_a_copy() -> None:
    siblings = (pod(), pod("web-b", ready=False))
    waits = await Stage().admit(ordered(), siblings=siblings)
    assert (waits.progress, waits.never) == (None, False)
    assert waits.reason == "web-b is not Ready, and would be deleted in the original's place"
    evicts = await Stage(Ruled(MoveVerdict(Method.EVICT, "two"))).admit(ordered(), siblings=siblings)
    assert evicts.progress is not None


async def test_what_the_rules_say_may_pass_makes_it_wait_and_the_rest_ends_it() -> None:
    spent = MoveVerdict(reason="DisruptionBudget: web allows no disruption", temporary=True)
    waits = await Stage(Ruled(spent)).admit(ordered())
    assert (waits.progress, waits.reason, waits.never) == (None, spent.reason, False)
    disabled = MoveVerdict(reason="ReschedulingDisabled: label … is disabled")
    ends = await Stage(Ruled(disabled)).admit(ordered())
    assert (ends.progress, ends.reason, ends.never) == (None, disabled.reason, True)


async def test_what_waits_tells_where_it_is_and_of_whose_but_not_which_pod_is_meant() -> None:
    stage = Stage(Ruled(MoveVerdict(reason="NoTarget: full", temporary=True)))
    known = (await stage.admit(ordered(BY_HAND))).known
    assert known == MigrationStatus(
        source="one", target="two", workload=ObjectReference("Deployment", "web", "dep-uid")
    )


@pytest.mark.parametrize("order", [PLANNED, BY_HAND])
async def test_one_that_could_not_begin_in_time_ends_with_what_it_waited_for(order: MigrationSpec) -> None:
    judge = Ruled(MoveVerdict(reason="NoTarget: full", temporary=True))
    in_time = await Stage(judge).admit(ordered(order), NOW + TIMEOUT)
    assert not in_time.never
    late = await Stage(judge).admit(ordered(order), NOW + TIMEOUT + 1)
    assert (late.reason, late.never) == ("it could not begin in time: NoTarget: full", True)


async def test_its_own_time_out_counts_before_the_general_one() -> None:
    judge = Ruled(MoveVerdict(reason="NoTarget: full", temporary=True))
    patient = ordered(replace(PLANNED, timeout=10 * TIMEOUT))
    assert not (await Stage(judge).admit(patient, NOW + 2 * TIMEOUT)).never


async def test_an_attempt_has_the_whole_time_after_its_pause() -> None:
    judge = Ruled(MoveVerdict(reason="NoTarget: full", temporary=True))
    again = ordered(attempts=1, retry_time=NOW + TIMEOUT, pod_uid="web-a-uid")
    assert not (await Stage(judge).admit(again, NOW + 2 * TIMEOUT)).never


async def test_limits_make_it_wait_in_line_and_cost_no_judgement() -> None:
    stage = Stage(limits=ONE_AT_A_TIME)
    stage.migrations.put(moving())
    admitted = await stage.admit(ordered())
    assert admitted.reason == "it waits its turn: 1 under way (migration.concurrency.total)"
    assert (admitted.progress, admitted.never, stage.judge.asked) == (None, False, [])


async def test_in_line_a_plan_grows_stale_and_an_order_by_hand_does_not() -> None:
    stage = Stage(limits=ONE_AT_A_TIME)
    stage.migrations.put(moving())
    late = NOW + TIMEOUT + 1
    assert (await stage.admit(ordered(PLANNED), late)).never
    assert not (await stage.admit(ordered(BY_HAND), late)).never


async def test_members_of_a_proposal_that_has_begun_do_not_wait_in_line() -> None:
    stage = Stage(limits=ONE_AT_A_TIME)
    stage.migrations.put(moving(proposal="p", members=2))
    assert (await stage.admit(ordered(replace(PLANNED, proposal="p", members=2)))).progress is not None


async def test_a_limit_of_the_node_that_the_rules_chose_counts_too() -> None:
    stage = Stage(Ruled(MoveVerdict(Method.HANDOFF, "three")), limits=replace(FREE, per_node=1))
    stage.migrations.put(
        replace(moving(), status=MigrationStatus(phase=Phase.IN_PROGRESS, source="four", target="three"))
    )
    admitted = await stage.admit(ordered(replace(BY_HAND, target="")), target=None)
    assert admitted.progress is None
    assert "perNode, three" in admitted.reason
    assert not stage.concurrency_limits.has_granted(("shop", "m"))


async def test_a_slot_that_somebody_takes_while_it_is_judged_is_taken() -> None:
    stage = Stage(limits=ONE_AT_A_TIME)
    stage.judge.meanwhile = lambda: stage.migrations.put(moving())
    admitted = await stage.admit(ordered())
    assert (admitted.progress, admitted.never) == (None, False)
    assert "waits its turn" in admitted.reason


async def test_of_many_that_are_looked_at_at_once_as_many_begin_as_may() -> None:
    stage = Stage(limits=replace(FREE, total=3))
    looks = [stage.admit(ordered(replace(BY_HAND, pod=f"pod-{n}"), f"m{n}")) for n in range(9)]
    first = await asyncio.gather(*looks)
    again = [await stage.admit(each) for each in list(stage.migrations.active()) if each.status.phase is Phase.PENDING]
    assert sum(each.progress is not None for each in (*first, *again)) == 3
    assert len(list(stage.migrations.in_progress())) == 3


async def test_of_two_orders_for_one_pod_one_begins() -> None:
    stage = Stage()
    first, second = await asyncio.gather(stage.admit(ordered(name="m1")), stage.admit(ordered(name="m2")))
    assert first.progress is not None
    assert (second.progress, second.reason) == (None, "migration m1 is moving the pod")


async def test_a_pod_that_is_being_moved_or_made_by_another_migration_waits_for_it() -> None:
    for rival in (
        moving(pod="web-a"),
        replace(moving(), status=replace(moving().status, replacement=ObjectReference("Pod", "web-a"))),
    ):
        stage = Stage()
        stage.migrations.put(rival)
        admitted = await stage.admit(ordered())
        assert (admitted.reason, admitted.never) == ("migration other is moving the pod", False)


async def test_a_pending_rival_and_one_of_another_namespace_are_in_nobodys_way() -> None:
    stage = Stage()
    stage.migrations.put(ordered(name="other"))
    stage.migrations.put(replace(moving(pod="web-a"), namespace="bank"))
    assert (await stage.admit(ordered())).progress is not None


async def test_what_was_granted_and_could_not_be_stored_is_given_back() -> None:
    stage = Stage(limits=ONE_AT_A_TIME, stores=False)
    assert (await stage.admit(ordered())).progress is not None
    assert (await stage.admit(ordered(replace(BY_HAND, pod="web-b"), "next"))).progress is not None


async def test_nothing_begins_any_more_when_the_process_is_ending() -> None:
    stage = Stage()
    stage.start_gate.open = False
    admitted = await stage.admit(ordered())
    assert (admitted.progress, admitted.never, stage.judge.asked) == (None, False, [])


async def test_nothing_begins_if_the_process_is_told_to_end_while_it_is_judged() -> None:
    stage = Stage()

    def close() -> None:
        stage.start_gate.open = False

    stage.judge.meanwhile = close
    admitted = await stage.admit(ordered())
    assert (admitted.progress, admitted.never) == (None, False)
    assert not stage.concurrency_limits.has_granted(("shop", "m"))


async def test_the_judge_is_told_who_asks_and_what_has_been_tried() -> None:
    stage = Stage()
    await stage.admit(
        ordered(replace(BY_HAND, method=Method.EVICT), pod_uid="web-a-uid", tried_methods=(Method.HANDOFF,))
    )
    await stage.admit(ordered(PLANNED))
    assert stage.judge.asked == [
        RequestedMove("shop", "web-a", "web-a-uid", "two", Method.EVICT, (Method.HANDOFF,), by_hand=True),
        RequestedMove("shop", "web-a", "web-a-uid", "two"),
    ]


async def test_one_in_line_needs_no_look_until_its_limit_changes_or_its_time_is_over() -> None:
    stage = Stage(limits=ONE_AT_A_TIME)
    stage.migrations.put(moving())
    admitted = await stage.admit(ordered())
    assert admitted.known is not None
    told = replace(admitted.known, message=admitted.reason)
    waiting, late = replace(ordered(), status=told), NOW + TIMEOUT + 1
    assert is_in_line(waiting)
    assert stage.start_gate.still_waits(waiting, NOW)
    assert not stage.start_gate.still_waits(waiting, late)
    assert stage.start_gate.still_waits(replace(waiting, spec=BY_HAND), late), "an order by hand does not grow stale"
    assert not stage.start_gate.still_waits(replace(waiting, spec=replace(PLANNED, paused=True)), NOW)
    stage.migrations.drop(("shop", "other"))
    assert not stage.start_gate.still_waits(waiting, NOW)


async def test_when_the_process_is_ending_what_has_not_begun_is_left_for_the_next_one() -> None:
    stage = Stage()
    stage.start_gate.open = False
    assert stage.start_gate.still_waits(ordered(), NOW)
    assert not stage.start_gate.still_waits(moving(), NOW)


async def test_whoever_waits_for_the_same_slot_is_not_looked_at_while_another_is() -> None:
    stage = Stage(limits=ONE_AT_A_TIME)
    one, other = (ordered(name=name, message="it waits its turn: 1 under way") for name in ("one", "other"))
    for each in (one, other):
        stage.migrations.put(each)
    assert not stage.start_gate.still_waits(other, NOW)
    with stage.start_gate.reserve(one):
        assert stage.start_gate.still_waits(other, NOW)
    assert not stage.start_gate.still_waits(other, NOW)


class StillLoop(asyncio.SelectorEventLoop):
    """Its time goes on only when it is told to; threads may still be waited for."""

    now = 0.0

    def time(self) -> float:
        return self.now


@dataclass
class Drawn:
    """A cluster of two nodes and a Deployment, and how often it was looked at."""

    migrations: MigrationCache = field(default_factory=MigrationCache)
    looks: int = 0
    takes: float = 0.0
    policy: Policy = field(default_factory=Policy)

    def copied(self) -> Callable[[], ClusterSnapshot]:
        """In the event loop; what is made of it is not."""
        self.looks += 1
        loop = asyncio.get_running_loop()
        assert isinstance(loop, StillLoop)
        loop.now += self.takes
        return self._snapshot

    def _snapshot(self) -> ClusterSnapshot:
        assert threading.current_thread() is not threading.main_thread(), "it may take a second"
        return b.cluster(b.node("one"), b.node("two", cpu=1), b.deployment("web", on=["one", "one", "one"], cpu="400m"))

    @asynccontextmanager
    async def judge(self) -> AsyncIterator[tuple[CachedRevalidator, StillLoop]]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, StillLoop)
        yield CachedRevalidator(self.copied, self.migrations, live(policy=lambda: self.policy)), loop


def web(number: int) -> str:
    return f"web-{b.hash_of('web')}-{number}"


def order_of(number: int) -> RequestedMove:
    return RequestedMove("default", web(number), target="two")


def in_still_time(drawn: Drawn, test: Callable[[CachedRevalidator, StillLoop], Any]) -> None:
    async def story() -> None:
        async with drawn.judge() as (judge, loop):
            await test(judge, loop)

    with asyncio.Runner(loop_factory=StillLoop) as runner:
        runner.run(story())


def test_the_judge_draws_the_cluster_anew_when_its_picture_is_old() -> None:
    drawn = Drawn()

    async def story(judge: CachedRevalidator, loop: StillLoop) -> None:
        for moment, looks in ((0.0, 1), (1.0, 1), (1.1, 2)):
            loop.now = moment
            await judge.check(order_of(0))
            assert drawn.looks == looks

    in_still_time(drawn, story)


def test_a_picture_that_takes_long_to_draw_is_kept_for_longer() -> None:
    drawn = Drawn(takes=2.0)

    async def story(judge: CachedRevalidator, loop: StillLoop) -> None:
        await judge.check(order_of(0))
        for later, looks in ((10.0, 1), (0.1, 2)):
            loop.now += later
            await judge.check(order_of(0))
            assert drawn.looks == looks

    in_still_time(drawn, story)


def test_another_policy_is_judged_by_at_once() -> None:
    drawn = Drawn()

    async def story(judge: CachedRevalidator, _: StillLoop) -> None:
        assert (await judge.check(order_of(0))).method is Method.HANDOFF
        drawn.policy = Policy(excluded_namespaces=("default",))
        assert (await judge.check(order_of(1))).method is None
        assert drawn.looks == 2

    in_still_time(drawn, story)


def test_what_is_ruled_counts_for_what_follows_in_the_same_picture() -> None:
    async def story(judge: CachedRevalidator, _: StillLoop) -> None:
        verdicts = await asyncio.gather(*(judge.check(order_of(number)) for number in range(3)))
        assert [verdict.method for verdict in verdicts] == [Method.HANDOFF, Method.HANDOFF, None]
        assert verdicts[2].temporary

    in_still_time(Drawn(), story)


def test_in_a_new_picture_what_is_under_way_counts_as_there() -> None:
    drawn = Drawn()

    def begun(number: int) -> PodMigration:
        progress = MigrationStatus(phase=Phase.IN_PROGRESS, method=Method.HANDOFF, source="one", target="two")
        return pod_migration("default", f"m{number}", migration_spec(web(number)), progress, f"m{number}-uid", "1")

    async def story(judge: CachedRevalidator, loop: StillLoop) -> None:
        for number in range(2):
            await judge.check(order_of(number))
            drawn.migrations.put(begun(number))
        loop.now = 60.0
        third = await judge.check(order_of(2))
        assert (third.method, third.temporary, drawn.looks) == (None, True, 2)
        again = await judge.check(order_of(0))
        assert (again.method, again.temporary) == (None, True)

    in_still_time(drawn, story)


REMOVAL = migration_spec("web-a", "web-a-uid", method=Method.REMOVE, strategy="FailedPods")


def ended(phase: str = "Failed") -> dict[str, Any]:
    body = pod(ready=False)
    body["status"]["phase"] = phase
    return body


async def test_a_removal_is_judged_as_one_and_begins_without_a_target_whatever_its_workload_is_doing() -> None:
    stage = Stage(Ruled(MoveVerdict(Method.REMOVE)))
    rolling = deployment()
    rolling["status"]["updatedReplicas"] = 1
    admitted = await stage.admit(ordered(REMOVAL), pod=ended(), deployment=rolling, target=None)
    assert admitted.progress is not None
    assert (admitted.progress.method, admitted.progress.source, admitted.progress.target) == (Method.REMOVE, "one", "")
    assert [(each.method, each.target, each.uid) for each in stage.judge.asked] == [(Method.REMOVE, "", "web-a-uid")]


@pytest.mark.parametrize("phase", ["Running", "Pending"])
async def test_a_pod_that_has_not_ended_is_never_removed(phase: str) -> None:
    stage = Stage(Ruled(MoveVerdict(Method.REMOVE)))
    admitted = await stage.admit(ordered(REMOVAL), pod=ended(phase))
    assert (admitted.progress, admitted.never) == (None, True)
    assert admitted.reason == "it has not ended: only pods that have are removed"
    assert not stage.judge.asked
