"""Pausing on a cluster: all replicas see it, it outlives them, kubectl may write it, and nothing new begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rescheduler.kube.errors import ClusterError
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.pause_state import PauseDetails, PauseStore
from rescheduler.migration.steps.copy import AwaitReady
from rescheduler.model.json import Json
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.runtime.starting.holds import PauseWatcher
from tests.support.both_clusters import Space, name_of
from tests.support.leading import SECONDS, STATE, client_of, leading
from tests.support.manifests import deployment, simulated
from tests.support.misbehaviour import let_start
from tests.support.pod_migrations import migration_spec, pod_migration

pytestmark = pytest.mark.usefixtures("kind")


def config_maps(space: Space) -> str:
    return f"/api/v1/namespaces/{space.name}/configmaps"


def data(space: Space) -> Json:
    found: Json = space.api.get(f"{config_maps(space)}/{STATE}")["data"]
    return found


def elsewhere(nodes: list[str], pod: Json) -> str:
    return next(node for node in nodes if node != pod["spec"]["nodeName"])


async def written(space: Space, **data: str) -> None:
    """Write the ConfigMap by hand, as people do."""
    body = {"metadata": {"name": STATE}, "data": data}
    await asyncio.to_thread(space.api.post, config_maps(space), body)


async def patched(space: Space, **data: str) -> None:
    """Change it by hand."""
    await asyncio.to_thread(space.api.patch, f"{config_maps(space)}/{STATE}", {"data": data})


async def test_a_pause_says_who_why_and_since_when_until_it_is_resumed(space: Space) -> None:
    async with client_of(space.cluster) as client:
        state = PauseStore(client, space.name, STATE)
        assert await state.read() is None
        assert await state.resume("jane") is None
        paused = await state.pause("jane", "the network is worked on")
        assert (paused.by, paused.reason) == ("jane", "the network is worked on")
        assert await state.read() == paused
        assert await state.pause("joe", "me, too") == paused
        assert await asyncio.to_thread(data, space) == {
            "paused": "true",
            "by": "jane",
            "since": (await asyncio.to_thread(data, space))["since"],
            "reason": "the network is worked on",
        }
        assert await state.resume("joe") == paused
        assert await state.read() is None
        told = await state.look()
        assert (told.by, told.since is not None) == ("joe", True)
        assert set(await asyncio.to_thread(data, space)) == {"paused", "by", "since"}
        assert (await state.pause("joe")).reason == ""


async def test_of_two_who_pause_at_once_one_is_the_first_and_both_are_told_the_same(space: Space) -> None:
    async with client_of(space.cluster) as client, client_of(space.cluster) as other:
        one, two = PauseStore(client, space.name, STATE), PauseStore(other, space.name, STATE)
        for _ in range(3):
            told = await asyncio.gather(one.pause("jane"), two.pause("joe"))
            assert told[0] == told[1]
            assert [each is None for each in await asyncio.gather(one.resume("jane"), two.resume("joe"))].count(
                True
            ) < 2
            assert await one.read() is None


async def test_people_pause_and_resume_by_hand_and_an_invalid_value_counts_as_paused(space: Space) -> None:
    async with client_of(space.cluster) as client:
        state = PauseStore(client, space.name, STATE)
        await written(space, paused="true")
        assert await state.read() == PauseDetails("", None, "")
        await patched(space, paused="False")
        assert await state.read() is None
        await patched(space, paused="perhaps")
        found = await state.read()
        assert found is not None
        assert found.reason.startswith(f"ConfigMap {space.name}/{STATE} is invalid: paused is 'perhaps'; write true")
        assert (await state.pause("jane")).by == "jane"
        await state.resume("jane")
        await asyncio.to_thread(space.api.delete, f"{config_maps(space)}/{STATE}")
        assert await state.read() is None
        await written(space, pause="true")
        found = await state.read()
        assert found is not None
        assert "paused is missing" in found.reason
        with pytest.raises(ClusterError, match="is not ours"):
            await state.remove()
        await state.resume("jane")
        assert await state.remove()
        assert not await state.remove()


async def test_every_replica_sees_it_and_it_is_told_once(space: Space) -> None:
    async with client_of(space.cluster) as client, client_of(space.cluster) as other:
        state = PauseStore(client, space.name, STATE)
        replicas = [
            PauseWatcher(PauseStore(each, space.name, STATE), EventRecorder(each, name, each.clock.now))
            for name, each in (("a", client), ("b", other))
        ]
        assert [each.current() is None for each in replicas] == [False, False]
        for each in replicas:
            await each.refresh()
        assert [each.current() for each in replicas] == [None, None]
        following = [asyncio.create_task(each.run()) for each in replicas]
        try:
            paused = await state.pause("jane", "why")
            await _until(lambda: [each.current() for each in replicas] == [paused, paused])
            await state.resume("joe")
            await _until(lambda: [each.current() for each in replicas] == [None, None])
            assert all(each.resumed > 0 for each in replicas)
            await _until(lambda: len(events(space)) >= 2)
        finally:
            for task in following:
                task.cancel()
            await asyncio.wait(following)
    told = await asyncio.to_thread(events, space)
    assert sorted((each["reason"], each["note"]) for each in told) == [
        ("ReschedulingPaused", "rescheduling is paused by jane: why; nothing new is begun until `rescheduler resume`"),
        ("ReschedulingResumed", "rescheduling was resumed by joe"),
    ]


async def test_while_paused_nothing_begins_what_has_begun_is_finished_and_a_new_leader_knows(
    space: Space, nodes: list[str]
) -> None:
    space.create(simulated(deployment("web", 2), starts_in="600"))
    space.exactly("web", 2)
    let_start(space, "web")
    space.rolled_out("web")
    begun, held = space.pods("web")
    async with leading(space) as leader:
        first = await leader.store.create(migration(space, "first", begun, nodes))
        await leader.until("it waits for its copy", lambda: leader.now(first).status.step == AwaitReady.name)
        state = PauseStore(leader.client, space.name, STATE)
        await state.pause("jane", "why")
        await leader.until("it is known", leader.pauses.current)
        second = await leader.store.create(migration(space, "second", held, nodes))
        await leader.says(second, "rescheduling is paused by jane: why; `rescheduler resume` goes on")
        assert leader.now(first).status.step == AwaitReady.name
        await asyncio.to_thread(let_start, space, "web")
        assert (await leader.ends(first)).status.phase is Phase.COMPLETED
    async with leading(space) as leader:
        assert leader.pauses.current() is not None
        await leader.says(second, "rescheduling is paused by jane")
        assert leader.now(second).status.phase is Phase.PENDING
        await PauseStore(leader.client, space.name, STATE).resume("joe")
        await leader.until("it waits for its copy", lambda: leader.now(second).status.step == AwaitReady.name)
        await asyncio.to_thread(let_start, space, "web")
        assert (await leader.ends(second)).status.phase is Phase.COMPLETED


def migration(space: Space, name: str, pod: Json, nodes: list[str]) -> PodMigration:
    return pod_migration(space.name, name, migration_spec(name_of(pod), target=elsewhere(nodes, pod)))


def events(space: Space) -> list[Json]:
    path = f"/apis/events.k8s.io/v1/namespaces/{space.name}/events"
    found: list[Json] = space.api.get(path)["items"]
    return [each for each in found if each["regarding"].get("name") == STATE]


async def _until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await asyncio.to_thread(reached):  # noqa: ASYNC110 - some of it is asked of the API server
            await asyncio.sleep(0.05)
