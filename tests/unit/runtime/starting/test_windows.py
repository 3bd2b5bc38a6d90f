"""When moves may begin: windows, moves of an hour, what the start gate makes of them, and how many are ordered."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.migration.observation import Observation, StepContext
from rescheduler.model.migration import MigrationSpec, MigrationStatus, Phase, PodMigration
from rescheduler.model.plan import Method, Move, Plan
from rescheduler.model.policy import Approval, Concurrency, Policy, Timing
from rescheduler.planning.budgets import HOUR
from rescheduler.planning.revalidate import MoveVerdict, RequestedMove
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore
from rescheduler.runtime.planning_loop import OrderTerms, create_migrations
from rescheduler.runtime.starting.gate import CachedRevalidator, StartDecision, StartGate
from rescheduler.runtime.starting.limits import ConcurrencyLimits
from rescheduler.runtime.starting.windows import Hold, TimeWindows
from tests.support.builders import cluster, node
from tests.support.live import live
from tests.support.planning import planned
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.unit.migration.scenes import NOW, deployment, pod, replica_set
from tests.unit.migration.scenes import node as target_node
from tests.unit.runtime.starting.gate_parts import holds_of

PATIENCE = 600.0
BY_CHOICE = migration_spec("web-a", "web-a-uid", target="two", strategy="LoadBalancing", windowed=True)
BY_HAND = migration_spec("web-a", "web-a-uid", target="two")
AT_TEN = Timing(("Fri 10:00-12:00",), "Europe/Berlin")
"""NOW is Friday, 2027-01-15, at 09:00 in Berlin."""
CLOSED = "no time window is open before Fri 2027-01-15 10:00 Europe/Berlin (when.windows)"


def unwindowed(most: int) -> Timing:
    return Timing(moves_per_hour=most)


def in_each(most: int) -> Timing:
    return Timing(moves_per_hour_per_namespace=most)


def waiting(name: str, wanted: MigrationSpec = BY_CHOICE, **progress: Any) -> PodMigration:
    return pod_migration("shop", name, wanted, MigrationStatus(**progress), f"{name}-uid", "1", NOW)


def begun(name: str, at: float, phase: Phase = Phase.COMPLETED, wanted: MigrationSpec = BY_CHOICE) -> PodMigration:
    return waiting(name, wanted, phase=phase, start_time=at, attempts=1)


@dataclass
class Clock:
    now: float = NOW

    def __call__(self) -> float:
        return self.now


@dataclass
class Stage:
    """A start gate whose revalidator lets everything begin."""

    timing: Timing
    clock: Clock = field(default_factory=Clock)
    migrations: MigrationCache = field(default_factory=MigrationCache)
    judged: int = 0

    def __post_init__(self) -> None:
        now_live = live(
            policy=lambda: Policy(when=self.timing),
            concurrency=lambda: Concurrency(None, None, None, None),
            timeout=PATIENCE,
            approval_timeout=HOUR,
        )
        self.hours = TimeWindows(self.migrations, now_live, self.clock)
        holds = holds_of(self.migrations, now_live, windows=self.hours)
        concurrency_limits = ConcurrencyLimits(self.migrations, now_live)
        self.start_gate = StartGate(
            self.migrations, cast("CachedRevalidator", self), concurrency_limits, holds, now_live
        )

    async def check(self, wanted: RequestedMove) -> MoveVerdict:
        self.judged += 1
        return MoveVerdict(Method.HANDOFF, "two")

    async def admit(self, migration: PodMigration) -> StartDecision:
        self.migrations.put(migration)
        named = pod(name=migration.spec.pod.name, uid=migration.spec.pod.uid)
        members = self.migrations.members(migration)
        there: dict[str, Any] = {
            "pod": named,
            "controller": replica_set(),
            "deployment": deployment(),
            "target": target_node(),
        }
        seen = Observation(**there, members=members)
        with self.start_gate.reserve(migration):
            return await self.start_gate.check(StepContext(migration, seen, self.clock.now))


def numbered(number: int, **more: Any) -> PodMigration:
    """One of many, each of another pod."""
    return waiting(f"m{number}", replace(BY_CHOICE, pod=f"web-{number}", uid=f"web-{number}-uid", **more))


async def test_outside_of_its_windows_nothing_begins_by_choice_and_what_waits_too_long_is_given_up() -> None:
    stage = Stage(AT_TEN)
    refused = await stage.admit(waiting("m"))
    assert (refused.progress, refused.never) == (None, True)
    assert refused.reason == f"{CLOSED}; it is given up, and planned again then"
    assert stage.judged == 0


async def test_shortly_before_a_window_opens_moves_wait_for_it_and_no_time_is_counted_against_them() -> None:
    stage = Stage(AT_TEN)
    stage.clock.now = NOW + HOUR - PATIENCE + 1
    early = await stage.admit(waiting("m"))
    assert (early.reason, early.never) == (CLOSED, False)
    told = waiting("m", message=CLOSED)
    stage.migrations.put(replace(told, version="2"))
    assert stage.start_gate.still_waits(told, stage.clock.now)
    stage.clock.now = NOW + HOUR
    assert not stage.start_gate.still_waits(told, stage.clock.now)
    assert (await stage.admit(told)).progress is not None
    stage.clock.now = NOW + 3 * HOUR  # and at noon it closes again
    closed = "no time window is open before Fri 2027-01-22 10:00 Europe/Berlin (when.windows)"
    assert stage.hours.room() == (0, closed)


async def test_what_somebody_has_approved_of_waits_for_its_window_however_long_that_takes() -> None:
    stage = Stage(AT_TEN)
    approved = replace(waiting("m", replace(BY_CHOICE, approval_required=True)), approved_by="jane")
    kept = await stage.admit(approved)
    assert (kept.reason, kept.never) == (CLOSED, False)
    stage.clock.now = NOW + HOUR
    assert (await stage.admit(approved)).progress is not None


async def test_what_waited_for_approval_before_there_were_windows_waits_for_them_too() -> None:
    """As moves do that an older version has ordered; what a person has ordered does not, whatever he asks for."""
    before = migration_spec("web-a", "web-a-uid", target="two", strategy="LoadBalancing", approval_required=True)
    for timing in (AT_TEN, unwindowed(1)):
        stage = Stage(timing)
        stage.migrations.put(begun("before", NOW - 1, wanted=replace(before, pod="web-b")))
        for strategy, may in (("LoadBalancing", False), ("Manual", True)):
            approved = replace(waiting(strategy.lower(), replace(before, strategy=strategy)), approved_by="jane")
            assert ((await stage.admit(approved)).progress is not None) is may


async def test_what_a_person_has_ordered_waits_for_no_window_and_for_no_hour() -> None:
    for timing in (AT_TEN, unwindowed(1)):
        stage = Stage(timing)
        stage.migrations.put(begun("before", NOW - 1))
        assert (await stage.admit(waiting("m", BY_HAND))).progress is not None


async def test_moves_of_which_one_has_begun_are_not_torn_apart_by_a_window_that_closes() -> None:
    stage = Stage(AT_TEN)
    together = replace(BY_CHOICE, proposal="both", members=2)
    stage.migrations.put(begun("first", NOW - 10, Phase.IN_PROGRESS, replace(together, pod="web-z")))
    assert (await stage.admit(waiting("second", together))).progress is not None


async def test_no_more_begin_within_an_hour_than_may_also_if_many_are_let_begin_at_once() -> None:
    stage = Stage(unwindowed(3))
    stage.migrations.put(begun("long-ago", NOW - HOUR - 1))
    stage.migrations.put(begun("lately", NOW - HOUR + 100))
    stage.migrations.put(begun("by-hand", NOW - 1, wanted=BY_HAND))
    answers = [await stage.admit(numbered(number)) for number in range(4)]
    assert [each.progress is not None for each in answers] == [True, True, False, False]
    told = "3 moves have begun within the hour, and 3 may (when.movesPerHour): not before 2027-01-15T08:01:41Z"
    assert (answers[2].reason, answers[2].never) == (told, False)
    stage.clock.now += 101
    for number in range(2):
        stage.migrations.put(replace(begun(f"m{number}", NOW), version="2"))
    assert (await stage.admit(numbered(2))).progress is not None
    late = await stage.admit(numbered(3))
    assert late.never
    assert "not before 2027-01-15T09:00:01Z; it is given up, and planned again then" in late.reason


async def test_moves_that_belong_together_begin_only_if_all_may() -> None:
    stage = Stage(unwindowed(2))
    stage.migrations.put(begun("lately", NOW - HOUR + 60))
    members = [numbered(number, proposal="both", members=2) for number in range(2)]
    held = await stage.admit(members[0])
    assert (held.progress, held.never) == (None, False)
    stage.clock.now += 61
    assert (await stage.admit(members[0])).progress is not None
    hopeless = stage.hours.check(numbered(9, proposal="three", members=3))
    assert hopeless is not None
    assert hopeless.reason == "its 3 moves, which belong together, are more than when.movesPerHour (2)"


async def test_moves_that_belong_together_begin_together_also_before_the_cache_shows_the_first() -> None:
    members = [numbered(number, proposal="both", members=2) for number in range(2)]
    stage = Stage(unwindowed(2))
    for each in members:
        stage.migrations.put(each)
    assert [(await stage.admit(each)).progress is not None for each in members] == [True, True]
    stage = Stage(AT_TEN)
    for each in members:
        stage.migrations.put(each)
    stage.clock.now = NOW + 3 * HOUR - 1  # of the last second before noon
    assert (await stage.admit(members[0])).progress is not None
    stage.clock.now += 1
    assert (await stage.admit(members[1])).progress is not None


async def test_moves_that_belong_together_and_are_begun_again_are_not_more() -> None:
    stage = Stage(unwindowed(2))
    together = replace(BY_CHOICE, proposal="both", members=2)
    again = [waiting(name, replace(together, pod=name), start_time=NOW - 60, attempts=1) for name in ("a", "b")]
    for each in again:
        stage.migrations.put(each)
    assert [stage.hours.check(each) for each in again] == [None, None]


async def test_who_has_begun_and_failed_at_once_is_not_about_to_begin() -> None:
    stage = Stage(AT_TEN)
    first, second = (numbered(number, proposal="both", members=2) for number in range(2))
    stage.migrations.put(second)
    stage.clock.now = NOW + 3 * HOUR - 1
    assert (await stage.admit(first)).progress is not None
    began = MigrationStatus(Phase.IN_PROGRESS, start_time=stage.clock.now - 1, attempts=1)
    for version, progress in enumerate((began, replace(began, phase=Phase.PENDING)), start=2):
        stage.migrations.put(replace(first, status=progress, version=str(version)))
    stage.clock.now += 1
    assert (await stage.admit(second)).never


async def test_the_rest_of_moves_that_belong_together_is_begun_again_also_when_its_window_has_closed() -> None:
    stage = Stage(AT_TEN)
    together = replace(BY_CHOICE, proposal="both", members=2)
    stage.migrations.put(begun("first", NOW - 10, Phase.COMPLETED, replace(together, pod="web-z")))
    assert (await stage.admit(waiting("second", together, start_time=NOW - 10, attempts=1))).progress is not None


async def test_what_can_never_begin_does_not_wait_even_if_somebody_has_approved_of_it() -> None:
    stage = Stage(unwindowed(2))
    three = replace(BY_CHOICE, proposal="three", members=3, approval_required=True)
    members = [replace(waiting(f"m{n}", replace(three, pod=f"web-{n}")), approved_by="jane") for n in range(3)]
    for each in members:
        stage.migrations.put(each)
    found = await stage.admit(replace(members[0], spec=replace(members[0].spec, uid="web-0-uid")))
    assert found.never
    assert found.reason == "its 3 moves, which belong together, are more than when.movesPerHour (2); it is given up"


def test_one_that_is_begun_again_is_not_one_more() -> None:
    stage = Stage(unwindowed(1))
    again = waiting("m", start_time=NOW - 60, attempts=1)
    stage.migrations.put(again)
    assert stage.hours.check(again) is None
    assert isinstance(stage.hours.check(numbered(2)), Hold)


def test_who_was_let_begin_and_did_not_takes_nobodys_place_for_long() -> None:
    stage = Stage(unwindowed(1))
    stage.hours.note_start(numbered(1))
    assert stage.hours.check(numbered(2)) is not None
    stage.clock.now += 60
    assert stage.hours.check(numbered(2)) is None


def test_what_counts_for_the_hour_is_kept_also_when_somebody_deletes_it() -> None:
    stage = Stage(unwindowed(2))
    stage.migrations.put(begun("lately", NOW - 100))
    stage.migrations.put(begun("long-ago", NOW - HOUR - 1))
    stage.migrations.put(begun("by-hand", NOW - 1, wanted=BY_HAND))
    assert stage.hours.needed(NOW) == {("shop", "lately")}
    stage.migrations.drop(("shop", "lately"))
    assert stage.hours.room()[0] == 1
    stage.timing = Timing()
    assert stage.hours.needed(NOW) == set()
    assert stage.hours.room() == (None, "")


def test_what_began_long_ago_is_forgotten_also_where_nobody_asks() -> None:
    """On a replica that does not lead, and with windows alone."""
    stage = Stage(AT_TEN)
    for number in range(50):
        stage.clock.now += 600
        migration = replace(
            numbered(number), status=MigrationStatus(Phase.COMPLETED, start_time=stage.clock.now, attempts=1)
        )
        stage.migrations.put(migration)
        stage.migrations.put(replace(migration, version="2"))  # such as when it is assessed
    assert len(stage.hours._begun) <= 7


def test_what_waits_leaves_less_room_for_orders() -> None:
    stage = Stage(unwindowed(5))
    stage.migrations.put(begun("lately", NOW - 100))
    stage.migrations.put(begun("under-way", NOW - 100, Phase.IN_PROGRESS))
    stage.migrations.put(numbered(1))
    stage.migrations.put(waiting("again", start_time=NOW - 5, attempts=1))
    stage.migrations.put(waiting("by-hand", BY_HAND))
    assert stage.hours.room()[0] == 1


async def test_of_one_namespace_no_more_begin_within_an_hour_than_may_and_the_others_go_on() -> None:
    stage = Stage(in_each(2))
    stage.migrations.put(begun("lately", NOW - HOUR + 100))
    stage.migrations.put(begun("by-hand", NOW - 1, wanted=BY_HAND))
    elsewhere = [replace(numbered(number), namespace="bank") for number in range(7, 10)]
    answers = [await stage.admit(each) for each in (numbered(1), numbered(2), *elsewhere)]
    assert [each.progress is not None for each in answers] == [True, False, True, True, False]
    limit = "and 2 may (when.movesPerHourPerNamespace)"
    told = f"2 moves have begun in shop within the hour, {limit}: not before 2027-01-15T08:01:41Z"
    assert (answers[1].reason, answers[1].never) == (told, False)
    assert answers[4].never
    given_up = f"2 moves have begun in bank within the hour, {limit}: not before 2027-01-15T09:00:01Z; it is given up"
    assert answers[4].reason.startswith(given_up)
    stage.clock.now += 101
    assert (await stage.admit(numbered(2))).progress is not None


def test_where_both_limits_hold_a_move_the_one_that_does_so_for_longer_is_told() -> None:
    stage = Stage(Timing(moves_per_hour=2, moves_per_hour_per_namespace=1))
    stage.migrations.put(begun("here", NOW - 1800))
    stage.migrations.put(replace(begun("there", NOW - 3000), namespace="bank"))
    here, there = stage.hours.check(numbered(1)), stage.hours.check(replace(numbered(2), namespace="bank"))
    assert here is not None
    assert there is not None
    told = "1 move has begun in shop within the hour, and 1 may (when.movesPerHourPerNamespace)"
    assert here == Hold(f"{told}: not before 2027-01-15T08:30:01Z", NOW + 1801)
    assert there.until == NOW + 601


def test_moves_that_belong_together_begin_only_if_all_may_in_each_of_their_namespaces() -> None:
    stage = Stage(in_each(2))
    stage.migrations.put(replace(begun("lately", NOW - HOUR + 60), namespace="bank"))
    wanted = {"proposal": "three", "members": 3}
    members = [numbered(1, **wanted), *(replace(numbered(number, **wanted), namespace="bank") for number in (2, 3))]
    for each in members:
        stage.migrations.put(each)
    held = stage.hours.check(members[0])  # there is room for it, and not for those in the other namespace
    assert held is not None
    assert held.reason.startswith("1 move has begun in bank within the hour")
    stage.clock.now += 61
    assert stage.hours.check(members[0]) is None
    stage.timing = in_each(1)
    hopeless = Hold(
        "its 2 moves in bank, which belong together, are more than when.movesPerHourPerNamespace (1)", math.inf
    )
    assert stage.hours.check(members[0]) == hopeless


def test_before_all_are_stored_that_belong_together_nobody_knows_in_which_namespaces_they_count() -> None:
    stage = Stage(in_each(1))
    first, second = (numbered(number, proposal="both", members=2) for number in range(2))
    second = replace(second, namespace="bank")
    stage.migrations.put(first)
    held = stage.hours.check(first)
    assert held is not None
    assert held.reason == "not all moves that belong to it are stored yet"
    stage.migrations.put(second)
    assert stage.hours.check(first) is None
    stage.migrations.drop(("bank", second.name))
    stage.clock.now += 121  # it was deleted, or never stored: the migration's own steps see to that
    assert stage.hours.check(first) is None


def test_what_counts_for_the_hour_of_a_namespace_is_kept() -> None:
    stage = Stage(in_each(3))
    stage.migrations.put(begun("lately", NOW - 100))
    stage.migrations.put(replace(begun("there", NOW - 100), namespace="bank"))
    stage.migrations.put(numbered(1))
    assert stage.hours.needed(NOW) == {("shop", "lately"), ("bank", "there")}


@pytest.mark.parametrize(
    ("started", "ordered", "told"),
    [
        ((), 0, "only 3 more may begin within the hour (when.movesPerHour)"),
        ((-1,), 1, "only 1 more may begin within the hour (when.movesPerHour)"),
        ((-1, -2, -3), 0, "3 moves have begun within the hour, and 3 may (when.movesPerHour): none before {}57:01Z"),
        ((-1, -3), 1, "2 moves have begun within the hour, 1 is ordered, and 3 may (when.movesPerHour)"),
        ((), 4, "no moves have begun within the hour, 4 are ordered, and 3 may (when.movesPerHour)"),
    ],
)
def test_what_keeps_more_from_being_ordered_is_told(started: tuple[int, ...], ordered: int, told: str) -> None:
    stage = Stage(unwindowed(3))
    for minutes in started:
        stage.migrations.put(begun(f"begun{minutes}", NOW + minutes * 60))
    for number in range(ordered):
        stage.migrations.put(numbered(number))
    assert stage.hours.room()[1] == told.format("2027-01-15T08:")


def test_without_a_limit_nothing_keeps_more_from_being_ordered() -> None:
    assert Stage(in_each(1)).hours.room() == (None, "")


@given(st.lists(st.tuples(st.integers(0, 1500), st.sampled_from(["shop", "bank"])), min_size=1, max_size=60))
def test_whoever_leads_no_more_than_that_begin_within_any_hour_in_any_namespace(tries: list[tuple[int, str]]) -> None:
    clock, migrations = Clock(), MigrationCache()
    timing = Timing(moves_per_hour=5, moves_per_hour_per_namespace=3)
    hours = TimeWindows(migrations, live(policy=lambda: Policy(when=timing)), clock)
    starts: list[tuple[float, str]] = []
    for number, (pause, namespace) in enumerate(tries):
        clock.now += pause
        if number % 4 == 3:
            hours = TimeWindows(migrations, live(policy=lambda: Policy(when=timing)), clock)
        migration = replace(numbered(number), namespace=namespace)
        if hours.check(migration) is None:
            hours.note_start(migration)
            migrations.put(
                replace(migration, status=MigrationStatus(Phase.COMPLETED, start_time=clock.now, attempts=1))
            )
            starts.append((clock.now, namespace))
    for start, namespace in starts:
        within = [name for at, name in starts if start <= at < start + HOUR]
        assert len(within) <= 5
        assert within.count(namespace) <= 3


@given(st.lists(st.integers(0, 1500), min_size=1, max_size=60), st.integers(1, 6))
def test_whoever_leads_no_more_than_that_begin_within_any_hour(pauses: list[int], most: int) -> None:
    """Each try comes some seconds after the last, of another move; every few of them another leader takes over."""
    clock, migrations = Clock(), MigrationCache()
    hours = TimeWindows(migrations, live(policy=lambda: Policy(when=unwindowed(most))), clock)
    starts: list[float] = []
    for number, pause in enumerate(pauses):
        clock.now += pause
        if number % 4 == 3:
            hours = TimeWindows(migrations, live(policy=lambda: Policy(when=unwindowed(most))), clock)
        migration = numbered(number)
        if hours.check(migration) is None:
            hours.note_start(migration)
            migrations.put(
                replace(migration, status=MigrationStatus(Phase.COMPLETED, start_time=clock.now, attempts=1))
            )
            starts.append(clock.now)
    assert all(sum(start <= other < start + HOUR for other in starts) <= most for start in starts)
    assert starts  # the first one always may


class TestOrdering:
    """How many of a plan's moves are ordered."""

    move = Move("shop", "web-a", "one", "two", "LoadBalancing", "it is hot", Method.HANDOFF, "u", proposal=1)
    drained = replace(move, strategy="NodeMaintenance", proposal=9)

    async def ordered(self, terms: OrderTerms, *moves: Move) -> list[PodMigration]:
        added: list[PodMigration] = []

        class Kept:
            async def create(self, migration: PodMigration) -> PodMigration:
                added.append(migration)
                return migration

        plan: Plan = replace(planned(cluster(node("a"))), moves=moves)
        await create_migrations(plan, cast("MigrationStore", Kept()), NOW, terms)
        return added

    def many(self, *sizes: int) -> list[Move]:
        return [replace(self.move, pod=f"p{n}-{m}", proposal=n) for n, size in enumerate(sizes) for m in range(size)]

    async def test_while_no_window_is_open_only_what_people_have_asked_for_is_ordered(self) -> None:
        found = await self.ordered(OrderTerms(hourly=0, hindrance=CLOSED, timed=True), self.drained, *self.many(1, 1))
        assert [(each.spec.strategy, each.spec.windowed) for each in found] == [("NodeMaintenance", False)]

    @pytest.mark.parametrize(("room", "count"), [(None, 6), (6, 6), (5, 3), (3, 3), (2, 1), (0, 0)])
    async def test_whole_proposals_are_ordered_as_far_as_the_hour_goes(self, room: int | None, count: int) -> None:
        found = await self.ordered(OrderTerms(hourly=room, timed=True), *self.many(1, 2, 3))
        assert len(found) == count
        assert all(each.spec.windowed for each in found)

    async def test_what_is_to_be_approved_of_is_ordered_at_any_time_and_waits(self) -> None:
        terms = OrderTerms(Approval.REQUIRED, hourly=0, hindrance=CLOSED, timed=True)
        found = await self.ordered(terms, *self.many(1, 1))
        assert [(each.spec.approval_required, each.spec.windowed) for each in found] == [(True, True)] * 2

    async def test_where_there_is_no_such_time_nothing_is_said_of_it(self) -> None:
        """So that a definition of an older version, which we may not update, is good enough."""
        (found,) = await self.ordered(OrderTerms(), self.move)
        assert not found.spec.windowed
