"""Killed right after any of its writes, however new pods are led: the next one ends the move, or takes all back."""

from __future__ import annotations

from itertools import count

import pytest

from rescheduler.migration.observation import SteeringMethod
from rescheduler.migration.settings import MigrationSettings
from rescheduler.model.migration import MigrationStatus, Phase
from tests.unit.migration.world import Killed, World, remains

GOES_ON = MigrationSettings(retry_delay=0.0)
TIME_IS_UP = MigrationSettings(timeout=0.0, attempts=1)
KINDS = ["ReplicaSet", "StatefulSet"]


def pods(world: World) -> dict[str, str]:
    """Where the workload's pods are."""
    return {name: body["spec"].get("nodeName", "") for (kind, name), body in world.objects.items() if kind == "Pod"}


async def killed(world: World, settings: MigrationSettings) -> tuple[bool, MigrationStatus]:
    """Whether it died on the way, and how the next one ended it."""
    died = False
    try:
        await world.work(GOES_ON)
    except Killed:
        died = True
    world.dies_after = 0
    return died, await world.work(settings)


@pytest.mark.parametrize("steered", list(SteeringMethod))
@pytest.mark.parametrize("kind", KINDS)
async def test_a_move_ends_with_nothing_left(kind: str, steered: SteeringMethod) -> None:
    world = World(steered, kind)
    progress = await world.work(GOES_ON)
    assert progress.phase is Phase.COMPLETED
    assert remains(world) == []
    assert ("two" if steered is SteeringMethod.NOMINATE else "three") in pods(world).values()
    touched = [what for what in world.history if "prefer" in what or "pause" in what]
    assert bool(touched) == (steered is SteeringMethod.TEMPLATE and kind == "ReplicaSet")


@pytest.mark.parametrize("settings", [GOES_ON, TIME_IS_UP], ids=["goes on", "rolls back"])
@pytest.mark.parametrize("steered", list(SteeringMethod))
@pytest.mark.parametrize("kind", KINDS)
async def test_whoever_comes_after_a_kill_leaves_nothing_behind(
    kind: str, steered: SteeringMethod, settings: MigrationSettings
) -> None:
    phases = set()
    for writes in count(1):
        world = World(steered, kind, dies_after=writes)
        died, progress = await killed(world, settings)
        where = f"killed right after {world.history[writes - 1] if died else 'nothing'} ({writes})"
        assert remains(world) == [], where
        assert len(pods(world)) == 2, where
        assert all(pods(world).values()), where
        phases.add(progress.phase)
        if settings is GOES_ON:
            assert progress.phase is Phase.COMPLETED, where
            if steered is SteeringMethod.NOMINATE:
                assert "two" in pods(world).values(), where
        if not died:
            assert writes > 10, "so few writes are no move"
            break
    assert (Phase.FAILED in phases) == (settings is TIME_IS_UP)


@pytest.mark.parametrize("before", list(SteeringMethod))
@pytest.mark.parametrize("after", list(SteeringMethod))
async def test_the_next_one_may_lead_new_pods_in_another_way(before: SteeringMethod, after: SteeringMethod) -> None:
    """A webhook that came or went with the change of leaders."""
    for writes in count(1):
        world = World(before, dies_after=writes)
        try:
            await world.work(GOES_ON)
            break
        except Killed:
            world.steered, world.dies_after = after, 0
        progress = await world.work(GOES_ON)
        where = f"killed right after {world.history[writes - 1]} ({writes})"
        assert (progress.phase, remains(world)) == (Phase.COMPLETED, []), where


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steered", [SteeringMethod.WEBHOOK, SteeringMethod.NOMINATE])
async def test_without_its_webhook_the_move_goes_on_and_says_where_the_pod_landed(
    kind: str, steered: SteeringMethod
) -> None:
    world = World(steered, kind, webhook=False)
    progress = await world.work(GOES_ON)
    assert (progress.phase, progress.message) == (Phase.COMPLETED, "landed on three, not on two")
    assert remains(world) == []


async def test_without_room_the_move_goes_on_and_says_so() -> None:
    world = World(SteeringMethod.NOMINATE, quota=True)
    progress = await world.work(GOES_ON)
    assert (progress.phase, progress.message) == (Phase.COMPLETED, "no room is held on two: exceeded quota")
    assert remains(world) == []
