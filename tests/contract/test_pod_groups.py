"""A pod group on a cluster: planned by one of its pods, moved all together, and left alone when one cannot be moved."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.plan import Plan
from rescheduler.model.policy import POD_GROUP
from rescheduler.planning.cycle import make_plan
from rescheduler.planning.settings import StrategySettings
from rescheduler.runtime.planning_loop import OrderTerms, create_migrations
from rescheduler.strategies.node_maintenance import NodeMaintenance
from tests.support.both_clusters import Items, Space, name_of
from tests.support.leading import LENIENT, QUICK, Leader, Wanted, leading
from tests.support.manifests import deployment
from tests.support.migrations import wait_until_settled
from tests.support.pod_migrations import replace
from tests.support.recovering import only_open

pytestmark = pytest.mark.usefixtures("kind")
GANG = "gang"


@pytest.fixture
def gang(space: Space, nodes: list[str]) -> Items:
    """Three pods of two workloads, one group: one on the first node, two on the second."""
    for name, replicas, node in (("one", 1, nodes[0]), ("two", 2, nodes[1])):
        body = deployment(name, replicas)
        body["spec"]["template"]["metadata"]["labels"][POD_GROUP] = GANG
        with only_open(space, node, nodes):
            space.create(body)
            space.rolled_out(name)
    return members(space)


@pytest.fixture
def maintained(space: Space, nodes: list[str]) -> Iterator[str]:
    """The first node is to be emptied."""
    path = f"/api/v1/nodes/{nodes[0]}"
    space.api.patch(path, {"metadata": {"labels": {labels.MAINTENANCE: "true"}}})
    yield nodes[0]
    space.api.patch(path, {"metadata": {"labels": {labels.MAINTENANCE: None}}})


def members(space: Space) -> Items:
    found = space.list("Pod", labelSelector=f"{POD_GROUP}={GANG}")
    return sorted((each for each in found if "deletionTimestamp" not in each["metadata"]), key=name_of)


def uids(pods: Items) -> set[str]:
    return {each["metadata"]["uid"] for each in pods}


async def planned(leader: Leader, node: str) -> Plan:
    """What is planned as soon as the leader knows that the node is to be emptied."""
    await leader.until("the label is known", lambda: leader.watching.cache.row("Node", node).maintenance)
    return make_plan(leader.watching.capture()(), LENIENT, [NodeMaintenance(StrategySettings())])


async def ordered(leader: Leader, plan: Plan) -> list[PodMigration]:
    return await create_migrations(plan, leader.store, leader.client.clock.now(), OrderTerms())


def begins_and_ends(events: Items, originals: set[str]) -> list[str]:
    """What came and went, in order: a copy, or an original."""
    told: list[str] = []
    for event in events:
        uid, leaving = event["object"]["metadata"]["uid"], "deletionTimestamp" in event["object"]["metadata"]
        if event["type"] == "ADDED" and uid not in originals:
            told.append("came")
        if uid in originals and (leaving or event["type"] == "DELETED") and f"went {uid}" not in told:
            told.append(f"went {uid}")
    return [each.split()[0] for each in told]


async def test_a_group_of_three_is_moved_together(space: Space, gang: Items, maintained: str, nodes: list[str]) -> None:
    since = space.version("Pod")
    async with leading(space) as leader:
        plan = await planned(leader, maintained)
        assert [move.proposal for move in plan.moves] == [0, 0, 0]
        assert {move.pod for move in plan.moves} == {name_of(each) for each in gang}
        ended = [await leader.ends(each) for each in await ordered(leader, plan)]
    assert {each.status.phase for each in ended} == {Phase.COMPLETED}
    await asyncio.to_thread(wait_until_settled, space, 3)
    after = members(space)
    assert not uids(after) & uids(gang)
    assert sorted(each["spec"]["nodeName"] for each in after) == sorted(move.target for move in plan.moves)
    gone: list[str] = []

    def is_last(event: Json) -> bool:
        if event["type"] == "DELETED":
            gone.append(event["object"]["metadata"]["uid"])
        return uids(gang) <= set(gone)

    events = await asyncio.to_thread(space.events, "Pod", since, is_last)
    assert begins_and_ends(events, uids(gang)) == ["came"] * 3 + ["went"] * 3


async def test_none_is_planned_when_one_member_may_not_move(
    space: Space, gang: Items, maintained: str, nodes: list[str]
) -> None:
    held = next(each for each in gang if each["spec"]["nodeName"] == nodes[1])
    space.patch("Pod", name_of(held), {"metadata": {"labels": {labels.RESCHEDULING: "disabled"}}})
    async with leading(space) as leader:
        key = (space.name, name_of(held))
        await leader.until(
            "the mark is known",
            lambda: any(
                labels.RESCHEDULING in each.labels
                for each in leader.watching.capture()().pods
                if (each.namespace, each.name) == key
            ),
        )
        plan = await planned(leader, maintained)
    assert plan.moves == ()
    (told,) = [each for each in plan.rejections if each.namespace == space.name]
    assert told.guard == "ReschedulingDisabled"
    assert f"pod group {GANG} moves together or not at all, and {space.name}/{name_of(held)}: " in told.reason


async def test_none_is_moved_when_the_room_of_one_is_gone_before_it_begins(
    space: Space, gang: Items, maintained: str, nodes: list[str]
) -> None:
    before = wait_until_settled(space, 3)
    impatient = Wanted(settings=replace(QUICK, timeout=10.0, attempts=1))
    async with leading(space, impatient) as leader:
        plan = await planned(leader, maintained)
        lost = plan.moves[-1].target
        with space.cordoned(lost):
            row = leader.watching.cache.row
            await leader.until("the cordon is known", lambda: row("Node", lost).unschedulable)
            ended = [await leader.ends(each) for each in await ordered(leader, plan)]
    assert {each.status.phase for each in ended} == {Phase.FAILED}
    assert any("cordoned" in each.status.message for each in ended)
    assert await asyncio.to_thread(wait_until_settled, space, 3) == before
