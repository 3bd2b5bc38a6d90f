"""What is stored is in the cache at once, and reported afterwards; what fails is neither."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from rescheduler.kube.errors import ApiError
from rescheduler.kube.migrations import MigrationClient, StaleError
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore
from tests.support.pod_migrations import replace
from tests.unit.runtime.migrations import pending, under_way

BEGUN = MigrationStatus(phase=Phase.IN_PROGRESS)


@dataclass
class Kept:
    """An API server with one migration."""

    migration: PodMigration | None = None
    failure: Exception | None = None

    async def create(self, migration: PodMigration) -> PodMigration:
        return self._written(migration)

    async def read(self, _namespace: str, _name: str) -> PodMigration | None:
        return self.migration

    async def update_status(self, migration: PodMigration, progress: MigrationStatus) -> PodMigration:
        return self._written(replace(migration, status=progress))

    def _written(self, migration: PodMigration) -> PodMigration:
        if self.failure is not None:
            raise self.failure
        self.migration = replace(migration, version=str(int(migration.metadata.resource_version or "0") + 1))
        return self.migration


@dataclass
class Stage:
    migration_client: Kept = field(default_factory=Kept)
    migrations: MigrationCache = field(default_factory=MigrationCache)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.migrations.listen(self._changed)
        self.store = MigrationStore(cast("MigrationClient", self.migration_client), self.migrations, self._told)

    def _changed(self, key: ObjectKey, ours: bool) -> None:
        self.log.append(f"cache {key[1]}{' ours' if ours else ''}")

    def _told(self, before: PodMigration, after: PodMigration) -> None:
        self.log.append(f"told {before.status.phase} → {after.status.phase}")


async def test_a_new_migration_is_in_the_cache_at_once_and_the_listeners_take_it_up() -> None:
    stage = Stage()
    added = await stage.store.create(pending("m"))
    assert stage.migrations.get(("shop", "m")) == added
    assert stage.log == ["cache m"]


async def test_progress_is_in_the_cache_before_it_is_reported() -> None:
    stage = Stage()
    await stage.store.update_status(pending("m"), BEGUN)
    assert stage.log == ["cache m ours", "told Pending → InProgress"]
    assert [each.metadata.resource_version for each in stage.migrations.in_progress()] == ["2"]


@pytest.mark.parametrize("failure", [StaleError("changed"), ApiError(500, "InternalError", "no", "/x")])
async def test_what_could_not_be_stored_is_neither_in_the_cache_nor_reported(failure: Exception) -> None:
    stage = Stage(Kept(failure=failure))
    for writing in (stage.store.create(pending("m")), stage.store.update_status(pending("m"), BEGUN)):
        with pytest.raises(type(failure)):
            await writing
    assert stage.log == []


async def test_a_migration_that_is_found_gone_leaves_the_cache() -> None:
    stage = Stage()
    stage.migrations.put(under_way("m"))
    assert await stage.store.read("shop", "m") is None
    assert list(stage.migrations.all()) == []


async def test_a_migration_that_is_there_is_given_as_it_is() -> None:
    stage = Stage(Kept(under_way("m", version="4")))
    found = await stage.store.read("shop", "m")
    assert found == under_way("m", version="4")
