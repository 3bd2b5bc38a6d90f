"""What the runtime adds to an observation: how new pods are steered, and other migrations of the same controller.

And which watch events are old, because an observation has seen that version of the pod or a later one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration.observation import EVERYTHING, Observation, ObservedPart, SteeringMethod
from rescheduler.model.json import Json
from rescheduler.model.migration import ObjectReference, PodMigration
from rescheduler.runtime.executor import ControllerObserver
from rescheduler.runtime.migration_cache import MigrationCache
from tests.unit.runtime.migrations import WEB, WEB_SET, over, pending, under_way

MINE = under_way("mine", controller=WEB_SET, workload=WEB)


class Blank:
    """A look that finds nothing."""

    async def look(self, _migration: PodMigration, parts: frozenset[ObservedPart]) -> Observation:
        return Observation(parts=parts)


async def seen(
    migration: PodMigration, *others: PodMigration, steered: SteeringMethod = SteeringMethod.WEBHOOK
) -> Observation:
    migrations = MigrationCache()
    for each in (migration, *others):
        migrations.put(each)
    return await ControllerObserver(cast("MigrationObserver", Blank()), migrations, lambda namespace: steered).look(
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


@dataclass
class Scripted:
    """An observer who sees what it is told to."""

    seen: Observation

    async def look(self, _migration: PodMigration, _parts: frozenset[ObservedPart]) -> Observation:
        return self.seen


def pod(name: str, version: str) -> Json:
    return {"metadata": {"namespace": "shop", "name": name, "resourceVersion": version}}


async def after(*looks: Observation) -> ControllerObserver:
    observer = Scripted(Observation())
    controller_observer = ControllerObserver(
        cast("MigrationObserver", observer), MigrationCache(), lambda namespace: SteeringMethod.TEMPLATE
    )
    for each in looks:
        observer.seen = each
        assert await controller_observer.look(under_way("m"), EVERYTHING) == each
    return controller_observer


@pytest.mark.parametrize(("version", "old"), [("6", True), ("7", True), ("8", False), ("10", False), ("", False)])
async def test_what_is_not_newer_than_what_was_seen_is_old(version: str, old: bool) -> None:
    controller_observer = await after(Observation(pod=pod("web-a", "7"), marked=(pod("copy", "7"),)))
    assert controller_observer.is_old(("shop", "web-a"), version) is old
    assert controller_observer.is_old(("shop", "copy"), version) is old


async def test_of_other_pods_nothing_is_old() -> None:
    controller_observer = await after(Observation(pod=pod("web-a", "7")))
    assert not controller_observer.is_old(("shop", "web-b"), "1")
    assert not controller_observer.is_old(("depot", "web-a"), "1")


async def test_an_answer_that_comes_late_takes_nothing_back() -> None:
    controller_observer = await after(
        Observation(pod=pod("web-a", "7")), Observation(pod=pod("web-a", "5")), Observation()
    )
    assert controller_observer.is_old(("shop", "web-a"), "7")
