"""What moves came to, on a cluster: assessed some time after, stored in their status, remembered by every leader."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rescheduler.kube.client import ApiClient
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.migrations import MigrationClient
from rescheduler.model.json import Json
from rescheduler.model.migration import OutcomeVerdict
from rescheduler.model.time import parse_instant
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.migration_cache import MigrationStore
from rescheduler.runtime.outcomes import OutcomeAssessor
from tests.support.both_clusters import Space, name_of
from tests.support.controller_process import Controller, write_config
from tests.support.live import live
from tests.support.manifests import HOSTNAME, deployment, pod
from tests.support.migrations import MIGRATIONS, Moves, wait_until_undisturbed
from tests.support.pod_migrations import migration_spec
from tests.support.shell import Shell
from tests.testbed.processes import until

pytestmark = pytest.mark.usefixtures("kind")
SECONDS = 60.0
LATER = 3600.0  # seconds that the assessor's clock is ahead, so that everything is due
COOL_DOWN = 600.0
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"


@pytest.fixture
def web(space: Space, nodes: list[str]) -> Space:
    """A pod of 2 CPUs that a Deployment manages, and one of 1 CPU that is pinned beside it; nodes have 4.

    Of other tests nothing is left: moves are assessed in every namespace, and counted.
    """
    wait_until_undisturbed(space.cluster)
    space.create(deployment("web", 1, cpu="2"))
    space.rolled_out("web")
    at = space.pods("web")[0]["spec"]["nodeName"]
    space.runs(pod("beside", cpu="1", nodeSelector={HOSTNAME: at}))
    return space


def other_node(nodes: list[str], *taken: str) -> str:
    return next(node for node in nodes if node not in taken)


def body(space: Space, name: str) -> Json:
    found: Json = space.api.get(f"{MIGRATIONS.format(space.name)}/{name}")
    return found


@asynccontextmanager
async def leader(space: Space, after: float = 120.0) -> AsyncIterator[tuple[OutcomeAssessor, Informers]]:
    """Who assesses moves and knows the cluster; the clock is ahead."""
    connection = load_connection(KubeconfigOptions(space.cluster.kubeconfig, None), os.environ)
    async with ApiClient(connection) as client:
        watching = Informers(client, "test")
        following = asyncio.create_task(watching.run())
        try:
            async with asyncio.timeout(SECONDS):
                await watching.wait_for_sync()
            store = MigrationStore(MigrationClient(client), watching.migrations, lambda before, now: None)
            now_live = live(outcomes=SimpleNamespace(assess_after=after))
            yield (
                OutcomeAssessor(watching, now_live, store, lambda: time.time() + LATER, lambda *told: None),
                watching,
            )
        finally:
            following.cancel()
            await asyncio.wait([following])


def moved(space: Space, name: str, target: str, **order: Any) -> None:
    """The pod of web, moved to its end by a strategy that expects 25 points of it."""
    moves = Moves(space)
    wanted: dict[str, Any] = {"strategy": "LoadBalancing", "expected_gain": 25.0} | order
    moves.order(name, migration_spec(name_of(space.pods("web")[0]), target=target, **wanted))
    assert moves.drive(name).status.phase.value == "Completed"


def assessed(space: Space) -> int:
    async def assess() -> int:
        async with leader(space) as (assessor, _):
            return await assessor.assess()

    return asyncio.run(assess())


def test_a_move_is_assessed_once_and_its_status_tells(web: Space, nodes: list[str]) -> None:
    """Of 3 CPUs on one node 2 have gone to an empty one: 75% less 50%."""
    source = web.pods("web")[0]["spec"]["nodeName"]
    moved(web, "m", other_node(nodes, source))
    before = body(web, "m")
    assert assessed(web) == 1
    after = body(web, "m")
    outcome = after["status"].pop("outcome")
    assert (outcome["verdict"], outcome["gain"]) == ("Paid", 25)
    assert parse_instant(outcome["assessedTime"]) > time.time()
    assert (after["spec"], after["status"]) == (before["spec"], before["status"]), "nothing else has changed"
    assert after["spec"]["expectedGain"] == 25
    assert assessed(web) == 0, "by a new leader, too"


def test_a_move_whose_gain_is_gone_meanwhile_has_not_paid(web: Space, nodes: list[str]) -> None:
    source = web.pods("web")[0]["spec"]["nodeName"]
    target = other_node(nodes, source)
    moved(web, "m", target)
    web.runs(pod("newcomer", cpu="2", nodeSelector={HOSTNAME: target}))
    assert assessed(web) == 1
    outcome = body(web, "m")["status"]["outcome"]
    assert (outcome["verdict"], outcome["gain"]) == ("NotPaid", -25)


def test_of_a_pod_that_is_gone_nothing_is_known(web: Space, nodes: list[str]) -> None:
    source = web.pods("web")[0]["spec"]["nodeName"]
    moved(web, "m", other_node(nodes, source))
    replacement = body(web, "m")["status"]["replacement"]["name"]
    web.delete("Pod", replacement)
    web.gone("Pod", replacement)
    assert assessed(web) == 1
    assert body(web, "m")["status"]["outcome"]["verdict"] == "Unknown"
    assert "gain" not in body(web, "m")["status"]["outcome"]


def test_a_migration_that_is_deleted_meanwhile_stays_so(web: Space, nodes: list[str]) -> None:
    source = web.pods("web")[0]["spec"]["nodeName"]
    moved(web, "m", other_node(nodes, source))

    async def story() -> int:
        async with leader(web) as (assessor, watching):
            known = watching.migrations.get((web.name, "m"))
            assert known is not None
            web.api.delete(f"{MIGRATIONS.format(web.name)}/m")
            watching.migrations.put(known)  # as if the watch had not told of it yet
            return await assessor.assess()

    assert asyncio.run(story()) == 0
    assert not web.api.get(MIGRATIONS.format(web.name))["items"]


def test_one_that_was_changed_meanwhile_is_assessed_later(web: Space, nodes: list[str]) -> None:
    source = web.pods("web")[0]["spec"]["nodeName"]
    moved(web, "m", other_node(nodes, source))

    async def story() -> list[int]:
        async with leader(web) as (assessor, watching):
            known = watching.migrations.get((web.name, "m"))
            assert known is not None
            path = f"{MIGRATIONS.format(web.name)}/m"
            newer = web.api.patch(path, {"metadata": {"labels": {"seen": "yes"}}}, "merge")["metadata"]
            watching.migrations.drop((web.name, "m"))
            watching.migrations.put(known)
            first = await assessor.assess()
            async with asyncio.timeout(SECONDS):
                while (
                    now := watching.migrations.get((web.name, "m"))
                ) is None or now.metadata.resource_version != newer["resourceVersion"]:
                    web.api.patch(path, {"metadata": {"labels": {"seen": "again"}}}, "merge")
                    newer = body(web, "m")["metadata"]
                    await asyncio.sleep(0.05)
            return [first, await assessor.assess()]

    assert asyncio.run(story()) == [0, 1]
    assert body(web, "m")["status"]["outcome"]["verdict"] == "Paid"


def test_a_workload_whose_moves_come_back_rests_twice_as_long_each_time_whoever_leads(
    web: Space, nodes: list[str], tmp_path: Path
) -> None:
    """There by choice, back by hand, and the same again under another leader."""
    here = web.pods("web")[0]["spec"]["nodeName"]
    there = other_node(nodes, here)
    with controller(web, tmp_path, "first") as first:
        carried_out(web, "m1", there)
        verdict(web, "m1", OutcomeVerdict.PAID)
        assert resting(web) is None
        carried_out(web, "m2", here, strategy="Manual")
        verdict(web, "m1", OutcomeVerdict.CAME_BACK)
        rest = resting(web)
        assert rest is not None
        assert (rest["bad"], rest["until"] - finished(web, "m1")) == (1, 2 * COOL_DOWN)
        assert rest["why"].startswith("its last move came back (25.0 points predicted, 25.0 came true): it rests until")
        assert told(web, "m1") == {("PodMigration", "m1"), ("Deployment", "web")}
        assert first.stop() == 0
    with controller(web, tmp_path, "second") as second:
        carried_out(web, "m3", there)
        carried_out(web, "m4", here, strategy="Manual")
        verdict(web, "m3", OutcomeVerdict.CAME_BACK)
        rest = resting(web)
        assert rest is not None
        assert (rest["bad"], rest["until"] - finished(web, "m3")) == (2, 4 * COOL_DOWN)
        assert told(web, "m3") == {("PodMigration", "m1"), ("PodMigration", "m3"), ("Deployment", "web")}
        Moves(web).order("m5", migration_spec("no-such-pod", target=there))
        until("m5 has failed", lambda: body(web, "m5").get("status", {}).get("phase") == "Failed")
        assert second.stop() == 0
    with controller(web, tmp_path, "third", keep="0s"):
        until("what is over and not needed is forgotten", lambda: "m5" not in names(web))
        assert names(web) == {"m1", "m2", "m3", "m4"}  # by m2 and m4 the workload rests, too, for the cool-down
        assert resting(web) == rest


def controller(space: Space, folder: Path, name: str, keep: str = "1h") -> Controller:
    """One that plans nothing, and looks at moves a second after they are made."""
    config = write_config(
        folder / f"{name}.yaml",
        space.name,
        enabledStrategies=[],
        coolDown=f"{COOL_DOWN:.0f}s",
        outcomes={"assessAfter": "1s"},
        migration={"keepFinished": keep, "evictionGracePeriod": "1s"},
    )
    return Controller(space.cluster.kubeconfig, config, folder / f"{name}.log")


def names(space: Space) -> set[str]:
    return {name_of(each) for each in space.api.get(MIGRATIONS.format(space.name))["items"]}


def carried_out(space: Space, name: str, target: str, strategy: str = "LoadBalancing") -> None:
    """A move of web that the controller makes, as if a plan, or a person, had ordered it."""
    original = name_of(space.pods("web")[0])
    Moves(space).order(name, migration_spec(original, target=target, strategy=strategy, expected_gain=25.0))
    until(f"{name} is completed", lambda: body(space, name).get("status", {}).get("phase") == "Completed")
    space.gone("Pod", original)


def verdict(space: Space, name: str, wanted: OutcomeVerdict) -> None:
    def found() -> bool:
        return (body(space, name)["status"].get("outcome") or {}).get("verdict") == wanted.value

    until(f"{name} is {wanted.value}", found)


def finished(space: Space, name: str) -> float:
    return parse_instant(body(space, name)["status"]["completionTime"])


def resting(space: Space) -> dict[str, Any] | None:
    """What `explain` says of it: how long it rests, in seconds, and why; the guard Outcome says the same."""
    name = name_of(space.pods("web")[0])
    ran = Shell(space.cluster).ok("explain", f"{space.name}/{name}", "-o", "json", "--cool-down", f"{COOL_DOWN:.0f}s")
    rest: dict[str, Any] | None = ran.data["rest"]
    objections = {each["guard"]: each["reason"] for each in ran.data["objections"]}
    assert objections.get("Outcome") == (rest and rest["why"])
    return rest and rest | {"until": parse_instant(rest["until"])}


def told(space: Space, migration: str) -> set[tuple[str, str]]:
    """Whom it is told of that moves came back, once that of this migration is, which may be a moment later."""

    def found() -> set[tuple[str, str]]:
        events = space.api.get(EVENTS.format(space.name))["items"]
        mine = [each["regarding"] for each in events if each["reason"] == "MigrationCameBack"]
        return {(each["kind"], each["name"]) for each in mine}

    until("it is told", lambda: found() >= {("PodMigration", migration), ("Deployment", "web")})
    return found()
