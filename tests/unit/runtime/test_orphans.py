"""Garbage collection: which migrations count as dead, which are forgotten, and when it cleans up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from rescheduler.kube.errors import ClusterError
from rescheduler.kube.migrations import InvalidMigrationError
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore
from rescheduler.runtime.orphans import FindEnd, GarbageCollector, MarkedObject, OrphanCleaner
from tests.support.live import live
from tests.support.pod_migrations import migration_spec
from tests.support.virtual_time import clock, in_virtual_time
from tests.unit.runtime.migrations import NOW, over, pending, under_way

POD = MarkedObject("Pod", "shop", "web-a")


@dataclass
class Stage:
    """A cache, an API server that may know better, and a cleaner that only asks about one object."""

    migrations: MigrationCache = field(default_factory=MigrationCache)
    stored: dict[ObjectKey, PodMigration] = field(default_factory=dict)
    asked: str = "m"
    busy: frozenset[ObjectKey] = frozenset()
    keep: float = 3600.0
    failure: Exception | None = None
    answers: list[Phase | None] = field(default_factory=list)
    swept: list[float] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    async def read(self, namespace: str, name: str) -> PodMigration | None:
        if self.failure is not None:
            raise self.failure
        return self.stored.get((namespace, name))

    async def remove(self, migration: PodMigration) -> None:
        if self.failure is not None:
            raise self.failure
        self.removed.append(migration.name)

    async def clean(self, find_end: FindEnd) -> int:
        self.swept.append(clock())
        self.answers.append(await find_end(POD, self.asked))
        return 0

    def make_collector(self) -> GarbageCollector:
        return self.collector(lambda key: key in self.busy, lambda now: frozenset())

    def collector(
        self, is_busy: Callable[[ObjectKey], bool], needed: Callable[[float], Set[ObjectKey]]
    ) -> GarbageCollector:
        store = cast("MigrationStore", SimpleNamespace(client=self, migrations=self.migrations))
        now_live = live(migration=SimpleNamespace(keep_finished=self.keep))
        return GarbageCollector(store, cast("OrphanCleaner", self), now_live, is_busy, needed, lambda: NOW)

    async def fate(self, now: float = NOW) -> Phase | None:
        await self.make_collector().collect(now)
        return self.answers[-1]

    def knows(self, *migrations: PodMigration) -> Stage:
        """Both the cache and the API server do."""
        for each in migrations:
            self.migrations.put(each)
            self.stored[each.namespace, each.name] = each
        return self


async def test_a_migration_that_nobody_knows_is_dead() -> None:
    assert await Stage().fate() is Phase.FAILED


async def test_a_migration_under_way_is_not_dead_whoever_knows_of_it() -> None:
    assert await Stage().knows(under_way("m")).fate() is None
    assert await Stage(stored={("shop", "m"): pending("m")}).fate() is None  # the cache may be behind


async def test_what_somebody_has_in_hand_is_left_to_him() -> None:
    assert await Stage(busy=frozenset({("shop", "m")})).fate() is None


async def test_a_migration_is_dead_some_time_after_its_end() -> None:
    assert await Stage().knows(over("m")).fate(NOW + 5) is None
    assert await Stage().knows(over("m")).fate(NOW + 60) is Phase.COMPLETED
    assert await Stage().knows(over("m", failed=True)).fate(NOW + 60) is Phase.FAILED


async def test_a_migration_that_makes_no_sense_is_left_alone() -> None:
    assert await Stage(failure=InvalidMigrationError("PodMigration shop/m: spec.pod.name: required")).fate() is None


async def test_a_mark_without_a_name_is_nobodys_unless_this_very_pod_is_moved() -> None:
    assert await Stage(asked="").fate() is Phase.FAILED
    assert await Stage(asked="").knows(under_way("m", "web-a")).fate() is None
    assert await Stage(asked="").knows(over("m", "web-a")).fate(NOW + 60) is Phase.FAILED


async def test_finished_migrations_are_forgotten_in_their_time() -> None:
    stage = Stage().knows(
        over("old", completion_time=NOW - 3600), over("new", completion_time=NOW - 3599), under_way("m")
    )
    await stage.fate()
    assert stage.removed == ["old"]


async def test_a_finished_migration_stays_while_others_of_its_proposal_count_on_it() -> None:
    pair = migration_spec("web-a", proposal="p", members=2)
    stage = Stage(keep=0.0).knows(over("a", order=pair), under_way("b", order=pair))
    await stage.fate()
    assert stage.removed == []
    stage.knows(over("b", order=pair, version="2"))
    await stage.fate()
    assert sorted(stage.removed) == ["a", "b"]


async def test_a_finished_migration_stays_while_a_rest_depends_on_it() -> None:
    stage = Stage(keep=0.0).knows(over("bad"), over("good"))
    needed: set[ObjectKey] = {("shop", "bad")}
    asked: list[float] = []

    def tell(now: float) -> set[ObjectKey]:
        asked.append(now)
        return needed

    collector = stage.collector(lambda key: False, tell)
    await collector.collect(NOW + 60)
    assert (stage.removed, asked) == (["good"], [NOW + 60])
    needed.clear()
    stage.removed.clear()
    await collector.collect(NOW + 120)
    assert "bad" in stage.removed


async def test_a_migration_that_cannot_be_forgotten_does_not_hold_up_the_sweep() -> None:
    stage = Stage(keep=0.0, failure=ClusterError("nobody is there"), busy=frozenset({("shop", "m")}))
    stage.knows(over("old"))
    assert await stage.fate() is None
    assert len(stage.swept) == 1


@in_virtual_time
async def test_it_cleans_up_at_once_and_every_minute() -> None:
    stage = Stage()
    running = asyncio.create_task(stage.make_collector().task.run())
    await asyncio.sleep(130.0)
    running.cancel()
    assert stage.swept == [0.0, 60.0, 120.0]


@in_virtual_time
async def test_it_cleans_up_soon_after_a_migration_was_deleted_in_the_middle() -> None:
    stage = Stage().knows(under_way("m"), over("done"))
    running = asyncio.create_task(stage.make_collector().task.run())
    await asyncio.sleep(10.0)
    stage.migrations.drop(("shop", "done"))
    await asyncio.sleep(10.0)
    assert stage.swept == [0.0]
    stage.migrations.drop(("shop", "m"))
    await asyncio.sleep(10.0)
    running.cancel()
    assert stage.swept == [0.0, pytest.approx(25.2)]
