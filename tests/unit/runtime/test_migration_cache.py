"""The cache: what it finds by phase, pod, proposal and owner is what looking through everything would find."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.kube.migrations import encode_migration
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.runtime.migration_cache import MigrationCache, MigrationSink
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.unit.runtime.migrations import WEB, WEB_SET, over, pending, under_way

NAMES, PODS, OWNERS, PROPOSALS = "abc", ("x", "y", "z"), ("o1", "o2"), ("p", "q")

_owners = st.one_of(st.none(), st.sampled_from(OWNERS).map(lambda uid: ObjectReference("Deployment", uid, uid)))
_migrations = st.builds(
    pod_migration,
    namespace=st.sampled_from(["shop", "bank"]),
    name=st.sampled_from(NAMES),
    spec=st.builds(
        migration_spec, pod=st.sampled_from(PODS), proposal=st.sampled_from(PROPOSALS), members=st.integers(1, 3)
    ),
    status=st.builds(
        MigrationStatus,
        phase=st.sampled_from(Phase),
        controller=_owners,
        workload=_owners,
        replacement=st.one_of(st.none(), st.sampled_from(PODS).map(lambda name: ObjectReference("Pod", name))),
    ),
    uid=st.sampled_from(["u1", "u2"]),
    version=st.integers(1, 9).map(str),
)
_events = st.lists(st.one_of(_migrations, st.tuples(st.sampled_from(["shop", "bank"]), st.sampled_from(NAMES))))


def key_of(migration: PodMigration) -> ObjectKey:
    return migration.namespace, migration.name


def owners_of(migration: PodMigration) -> set[str]:
    progress = migration.status
    found = {each.uid for each in (progress.controller, progress.workload) if each is not None}
    return set() if progress.over else found


def pods_of(migration: PodMigration) -> set[str]:
    copy = migration.status.replacement
    return {migration.spec.pod.name} | ({copy.name} if copy is not None else set())


@given(_events)
def test_every_index_agrees_with_a_look_through_everything(events: list[PodMigration | ObjectKey]) -> None:
    migrations, naive = MigrationCache(), dict[ObjectKey, PodMigration]()
    for event in events:
        if isinstance(event, tuple):
            migrations.drop(event)
            naive.pop(event, None)
            continue
        migrations.put(event)
        known = naive.get(key_of(event))
        if (
            known is None
            or known.uid != event.uid
            or int(known.metadata.resource_version) <= int(event.metadata.resource_version)
        ):
            naive[key_of(event)] = event
    assert {key_of(each): each for each in migrations.all()} == naive
    assert {key_of(each) for each in migrations.active()} == {key for key, m in naive.items() if not m.status.over}
    begun = {key for key, m in naive.items() if m.status.phase is Phase.IN_PROGRESS}
    assert {key_of(each) for each in migrations.in_progress()} == begun
    for uid in OWNERS:
        assert migrations.by_owner(uid) == {key for key, m in naive.items() if uid in owners_of(m)}
    for namespace in ("shop", "bank"):
        for pod in PODS:
            about = {key for key, m in naive.items() if m.namespace == namespace and pod in pods_of(m)}
            assert migrations.by_pod((namespace, pod)) == about
    for key, migration in naive.items():
        order = migration.spec
        others = {
            other
            for other, m in naive.items()
            if other != key and m.spec.proposal_name == order.proposal_name and m.spec.members > 1
        }
        assert {key_of(each) for each in migrations.members(migration)} == (others if order.members > 1 else set())


def test_an_older_state_does_not_replace_a_newer_one_and_nobody_is_told() -> None:
    migrations, told = MigrationCache(), list[tuple[ObjectKey, bool]]()
    migrations.put(under_way("m", version="10"), ours=True)
    migrations.listen(lambda key, ours: told.append((key, ours)))
    migrations.put(pending("m", version="9"))
    known = migrations.get(("shop", "m"))
    assert known is not None
    assert known.status.phase is Phase.IN_PROGRESS
    assert told == []


def test_the_watch_telling_us_what_we_wrote_is_no_news() -> None:
    migrations, told = MigrationCache(), list[tuple[ObjectKey, bool]]()
    migrations.listen(lambda key, ours: told.append((key, ours)))
    migrations.put(pending("m", version="1"))
    migrations.put(under_way("m", version="2"), ours=True)
    migrations.put(under_way("m", version="2"))
    migrations.drop(("shop", "m"))
    migrations.drop(("shop", "m"))
    assert told == [(("shop", "m"), False), (("shop", "m"), True), (("shop", "m"), False)]


def test_another_object_of_the_same_name_replaces_the_one_that_was_deleted() -> None:
    migrations = MigrationCache()
    migrations.put(over("m", version="9"))
    migrations.put(replace(pending("m", version="3"), uid="another"))
    known = migrations.get(("shop", "m"))
    assert known is not None
    assert known.uid == "another"


def test_a_migration_that_is_over_is_of_no_owner_any_more() -> None:
    migrations = MigrationCache()
    migrations.put(under_way("m", workload=WEB, controller=WEB_SET))
    assert migrations.by_owner(WEB.uid) == migrations.by_owner(WEB_SET.uid) == {("shop", "m")}
    migrations.put(over("m", version="2", workload=WEB, controller=WEB_SET))
    assert migrations.by_owner(WEB.uid) == migrations.by_owner(WEB_SET.uid) == set()


def test_the_cache_may_change_while_it_is_looked_through() -> None:
    migrations = MigrationCache()
    for name in NAMES:
        migrations.put(pending(name))
    for walk in (migrations.all, migrations.active):
        for each in walk():
            migrations.drop(key_of(each))
            migrations.put(under_way(each.name, version="2"))
    assert len(list(migrations.in_progress())) == len(NAMES)


def written(migration: PodMigration, version: str) -> Any:
    body = encode_migration(migration)
    body["metadata"] |= {"uid": f"{migration.name}-uid", "resourceVersion": version}
    return body


def raw(body: Any) -> bytes:
    return json.dumps(body).encode()


def test_a_new_list_drops_what_it_does_not_have_and_only_when_it_is_whole() -> None:
    migrations = MigrationCache()
    sink = MigrationSink(migrations)
    migrations.put(pending("gone"))
    migrations.put(pending("kept"))
    sink.begin()
    assert sink.put(raw(written(pending("kept"), "5"))) == "5"
    assert migrations.get(("shop", "gone")) is not None
    sink.complete()
    assert migrations.get(("shop", "gone")) is None
    assert migrations.get(("shop", "kept")) is not None


def test_what_the_watch_says_is_gone_is_gone() -> None:
    migrations = MigrationCache()
    sink = MigrationSink(migrations)
    sink.put(raw(written(pending("m"), "5")))
    assert sink.drop(raw(written(pending("m"), "6"))) == "6"
    assert list(migrations.all()) == []


_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=5,
)


@given(st.sampled_from(["spec", "status", "pod", "name", "phase", "attempts", "replacement"]), _json)
def test_a_migration_that_makes_no_sense_is_left_out_and_stops_nobody(field: str, nonsense: object) -> None:
    migrations = MigrationCache()
    sink = MigrationSink(migrations)
    body = written(pending("m"), "7")
    sink.put(raw(body))
    match field:
        case "spec" | "status":
            body[field] = nonsense
        case "pod":
            body["spec"]["pod"] = nonsense
        case "name":
            body["spec"]["pod"] = {"name": nonsense}
        case _:
            body["status"] = {field: nonsense}
    body["metadata"]["resourceVersion"] = "8"
    assert sink.put(raw(body)) == "8"
    known = migrations.get(("shop", "m"))
    assert known is None or known.metadata.resource_version == "8"


@pytest.mark.parametrize("version", ["", "opaque"])
def test_versions_that_are_no_numbers_do_not_keep_news_away(version: str) -> None:
    migrations = MigrationCache()
    migrations.put(pending("m", version=version))
    migrations.put(under_way("m", version=version))
    assert len(list(migrations.in_progress())) == 1
