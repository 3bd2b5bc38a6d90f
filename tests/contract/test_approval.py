"""Approval on a cluster: a plan waits until somebody says yes, with kubectl or our command, and then it is moved."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from rescheduler.kube.migrations import ApprovalOutcome, MigrationClient, add_group_members, approve, reject
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.plan import Method, Move
from rescheduler.model.policy import Concurrency
from tests.support.both_clusters import UNSCHEDULABLE, Space, condition, name_of
from tests.support.leading import Leader, Wanted, client_of, leading
from tests.support.manifests import deployment
from tests.support.migrations import MIGRATIONS
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.support.shell import Shell
from tests.testbed.hollow import NodeShape

pytestmark = pytest.mark.usefixtures("kind")


@pytest.fixture
def web(space: Space, nodes: list[str]) -> list[Json]:
    """The pods of a Deployment that is rolled out."""
    space.create(deployment("web", 2))
    space.rolled_out("web")
    return space.pods("web")


def move(space: Space, pod: Json, target: str, proposal: int = 0) -> Move:
    name, source, uid = name_of(pod), pod["spec"]["nodeName"], pod["metadata"]["uid"]
    return Move(space.name, name, source, target, "LoadBalancing", "why", Method.HANDOFF, uid, proposal=proposal)


def elsewhere(nodes: list[str], pod: Json) -> str:
    return next(node for node in nodes if node != pod["spec"]["nodeName"])


def stored(space: Space, migration: PodMigration) -> Json:
    return space.api.get(f"{MIGRATIONS.format(space.name)}/{migration.name}")


def keys(*migrations: PodMigration) -> list[tuple[str, str]]:
    return [(each.namespace, each.name) for each in migrations]


async def waits(leader: Leader, migration: PodMigration) -> PodMigration:
    return await leader.says(migration, f"waits for approval: rescheduler approve {migration.spec.plan}")


async def cordon(leader: Leader, space: Space, node: str, *, closed: bool) -> None:
    """Cordoned or not, and the leader knows."""

    def is_known() -> bool:
        row = leader.watching.cache.row("Node", node)
        return row.unschedulable is closed and any(taint.key == UNSCHEDULABLE for taint in row.taints) is closed

    path, body = f"/api/v1/nodes/{node}", {"spec": {"unschedulable": closed or None}}
    await asyncio.to_thread(space.api.patch, path, body)
    await leader.until("the cordon is known", is_known)


async def kubectl(space: Space, *args: str) -> str:
    return await asyncio.to_thread(space.cluster.kubectl, *args)


@pytest.mark.cluster
async def test_a_plan_waits_and_is_carried_out_when_somebody_annotates_it_with_kubectl(
    space: Space, web: list[Json], nodes: list[str]
) -> None:
    async with leading(space) as leader:
        targets = [elsewhere(nodes, pod) for pod in web]
        first, second = await leader.ordered(*(move(space, *each) for each in zip(web, targets, strict=True)))
        assert first.spec.plan == second.spec.plan
        for each in (first, second):
            await waits(leader, each)
            body = await asyncio.to_thread(stored, space, each)
            assert condition(body, "Progressing")["reason"] == "AwaitingApproval"
            assert body["status"]["source"]
        shown = await kubectl(space, "get", "pmig", "-n", space.name, "-l", f"{labels.PLAN}={first.spec.plan}")
        assert first.name in shown
        assert second.name in shown
        selected = ("-n", space.name, "-l", f"{labels.PLAN}={first.spec.plan}")
        await kubectl(space, "annotate", "pmig", *selected, f"{labels.APPROVED}=me")
        ended = [await leader.ends(each) for each in (first, second)]
    assert [each.status.phase for each in ended] == [Phase.COMPLETED, Phase.COMPLETED]
    assert {each.approved_by for each in ended} == {"me"}
    assert [each.status.target for each in ended] == targets


async def test_the_command_approves_of_a_plan_and_says_who_did(space: Space, web: list[Json], nodes: list[str]) -> None:
    shell = Shell(space.cluster)
    async with leading(space) as leader:
        (waiting,) = await leader.ordered(move(space, web[0], elsewhere(nodes, web[0])))
        await waits(leader, waiting)
        listed = await asyncio.to_thread(shell.ok, "approve", "-n", space.name)
        assert waiting.spec.plan in listed.out
        with capture_logs():  # else the leader's would stand in what the command prints
            ran = await asyncio.to_thread(shell.ok, "approve", waiting.spec.plan)
        assert ran.out == f"podmigration.rescheduler.io/{waiting.name} approved\n"
        ended = await leader.ends(waiting)
    assert ended.status.phase is Phase.COMPLETED
    assert ended.approved_by
    assert f"by {ended.approved_by}" in ran.said


async def test_what_waits_takes_no_slot_of_those_that_may_begin(
    space: Space, web: list[Json], nodes: list[str]
) -> None:
    one_at_a_time = Wanted(concurrency=Concurrency(total=1, per_node=None, per_workload=1))
    async with leading(space, one_at_a_time) as leader:
        (waiting,) = await leader.ordered(move(space, web[0], elsewhere(nodes, web[0])))
        await waits(leader, waiting)
        by_hand = migration_spec(name_of(web[1]), target=elsewhere(nodes, web[1]))
        other = await leader.store.create(pod_migration(space.name, "by-hand", by_hand))
        assert (await leader.ends(other)).status.phase is Phase.COMPLETED
        assert leader.now(waiting).awaits_approval


async def test_moves_that_belong_together_wait_for_the_one_that_is_not_approved(
    space: Space, web: list[Json], nodes: list[str]
) -> None:
    async with leading(space) as leader:
        ordered = await leader.ordered(*(move(space, pod, elsewhere(nodes, pod), proposal=3) for pod in web))
        first, second = ordered
        for each in ordered:
            await waits(leader, each)
        answers = await approve(leader.client, keys(first), "jane")
        assert [each.outcome for each in answers] == [ApprovalOutcome.APPROVED]
        told = await leader.says(first, f"waits for approval of {second.full_name}, which belongs to it")
        assert told.status.phase is Phase.PENDING
        whole = add_group_members([leader.now(first)], leader.watching.migrations.active())
        assert sorted(each.name for each in whole) == sorted(each.name for each in ordered)
        again = await approve(leader.client, keys(*whole), "joe")
        assert [(each.outcome, each.by) for each in again] == [
            (ApprovalOutcome.UNCHANGED, "jane"),
            (ApprovalOutcome.APPROVED, "joe"),
        ]
        ended = [await leader.ends(each) for each in ordered]
    assert {each.status.phase for each in ended} == {Phase.COMPLETED}


async def test_what_nobody_approves_of_in_time_is_given_up_and_says_so(
    space: Space, web: list[Json], nodes: list[str]
) -> None:
    async with leading(space, Wanted(approval_timeout=2.0)) as leader:
        (waiting,) = await leader.ordered(move(space, web[0], elsewhere(nodes, web[0])))
        ended = await leader.ends(waiting)
        assert ended.status.phase is Phase.FAILED
        assert ended.status.message == "not approved within 2s (approvalTimeout)"
        (answer,) = await approve(leader.client, keys(waiting), "late")
    assert (answer.outcome, answer.reason) == (
        ApprovalOutcome.REFUSED,
        "it is Failed already: not approved within 2s (approvalTimeout)",
    )


async def test_a_rejected_move_is_given_up_and_those_that_belong_to_it(
    space: Space, web: list[Json], nodes: list[str]
) -> None:
    async with leading(space) as leader:
        first, second = await leader.ordered(*(move(space, pod, elsewhere(nodes, pod), proposal=3) for pod in web))
        await waits(leader, first)
        (answer,) = await reject(leader.client, keys(first), "jane")
        assert answer.outcome is ApprovalOutcome.REJECTED
        ended = [await leader.ends(each) for each in (first, second)]
    assert [each.status.message for each in ended] == [
        "rejected by jane",
        f"{first.full_name}, which belongs to it, was given up: rejected by jane",
    ]
    assert {each.status.attempts for each in ended} == {0}


async def test_it_waits_through_a_change_of_leader_and_begins_when_approved_in_between(
    space: Space, web: list[Json], nodes: list[str]
) -> None:
    async with leading(space) as leader:
        first, second = await leader.ordered(*(move(space, pod, elsewhere(nodes, pod), number)
                                               for number, pod in enumerate(web)))  # fmt: skip
        for each in (first, second):
            await waits(leader, each)
    async with client_of(space.cluster) as client:
        await approve(client, keys(first), "jane")
    async with leading(space) as leader:
        assert (await leader.ends(first)).status.phase is Phase.COMPLETED
        assert leader.now(second).awaits_approval
        await approve(leader.client, keys(second), "jane")
        assert (await leader.ends(second)).status.phase is Phase.COMPLETED


async def test_what_waits_is_given_up_when_its_pod_or_its_target_is_gone(
    space: Space, web: list[Json], nodes: list[str]
) -> None:
    cluster = space.cluster
    (doomed,) = await asyncio.to_thread(cluster.add_nodes, 1, NodeShape(), prefix="doomed")
    async with leading(space) as leader:
        first, second = await leader.ordered(
            move(space, web[0], elsewhere(nodes, web[0]), 1), move(space, web[1], doomed, 2)
        )
        for each in (first, second):
            await waits(leader, each)
        await asyncio.to_thread(space.delete, "Pod", name_of(web[0]))
        assert (await leader.ends(first)).status.message in ("the pod is gone", "the pod is being deleted")
        await asyncio.to_thread(cluster.remove_nodes, [doomed])
        await leader.until("the node is gone", lambda: leader.watching.cache.row("Node", doomed) is None)
        given_up = await leader.reviewing.revalidate() + await leader.reviewing.revalidate()
        ended = await leader.ends(second)
    assert given_up == 1
    assert f"there is no node {doomed}" in ended.status.message


async def test_what_the_rules_refuse_twice_is_given_up_and_what_they_refuse_once_is_not(
    space: Space, web: list[Json], nodes: list[str]
) -> None:
    target = elsewhere(nodes, web[0])
    async with leading(space) as leader:
        (waiting,) = await leader.ordered(move(space, web[0], target))
        await waits(leader, waiting)
        assert await leader.reviewing.revalidate() == 0
        for closed in (True, False, True):
            await cordon(leader, space, target, closed=closed)
            assert await leader.reviewing.revalidate() == 0
        try:
            assert await leader.reviewing.revalidate() == 1
        finally:
            await cordon(leader, space, target, closed=False)
        ended = leader.now(waiting)
    assert ended.status.phase is Phase.FAILED
    assert ended.status.message.startswith("given up while it waited for approval: NoTarget: ")


async def test_nobody_approves_of_what_is_gone_needs_none_or_has_changed_its_mind(
    space: Space, web: list[Json], nodes: list[str]
) -> None:
    order = migration_spec(name_of(web[0]), target=elsewhere(nodes, web[0]), approval_required=True)
    async with client_of(space.cluster) as client:
        migration_client = MigrationClient(client)
        await migration_client.create(pod_migration(space.name, "waiting", order))
        await migration_client.create(pod_migration(space.name, "free", replace(order, approval_required=False)))
        names = [(space.name, each) for each in ("gone", "free", "waiting")]
        answers = await approve(client, names, "jane", dry=True)
        assert [(each.outcome, each.reason) for each in answers] == [
            (ApprovalOutcome.REFUSED, "it is gone"),
            (ApprovalOutcome.REFUSED, "it needs no approval"),
            (ApprovalOutcome.APPROVED, ""),
        ]
        found = await migration_client.read(space.name, "waiting")
        assert found is not None
        assert found.awaits_approval
        path = f"{MIGRATIONS.format(space.name)}/waiting"
        for value in ("false", "No"):
            note = {"metadata": {"annotations": {labels.APPROVED: value}}}
            await asyncio.to_thread(space.api.patch, path, note)
            found = await migration_client.read(space.name, "waiting")
            assert found is not None
            assert found.awaits_approval
