"""Sightings: the watch's echo of what a look has seen is known for what it is, and nothing else is taken for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration.observation import EVERYTHING, Observation, ObservedPart, SteeringMethod
from rescheduler.model.json import Json
from rescheduler.model.migration import PodMigration
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.observer import ControllerObserver
from tests.unit.runtime.migrations import under_way


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
    sightings = ControllerObserver(
        cast("MigrationObserver", observer), MigrationCache(), lambda namespace: SteeringMethod.TEMPLATE
    )
    for each in looks:
        observer.seen = each
        assert await sightings.look(under_way("m"), EVERYTHING) == each
    return sightings


@pytest.mark.parametrize(("version", "old"), [("6", True), ("7", True), ("8", False), ("10", False), ("", False)])
async def test_what_is_not_newer_than_what_was_seen_is_old(version: str, old: bool) -> None:
    sightings = await after(Observation(pod=pod("web-a", "7"), marked=(pod("copy", "7"),)))
    assert sightings.is_old(("shop", "web-a"), version) is old
    assert sightings.is_old(("shop", "copy"), version) is old


async def test_of_other_pods_nothing_is_old() -> None:
    sightings = await after(Observation(pod=pod("web-a", "7")))
    assert not sightings.is_old(("shop", "web-b"), "1")
    assert not sightings.is_old(("depot", "web-a"), "1")


async def test_an_answer_that_comes_late_takes_nothing_back() -> None:
    sightings = await after(Observation(pod=pod("web-a", "7")), Observation(pod=pod("web-a", "5")), Observation())
    assert sightings.is_old(("shop", "web-a"), "7")
