"""Garbage collection on a cluster: whenever a migration is deleted, nothing of it is left, and no pod is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from rescheduler.kube.migrations import MigrationClient
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration.steps.evict import add_preference
from rescheduler.model import labels
from rescheduler.model.migration import MigrationSpec, MigrationStatus, Phase, PodMigration
from rescheduler.model.plan import Method
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore
from rescheduler.runtime.orphans import GarbageCollector, OrphanCleaner
from tests.support.both_clusters import ClusterUnderTest, Space, name_of, nodes_fixture
from tests.support.controller_process import Controller, write_config
from tests.support.live import live
from tests.support.manifests import budget, deployment, pod, stateful_set
from tests.support.migrations import (
    MIGRATIONS,
    Drive,
    Fuse,
    Inventory,
    Killed,
    Moves,
    audit,
    inventory,
    seen_by_controllers,
    unseen,
    wait_until_settled,
    wait_until_undisturbed,
)
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.support.watching import SECONDS, Watched, watch_cluster
from tests.testbed.processes import until

pytestmark = pytest.mark.usefixtures("kind")
SAMPLED = 7  # on the real cluster: one of so many writes
CASES = {
    "handoff": (Method.HANDOFF, deployment("web", 2)),
    "evict": (Method.EVICT, deployment("web", 2)),
    "evict of a StatefulSet": (Method.EVICT, stateful_set("web", 2)),
    "copy": (Method.COPY, pod("web", terminationGracePeriodSeconds=1)),
}
OURS = {labels.MANAGED_BY: labels.MANAGER, labels.MIGRATION_ID: "gone"}
LONG_AGO = 1_700_000_000.0


two_nodes = nodes_fixture(2, prefix="swept", scope="module")


@pytest.fixture(autouse=True)
def alone(cluster: ClusterUnderTest) -> None:
    """Of other tests nothing is left: the garbage collector cleans up in every namespace, and counts it."""
    wait_until_undisturbed(cluster)


@pytest.fixture
def every(request: pytest.FixtureRequest) -> int:
    """Which of the writes are places to be deleted at: one of so many."""
    return SAMPLED if "real" in request.node.name else 1


def collector(seen: Watched, migrations: MigrationCache | None = None, keep: float = 3600.0) -> GarbageCollector:
    """One that knows of no migration but what the API server tells it."""
    cleaner = OrphanCleaner(seen.cache, MigrationObserver(seen.client), CommandSender(seen.client))
    store = MigrationStore(MigrationClient(seen.client), migrations or MigrationCache(), lambda before, after: None)
    now_live = live(migration=SimpleNamespace(keep_finished=keep))
    return GarbageCollector(store, cleaner, now_live, lambda _: False, lambda _: frozenset())


def sweep_until(space: Space, holds: Callable[[], None]) -> None:
    """Sweeps, as the watches tell of more and more, until it holds; then there is nothing left to do."""

    async def sweep() -> None:
        async with watch_cluster(space.cluster) as seen, asyncio.timeout(SECONDS):
            cleaning = collector(seen)
            while True:
                await cleaning.collect(time.time())
                try:
                    holds()
                except AssertionError:
                    await asyncio.sleep(0.05)
                    continue
                break
            assert await cleaning.collect(time.time()) == 0
            holds()

    asyncio.run(sweep())


def sweep_once(space: Space) -> int:
    """One sweep that knows everything."""

    async def sweep() -> int:
        async with watch_cluster(space.cluster) as seen:
            return await collector(seen).collect(time.time())

    return asyncio.run(sweep())


@pytest.mark.parametrize("case", list(CASES))
def test_a_migration_that_is_deleted_at_any_moment_leaves_nothing_behind(
    space: Space, two_nodes: list[str], case: str, every: int
) -> None:
    moves, (method, workload) = Moves(space), CASES[case]
    space.create(workload)
    pods = 1 if method is Method.COPY else 2
    writes, burnt = 1, True
    while burnt:
        before = wait_until_settled(space, pods)
        burnt, written = _deleted(moves, migration_spec("", method=method), writes, two_nodes)
        gone = pod_migration(space.name, f"m{writes}", _order_of(space, before), MigrationStatus(phase=Phase.FAILED))
        try:
            sweep_until(space, _unharmed(space, before, gone, pods))
        except TimeoutError as error:
            raise AssertionError(f"deleted right after {written} ({writes}): {inventory(space)}") from error
        writes += every
    assert writes > 12, "so few writes are no move"


def _deleted(moves: Moves, order: MigrationSpec, writes: int, nodes: list[str]) -> tuple[bool, str]:
    """A move whose worker dies after so many writes, and which is deleted then."""
    space, name = moves.space, f"m{writes}"
    original = space.pods("web")[0]
    target = next(node for node in nodes if node != original["spec"]["nodeName"])
    moves.order(name, replace(order, pod=name_of(original), target=target))
    fuse, burnt = Fuse(writes), False
    try:
        moves.drive(name, Drive(fuse=fuse))
    except Killed:
        burnt = True
    space.api.delete(f"{MIGRATIONS.format(space.name)}/{name}")
    return burnt, fuse.written[-1]


def _order_of(space: Space, before: Inventory) -> MigrationSpec:
    """The pod that was moved: the only one of those before that is not there any more, or else any of them."""
    there = {pod["metadata"]["uid"] for pod in space.list("Pod") if "deletionTimestamp" not in pod["metadata"]}
    pods = sorted(name for kind, name in before if kind == "Pod")
    return migration_spec(next((name for name in pods if before["Pod", name]["uid"] not in there), pods[0]))


def _unharmed(space: Space, before: Inventory, gone: PodMigration, pods: int) -> Callable[[], None]:
    def holds() -> None:
        found = space.list("Pod")
        assert len(found) == pods, [name_of(each) for each in found]
        assert not unseen(space), "notes may still be copied"
        order = _order_of(space, before)
        audit(before, inventory(space), replace(gone, spec=order))

    return holds


def test_what_a_running_migration_did_is_left(space: Space, two_nodes: list[str]) -> None:
    moves = Moves(space)
    space.create(deployment("web", 2))
    wait_until_settled(space, 2)
    original = space.pods("web")[0]
    target = next(node for node in two_nodes if node != original["spec"]["nodeName"])
    moves.order("m", migration_spec(name_of(original), target=target, method=Method.EVICT))
    with pytest.raises(Killed):
        moves.drive("m", Drive(fuse=Fuse(after="storing step Evict")))
    seen_by_controllers(space)
    before = inventory(space)
    assert sweep_once(space) == 0
    assert inventory(space) == before
    assert moves.drive("m").status.phase is Phase.COMPLETED


def test_what_is_not_ours_is_left(space: Space, two_nodes: list[str]) -> None:
    cost = {"metadata": {"annotations": {labels.DELETION_COST: "7"}}}
    body = deployment("web", 1)
    body["spec"]["template"] |= {"metadata": body["spec"]["template"]["metadata"] | cost["metadata"]}
    space.create(body)
    wait_until_settled(space, 1)
    space.patch("Deployment", "web", {"spec": {"paused": True}})
    theirs = budget("web-rescheduler-pdb", "web", minAvailable=1)
    theirs["metadata"]["labels"] = {labels.MANAGED_BY: "somebody"}
    space.create(theirs)
    seen_by_controllers(space)
    before = inventory(space)
    assert sweep_once(space) == 0
    assert inventory(space) == before


def test_one_object_that_makes_no_sense_does_not_keep_the_others_from_being_put_right(
    space: Space, two_nodes: list[str]
) -> None:
    space.create(deployment("bad", 1))
    space.create(deployment("web", 1))
    before = wait_until_settled(space, 2)
    (of_web,) = [key for key in before if key[0] == "ReplicaSet" and key[1].startswith("web-")]
    nonsense = {"metadata": {"annotations": {labels.AFFINITY_BEFORE: "no JSON at all"}}}
    space.patch("ReplicaSet", name_of(space.replica_set("bad")), nonsense)
    space.patch(
        "Deployment", "web", {"metadata": {"annotations": {labels.PAUSED_BY: "gone"}}, "spec": {"paused": True}}
    )
    temporary = budget("web-rescheduler-pdb", "web", minAvailable=1)
    temporary["metadata"]["labels"] = OURS
    space.create(temporary)

    def put_right() -> None:
        assert not unseen(space), "notes may still be copied to the ReplicaSet"
        after = inventory(space)
        assert after["Deployment", "web"] == before["Deployment", "web"]
        assert after[of_web] == before[of_web]
        assert ("PodDisruptionBudget", "web-rescheduler-pdb") not in after

    sweep_until(space, put_right)


def test_a_deployment_is_resumed_without_a_rollout_although_what_its_replica_set_notes_is_not_readable(
    space: Space, two_nodes: list[str]
) -> None:
    space.create(deployment("web", 1))
    before = wait_until_settled(space, 1)
    paused = {"metadata": {"annotations": {labels.PAUSED_BY: "gone"}}, "spec": {"paused": True}}
    space.patch("Deployment", "web", paused)
    seen_by_controllers(space)
    affinity = add_preference(None, MigrationStatus(source=two_nodes[0], target=two_nodes[1]))
    note = {"metadata": {"annotations": {labels.AFFINITY_BEFORE: "no JSON at all"}}}
    steered = note | {"spec": {"template": {"spec": {"affinity": affinity}}}}
    space.patch("ReplicaSet", name_of(space.replica_set("web")), steered)

    def put_right() -> None:
        assert not unseen(space), "notes may still be copied to the ReplicaSet"
        assert inventory(space) == before

    sweep_until(space, put_right)


def test_finished_migrations_are_forgotten_after_their_time(space: Space) -> None:
    moves = Moves(space)
    for name in ("old", "new", "waiting"):
        moves.order(name, migration_spec("web"))

    async def clean() -> None:
        async with watch_cluster(space.cluster) as seen:
            migration_client, migrations = MigrationClient(seen.client), MigrationCache()
            for name, finished in (("old", LONG_AGO), ("new", LONG_AGO + 3000)):
                found = await migration_client.read(space.name, name)
                assert found is not None
                migrations.put(
                    await migration_client.update_status(
                        found, MigrationStatus(phase=Phase.FAILED, completion_time=finished)
                    )
                )
            waiting = await migration_client.read(space.name, "waiting")
            assert waiting is not None
            migrations.put(waiting)
            await collector(seen, migrations).collect(LONG_AGO + 3601)
            left = [name for name in ("old", "new", "waiting") if await migration_client.read(space.name, name)]
            assert left == ["new", "waiting"]

    asyncio.run(clean())


@pytest.mark.real_only  # it needs a ResourceQuota
def test_the_controller_undoes_a_migration_that_is_deleted_while_it_works_on_it(
    space: Space, two_nodes: list[str], tmp_path: Path
) -> None:
    space.create(deployment("web", 2))
    before = wait_until_settled(space, 2)
    original = space.pods("web")[0]
    target = next(node for node in two_nodes if node != original["spec"]["nodeName"])
    space.patch("Pod", name_of(original), {"metadata": {"finalizers": ["example.com/hold"]}})
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"}, "spec": {"hard": {"pods": "1"}}}
    config = write_config(tmp_path / "config.yaml", space.name, enabledStrategies=[])
    with Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log"):
        space.create(quota)  # so that no new pod comes, and the move stays where it is
        space.reaches("ResourceQuota", "full", "counts", lambda each: each.get("status", {}).get("used"))
        Moves(space).order("m", migration_spec(name_of(original), target=target, method=Method.EVICT))
        paused = space.reaches("Deployment", "web", "is paused", lambda found: found["spec"].get("paused"))
        assert paused["metadata"]["annotations"][labels.PAUSED_BY] == "m"
        space.reaches("Pod", name_of(original), "is leaving", lambda pod: "deletionTimestamp" in pod["metadata"])
        space.api.delete(f"{MIGRATIONS.format(space.name)}/m")
        space.reaches("Deployment", "web", "is resumed", lambda found: not found["spec"].get("paused"))
        space.delete("ResourceQuota", "full")
        space.patch("Pod", name_of(original), {"metadata": {"finalizers": None}})
        gone = pod_migration(space.name, "m", migration_spec(name_of(original)), MigrationStatus(phase=Phase.FAILED))
        until("nothing is left of it", lambda: _is_unharmed(space, before, gone))


def _is_unharmed(space: Space, before: Inventory, gone: PodMigration) -> bool:
    try:
        _unharmed(space, before, gone, 2)()
    except AssertionError:
        return False
    return True
