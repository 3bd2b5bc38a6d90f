"""The planning loop: a plan counts what is moving, and each of its moves is stored as a migration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from rescheduler.kube.errors import ApiError
from rescheduler.kube.migrations import StaleError
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from rescheduler.model.plan import Method, Move, Plan
from rescheduler.model.policy import Approval
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore
from rescheduler.runtime.planning_loop import (
    OrderTerms,
    capture_settled,
    create_migrations,
    make_migration,
    plan_in_threads,
)
from tests.support.builders import NOW, cluster, node, pod
from tests.support.planning import OPTIMIZATION, planned
from tests.support.pod_migrations import migration_spec, replace

NOON = "2027-01-15T08:00:00Z"
MOVE = Move("shop", "web-a", "one", "two", "LoadBalancing", "it is hot", Method.HANDOFF, "web-a-uid", proposal=4)


@dataclass
class Kept:
    """A store that keeps what is added, and fails for some pods."""

    failing: dict[str, Exception] = field(default_factory=dict)
    added: list[PodMigration] = field(default_factory=list)

    async def create(self, migration: PodMigration) -> PodMigration:
        if migration.spec.pod.name in self.failing:
            raise self.failing[migration.spec.pod.name]
        self.added.append(migration)
        return replace(migration, version="1")


def plan_of(*moves: Move) -> Plan:
    return replace(planned(hot()), moves=moves)


def hot() -> ClusterSnapshot:
    """Node a is over its threshold by one of its pods."""
    return cluster(node("a"), node("b"), node("c"), *(pod(f"web-{number}", "a", cpu=1) for number in range(4)))


def replan(snapshot: ClusterSnapshot) -> Plan:
    return planned(snapshot, OPTIMIZATION)


async def ordered(kept: Kept, *moves: Move, terms: OrderTerms | None = None, now: float = NOW) -> list[PodMigration]:
    return await create_migrations(plan_of(*moves), cast("MigrationStore", kept), now, terms or OrderTerms())


REQUIRED = OrderTerms(Approval.REQUIRED)


def test_a_move_becomes_a_migration_that_says_what_why_and_for_whom() -> None:
    migration = make_migration(MOVE, 1, NOON)
    assert migration.namespace == "shop"
    assert migration.spec == migration_spec("web-a", "web-a-uid", "two", strategy="LoadBalancing", reason="it is hot")
    assert migration.status == MigrationStatus()


def test_the_same_move_has_the_same_name_on_the_same_occasion_only() -> None:
    names = {
        make_migration(move, 1, moment).name
        for move in (MOVE, replace(MOVE, target="three"))
        for moment in (NOON, NOON)
    }
    assert len(names) == 1
    assert make_migration(MOVE, 1, "2027-01-15T08:00:30Z").name not in names
    assert make_migration(replace(MOVE, uid="another"), 1, NOON).name not in names


async def test_moves_that_belong_together_know_each_other_and_no_others() -> None:
    kept = Kept()
    moves = [replace(MOVE, pod=f"p{number}", proposal=number // 2) for number in range(4)]
    await ordered(kept, *moves, replace(MOVE, pod="alone", proposal=9))
    found = [(each.spec.proposal_name, each.spec.members) for each in kept.added]
    assert [members for _, members in found] == [2, 2, 2, 2, 1]
    assert found[0] == found[1] != found[2] == found[3]
    assert found[4] == ("", 1)


async def test_proposals_of_the_same_number_in_two_plans_are_different() -> None:
    kept = Kept()
    moves = [replace(MOVE, pod=pod_name) for pod_name in ("x", "y")]
    await ordered(kept, *moves)
    await create_migrations(plan_of(*moves), cast("MigrationStore", kept), NOW + 30, OrderTerms())
    assert len({each.spec.proposal for each in kept.added}) == 2


@pytest.mark.parametrize(
    "error",
    [ApiError(403, "Forbidden", "namespace is being terminated", "/x"), StaleError("it was there, and went")],
    ids=["refused", "gone"],
)
async def test_a_move_that_cannot_be_ordered_does_not_stop_the_others(error: Exception) -> None:
    kept = Kept({"bad": error})
    moves = [replace(MOVE, pod=name, proposal=number) for number, name in enumerate(("a", "bad", "b"))]
    assert [each.spec.pod.name for each in await ordered(kept, *moves)] == ["a", "b"]


async def test_a_bug_is_not_mistaken_for_a_refusal() -> None:
    with pytest.raises(KeyError):
        await ordered(Kept({"web-a": KeyError("x")}), MOVE)


async def test_after_a_member_that_could_not_be_ordered_the_rest_of_its_proposal_is_not_begun() -> None:
    kept = Kept({"b": ApiError(403, "Forbidden", "no", "/x")})
    moves = [replace(MOVE, pod=name, proposal=1) for name in ("b", "c")]
    assert await ordered(kept, *moves, replace(MOVE, pod="other", proposal=2)) == [replace(kept.added[0], version="1")]
    assert [each.spec.pod.name for each in kept.added] == ["other"]


async def test_a_plan_is_made_on_top_of_what_is_moving() -> None:
    migrations = MigrationCache()
    capture = capture_settled(lambda: hot, migrations, 600.0)
    (move,) = (await plan_in_threads(capture, replan)).moves
    migrations.put(replace(make_migration(move, 1, NOON), uid="m-uid", version="1"))
    assert (await plan_in_threads(capture, replan)).moves == ()


async def test_a_pod_whose_move_has_just_failed_is_left_alone_and_another_one_is_found() -> None:
    migrations = MigrationCache()
    capture = capture_settled(lambda: hot, migrations, 600.0)
    (move,) = (await plan_in_threads(capture, replan)).moves
    failed = MigrationStatus(phase=Phase.FAILED, completion_time=NOW - 10, message="it did not start")
    migrations.put(replace(make_migration(move, 1, NOON), status=failed, uid="m-uid", version="1"))
    (other,) = (await plan_in_threads(capture, replan)).moves
    assert other.pod != move.pod


async def test_without_approval_nothing_waits_and_no_plan_is_named() -> None:
    (migration,) = await ordered(Kept(), MOVE)
    assert (migration.spec.approval_required, migration.spec.plan) == (False, "")


async def test_where_approval_is_required_the_moves_of_a_plan_wait_under_one_name() -> None:
    moves = [replace(MOVE, pod=name, proposal=number) for number, name in enumerate("abc")]
    found = await ordered(Kept(), *moves, terms=REQUIRED)
    assert all(each.awaits_approval for each in found)
    (name,) = {each.spec.plan for each in found}
    again = await ordered(Kept(), *moves, terms=REQUIRED)
    assert {each.spec.plan for each in again} == {name}
    later = await ordered(Kept(), *moves, terms=REQUIRED, now=NOW + 30)
    other = await ordered(Kept(), *moves[:2], terms=REQUIRED)
    assert len({name, later[0].spec.plan, other[0].spec.plan}) == 3


async def test_what_a_person_has_asked_for_needs_no_second_word() -> None:
    emptied = replace(MOVE, pod="away", strategy="NodeMaintenance", proposal=1)
    found = await ordered(Kept(), emptied, replace(MOVE, proposal=2), terms=REQUIRED)
    assert [each.awaits_approval for each in found] == [False, True]


async def test_no_more_moves_wait_than_a_plan_may_have_and_proposals_stay_whole() -> None:
    pairs = [replace(MOVE, pod=f"p{number}", proposal=number // 2) for number in range(6)]
    emptied = replace(MOVE, pod="away", strategy="NodeMaintenance", proposal=9)
    terms = replace(REQUIRED, most=10, waiting=5)
    found = await ordered(Kept(), *pairs, emptied, terms=terms)
    assert [each.spec.pod.name for each in found] == ["p0", "p1", "p2", "p3", "away"]
    assert await ordered(Kept(), *pairs, terms=replace(terms, waiting=10)) == []
    # One that would fit may count on the room that those before it leave.
    single = replace(MOVE, pod="single", proposal=8)
    assert await ordered(Kept(), *pairs, single, terms=replace(terms, waiting=9)) == []
    assert await ordered(Kept(), *pairs, terms=replace(terms, waiting=99)) == []
    assert len(await ordered(Kept(), *pairs, terms=replace(terms, most=None, waiting=99))) == 6
