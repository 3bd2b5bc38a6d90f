"""What the runtime adds to a look: how new pods are led, and who else moves pods of the same controller."""

from __future__ import annotations

from typing import cast

from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration.observation import EVERYTHING, Observation, ObservedPart, SteeringMethod
from rescheduler.model.migration import ObjectReference, PodMigration
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.observer import ControllerObserver
from tests.unit.runtime.migrations import WEB, WEB_SET, over, pending, under_way

MINE = under_way("mine", controller=WEB_SET, workload=WEB)


class Blank:
    """A look that finds nothing."""

    async def look(self, _migration: PodMigration, parts: frozenset[ObservedPart]) -> Observation:
        return Observation(parts=parts)


async def seen(
    migration: PodMigration, *others: PodMigration, steered: SteeringMethod = SteeringMethod.WEBHOOK
) -> Observation:
    board = MigrationCache()
    for each in (migration, *others):
        board.put(each)
    return await ControllerObserver(cast("MigrationObserver", Blank()), board, lambda namespace: steered).look(
        migration, EVERYTHING
    )


async def test_rivals_are_the_other_migrations_under_way_of_the_same_controller() -> None:
    twin = under_way("twin", controller=WEB_SET, workload=WEB)
    older = under_way("older", controller=ObjectReference("ReplicaSet", "web-0", "web-0-uid"), workload=WEB)
    found = await seen(
        MINE, twin, older, pending("next", controller=WEB_SET), over("past", controller=WEB_SET), under_way("bare")
    )
    assert found.rivals == (twin,)


async def test_a_pod_that_nobody_manages_has_no_rivals() -> None:
    assert (await seen(under_way("bare"), under_way("other"))).rivals == ()


async def test_how_new_pods_are_led_is_asked_at_each_look() -> None:
    assert (await seen(MINE, steered=SteeringMethod.NOMINATE)).steered is SteeringMethod.NOMINATE
