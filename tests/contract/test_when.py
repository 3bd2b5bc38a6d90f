"""When moves begin, on a cluster: windows, hours, slots, autoscalers and rollouts hold them, and then let them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from rescheduler.model.json import Json
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.plan import Method
from rescheduler.model.policy import Concurrency, Timing
from rescheduler.model.time import format_instant
from rescheduler.planning.cycle import with_inflight_moves
from rescheduler.planning.guards import objections
from rescheduler.planning.planner import Planner
from tests.support.both_clusters import ClusterUnderTest, Space, is_ready, name_of
from tests.support.leading import LENIENT, Leader, Wanted, leading
from tests.support.manifests import deployment, simulated, stateful_set
from tests.support.manifests import pod as bare_pod
from tests.support.migrations import MIGRATIONS
from tests.support.misbehaviour import let_start
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import until

pytestmark = pytest.mark.usefixtures("kind")
REAL = pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True)
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"


@dataclass
class Hours:
    """What the operator says of the time; he may change his mind."""

    timing: Timing

    def __call__(self) -> Timing:
        return self.timing


def opening_in(seconds: float, now: float) -> Timing:
    """A window of an hour that opens at the next full minute after so many seconds."""
    opens = datetime.fromtimestamp(now + seconds + 60, UTC)
    closes = datetime.fromtimestamp(now + seconds + 3660, UTC)
    day, end = f"{opens:%a}", f"{closes:%a}"
    return Timing((f"{day} {opens:%H:%M}-{end} {closes:%H:%M}",), "UTC")


def elsewhere(nodes: list[str], pod: Json) -> str:
    return next(node for node in nodes if node != pod["spec"]["nodeName"])


def planned(space: Space, name: str, pod: Json, nodes: list[str]) -> PodMigration:
    """A move as the plan loop orders it."""
    order = migration_spec(name_of(pod), target=elsewhere(nodes, pod), strategy="LoadBalancing", windowed=True)
    return pod_migration(space.name, name, order)


def by_hand(space: Space, name: str, pod: Json, nodes: list[str]) -> PodMigration:
    return pod_migration(space.name, name, migration_spec(name_of(pod), target=elsewhere(nodes, pod)))


def objecting(leader: Leader, space: Space, pod: Json) -> dict[str, str]:
    """The guards that would keep a plan from moving it, and why."""
    planner = Planner(leader.watching.capture()(), LENIENT)
    row = planner.columns.pods[planner.columns.pod_index[space.name, name_of(pod)]]
    return dict(objections(row, planner.guard_context))


@pytest.fixture
def web(space: Space) -> Space:
    """Two pods of a Deployment, at rest."""
    space.create(deployment("web", 2))
    space.rolled_out("web")
    return space


@pytest.fixture
def other(cluster: ClusterUnderTest) -> Iterator[Space]:
    """Another namespace, with the same."""
    with own_namespace(cluster.api, "test_other_namespace") as name:
        found = Space(cluster, name)
        found.create(deployment("web", 2))
        found.rolled_out("web")
        yield found


async def test_a_closed_window_holds_moves_by_choice_and_an_open_one_lets_them(web: Space, nodes: list[str]) -> None:
    first, second = web.pods("web")
    hours = Hours(Timing())
    async with leading(web, Wanted(timing=hours)) as leader:
        hours.timing = opening_in(3 * 86400, leader.client.clock.now())
        far = await leader.ends(await leader.store.create(planned(web, "far", first, nodes)))
        assert far.status.phase is Phase.FAILED
        assert "it is given up, and planned again then" in far.status.message
        assert far.status.start_time is None
        asked = await leader.store.create(by_hand(web, "asked", first, nodes))
        assert (await leader.ends(asked)).status.phase is Phase.COMPLETED
        hours.timing = opening_in(120, leader.client.clock.now())
        near = await leader.store.create(planned(web, "near", second, nodes))
        told = (await leader.says(near, "no time window is open before")).status.message
        assert told.endswith("UTC (when.windows)")
        assert leader.now(near).status.phase is Phase.PENDING
    hours.timing = replace(hours.timing, windows=("*",), time_zone="UTC")
    async with leading(web, Wanted(timing=hours)) as leader:
        assert (await leader.ends(near)).status.phase is Phase.COMPLETED


async def test_no_more_begin_within_an_hour_than_may_and_a_new_leader_has_not_forgotten(
    web: Space, nodes: list[str]
) -> None:
    first, second = web.pods("web")
    hours = Hours(Timing(moves_per_hour=1))
    async with leading(web, Wanted(timing=hours)) as leader:
        one = await leader.ends(await leader.store.create(planned(web, "one", first, nodes)))
        assert one.status.phase is Phase.COMPLETED
        assert leader.hours.needed(leader.client.clock.now()) == {(web.name, "one")}
    async with leading(web, Wanted(timing=hours)) as leader:
        assert leader.hours.room()[0] == 0
        two = await leader.ends(await leader.store.create(planned(web, "two", second, nodes)))
        assert two.status.phase is Phase.FAILED
        assert two.status.message.startswith("1 move has begun within the hour, and 1 may (when.movesPerHour)")
        approved = planned(web, "three", second, nodes)
        approved = replace(approved, spec=replace(approved.spec, approval_required=True, plan="p"))
        three = await leader.store.create(approved)
        path, approval = f"{MIGRATIONS.format(web.name)}/three", {"rescheduler.io/approved": "jane"}
        await asyncio.to_thread(web.api.patch, path, {"metadata": {"annotations": approval}})
        await leader.says(three, "1 move has begun within the hour")
        assert leader.now(three).status.phase is Phase.PENDING
        hours.timing = Timing(moves_per_hour=2)
        assert (await leader.ends(three)).status.phase is Phase.COMPLETED


async def test_one_namespace_waits_for_its_hour_while_another_goes_on_and_a_new_leader_has_not_forgotten(
    web: Space, other: Space, nodes: list[str]
) -> None:
    (first, second), (there, _) = web.pods("web"), other.pods("web")
    hours = Hours(Timing(moves_per_hour_per_namespace=1))
    async with leading(web, Wanted(timing=hours)) as leader:
        one = await leader.ends(await leader.store.create(planned(web, "one", first, nodes)))
        assert one.status.phase is Phase.COMPLETED
        assert (web.name, "one") in leader.hours.needed(leader.client.clock.now())
    async with leading(web, Wanted(timing=hours)) as leader:
        two = await leader.ends(await leader.store.create(planned(web, "two", second, nodes)))
        assert two.status.phase is Phase.FAILED
        limit = "and 1 may (when.movesPerHourPerNamespace)"
        assert two.status.message.startswith(f"1 move has begun in {web.name} within the hour, {limit}")
        elsewhere = await leader.ends(await leader.store.create(planned(other, "two", there, nodes)))
        assert elsewhere.status.phase is Phase.COMPLETED
        asked = await leader.ends(await leader.store.create(by_hand(web, "asked", second, nodes)))
        assert asked.status.phase is Phase.COMPLETED


async def test_such_a_share_of_a_workload_moves_at_once_and_the_others_wait_their_turn(
    space: Space, nodes: list[str]
) -> None:
    space.create(simulated(deployment("web", 4), starts_in="600"))
    space.exactly("web", 4)
    let_start(space, "web")
    space.rolled_out("web")
    limits = Concurrency(total=None, per_node=None, per_workload="50%")
    async with leading(space, Wanted(concurrency=limits)) as leader:
        migrations, at_once = leader.watching.migrations, [0]
        migrations.listen(lambda key, ours: at_once.append(migrations.count(Phase.IN_PROGRESS)))
        pods = await asyncio.to_thread(space.pods, "web")
        moves = [planned(space, f"m{number}", pod, nodes) for number, pod in enumerate(pods)]
        added = [await leader.store.create(move) for move in moves]
        told = "2 under way (migration.concurrency.perWorkload, 50% of 4 replicas)"
        # Whose turn comes last is not said: the rollout that a handoff looks like may hold any of them for a moment.
        await leader.until("one waits", lambda: any(told in leader.now(each).status.message for each in added))
        async with starting(space):
            for each in added:
                assert (await leader.ends(each)).status.phase is Phase.COMPLETED
        assert max(at_once) == 2


@asynccontextmanager
async def starting(space: Space) -> AsyncIterator[None]:
    """Pods of web that take their time start at once, until the end of the block."""
    beside, over = Space(space.cluster, space.name, space.api.another()), asyncio.Event()

    async def go_on() -> None:
        while not over.is_set():
            await asyncio.to_thread(let_start, beside, "web")
            await asyncio.sleep(0.2)

    going = asyncio.create_task(go_on())
    try:
        yield
    finally:
        over.set()
        await going
        beside.api.close()


async def test_a_workload_that_its_autoscaler_has_just_scaled_is_left_alone_until_it_has_settled(
    web: Space, nodes: list[str]
) -> None:
    await autoscaled(web, 2)
    pod = (await asyncio.to_thread(web.pods, "web"))[0]
    async with leading(web) as leader:
        await scaled(web, leader.client.clock.now())
        await leader.until("it objects", lambda: "Scaling" in objecting(leader, web, pod))
        assert "less than when.restAfterScaling (120s) ago" in objecting(leader, web, pod)["Scaling"]
        held = await leader.store.create(planned(web, "held", pod, nodes))
        await leader.says(held, "Scaling: HorizontalPodAutoscaler web has scaled its workload")
        await scaled(web, leader.client.clock.now() - 3600)
        assert (await leader.ends(held)).status.phase is Phase.COMPLETED


async def autoscaled(space: Space, least: int) -> None:
    """The Deployment gets an autoscaler that wants so many pods at least."""
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": least,
            "maxReplicas": 5,
        },
    }
    await asyncio.to_thread(space.api.post, AUTOSCALERS.format(space.name), scaler)


async def scaled(space: Space, at: float) -> None:
    """Have the autoscaler say so; a controller of autoscalers, if there is one, leaves that as it is."""
    path = f"{AUTOSCALERS.format(space.name)}/web/status"
    body = {"status": {"lastScaleTime": format_instant(at)}}
    await asyncio.to_thread(space.api.patch, path, body)


async def test_a_workload_that_is_rolled_out_is_left_alone_and_our_own_handoff_is_no_rollout(
    space: Space, nodes: list[str]
) -> None:
    await asyncio.to_thread(space.create, simulated(deployment("web", 2), starts_in="1"))
    await asyncio.to_thread(space.rolled_out, "web")
    async with leading(space) as leader:
        pods = await asyncio.to_thread(space.pods, "web")
        assert objecting(leader, space, pods[0]) == {}
        moved = await leader.ends(await leader.store.create(planned(space, "moved", pods[0], nodes)))
        assert moved.status.phase is Phase.COMPLETED
        await leader.until("the handoff is forgotten", lambda: objecting(leader, space, pods[1]) == {})
        slow = {"metadata": {"annotations": {"simulate.rescheduler.io/starts-in": "600"}}}
        await asyncio.to_thread(space.patch, "Deployment", "web", {"spec": {"template": slow}})
        await leader.until("it objects", lambda: "RollingOut" in objecting(leader, space, pods[1]))
        assert objecting(leader, space, pods[1])["RollingOut"].startswith("Deployment web ")
        held = await leader.store.create(planned(space, "held", pods[1], nodes))
        await leader.says(held, "Deployment web is being rolled out or scaled")
        async with starting(space):
            assert (await leader.ends(held)).status.message in ("the pod is being deleted", "the pod is gone")
            await asyncio.to_thread(space.rolled_out, "web")
        left = (await asyncio.to_thread(space.pods, "web"))[0]
        await leader.until("it is at rest", lambda: is_at_rest(leader, space, left))


def is_at_rest(leader: Leader, space: Space, pod: Json) -> bool:
    known = leader.watching.cache.row("Pod", (space.name, name_of(pod)))
    return known is not None and not objecting(leader, space, pod)


async def test_a_workload_rests_after_each_move_by_whatever_method_also_when_the_moved_pod_is_gone(
    web: Space, nodes: list[str]
) -> None:
    await asyncio.to_thread(web.create, stateful_set("db", 2, podManagementPolicy="Parallel"))
    await asyncio.to_thread(web.create, bare_pod("bare"))
    names = ("web", "db", "bare")

    def running() -> bool:
        return [len(web.pods(name)) for name in names] == [2, 2, 1] and all(map(is_ready, web.list("Pod")))

    await asyncio.to_thread(until, "all run", running)
    async with leading(web) as leader:
        ways = []
        for name in names:
            pod = (await asyncio.to_thread(web.pods, name))[0]
            ended = await leader.ends(await leader.store.create(planned(web, name, pod, nodes)))
            assert ended.status.phase is Phase.COMPLETED, ended.status.message
            ways.append(ended.status.method)
        assert ways == [Method.HANDOFF, Method.EVICT, Method.COPY]
        await leader.until("all rest", lambda: resting(leader, web) == {"web": 2, "db": 2, "bare": 1})
        moved = leader.now(pod_migration(web.name, "web", migration_spec(""))).status.replacement
        assert moved is not None
        await asyncio.to_thread(web.delete, "Pod", moved.name)
        await asyncio.to_thread(until, "all run again", running)
        await leader.until("all rest", lambda: resting(leader, web) == {"web": 2, "db": 2, "bare": 1})


def resting(leader: Leader, space: Space) -> dict[str, int]:
    """How many pods of each app a plan would leave alone because their workload was moved."""
    snapshot = with_inflight_moves(leader.watching.capture()(), leader.watching.migrations.all(), 0.0)
    planner = Planner(snapshot, replace(LENIENT, cool_down=600.0))
    ours = [each for each in snapshot.pods if each.namespace == space.name and each.node]
    held = [each for each in ours if "CoolDown" in dict(objections(each, planner.guard_context))]
    return dict(Counter(each.labels["app"] for each in held))


@REAL
async def test_a_real_autoscaler_that_scales_keeps_its_workload_in_place(web: Space) -> None:
    """One that wants more pods than there are needs no metrics to scale."""
    await autoscaled(web, 3)
    pod = (await asyncio.to_thread(web.pods, "web"))[0]
    async with leading(web) as leader:
        await leader.until("it objects", lambda: "Scaling" in objecting(leader, web, pod))
        wanted = await asyncio.to_thread(web.get, "Deployment", "web")
        assert wanted["spec"]["replicas"] in (2, 3)
