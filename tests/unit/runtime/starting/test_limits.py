"""Concurrency limits are never exceeded, in whatever order migrations ask; one that is done frees its place."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rescheduler.migration.steps.common import STUCK
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.policy import Concurrency
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.starting.limits import ConcurrencyLimits, footprint, is_in_line
from tests.support.live import live
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.support.showing import Read
from tests.unit.runtime.migrations import WEB, over, pending, under_way

FREE = Concurrency(total=None, per_node=None, per_namespace=None, per_workload=None)
BEGINS = MigrationStatus(source="one", target="two", workload=WEB)


def cache_of(*migrations: PodMigration) -> MigrationCache:
    cache = MigrationCache()
    for each in migrations:
        cache.put(each)
    return cache


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        (replace(FREE, total=1), "total"),
        (replace(FREE, per_namespace=1), "perNamespace"),
        (replace(FREE, per_workload=1), "perWorkload"),
        (replace(FREE, per_node=1), "perNode, one"),
    ],
)
def test_each_limit_keeps_the_next_one_waiting_and_is_named(limits: Concurrency, named: str) -> None:
    concurrency_limits = ConcurrencyLimits(cache_of(under_way("first", workload=WEB)), live(concurrency=lambda: limits))
    assert concurrency_limits.find_exceeded(pending("next"), BEGINS).endswith(
        f"1 under way (migration.concurrency.{named})"
    )


@pytest.mark.parametrize(
    ("share", "replicas", "limit", "told"),
    [
        ("10%", 29, 2, "10% of 29 replicas"),
        ("10%", 30, 3, "10% of 30 replicas"),
        ("10%", 3, 1, "10% of 3 replicas"),
        ("100%", 2, 2, "100% of 2 replicas"),
        ("50%", 0, 1, "50% of 0 replicas"),
        ("50%", None, 1, "50% of an unknown number of replicas"),
    ],
)
def test_a_share_is_of_the_replicas_that_the_workload_should_have(
    share: str, replicas: int | None, limit: int, told: str
) -> None:
    asked = []

    def known(namespace: str, owner: ObjectReference) -> int | None:
        asked.append((namespace, owner))
        return replicas

    for begun in range(limit + 1):
        migrations = cache_of(*(under_way(f"m{number}", f"web-{number}", workload=WEB) for number in range(begun)))
        found = ConcurrencyLimits(
            migrations, live(concurrency=lambda: replace(FREE, per_workload=share)), known
        ).find_exceeded(pending("next"), BEGINS)
        assert bool(found) is (begun == limit)
    assert found == f"it waits its turn: {limit} under way (migration.concurrency.perWorkload, {told})"
    assert set(asked) == {("shop", WEB)}


def test_the_replicas_that_a_workload_should_have_are_known_from_its_watch() -> None:
    watching = Read(lambda: 0.0)
    metadata = {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1"}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 7}}
    watching.cache.sink("Deployment").put(msgspec.json.encode(body))
    assert watching.replicas("shop", WEB) == 7
    assert watching.replicas("bank", WEB) is None
    assert watching.replicas("shop", ObjectReference("CloneSet", "web")) is None


def test_a_share_of_a_pod_that_nobody_manages_is_that_one() -> None:
    concurrency_limits = ConcurrencyLimits(
        cache_of(under_way("first", "a")), live(concurrency=lambda: replace(FREE, per_workload="50%"))
    )
    bare = replace(BEGINS, workload=None)
    assert concurrency_limits.find_exceeded(pending("next", "b"), bare) == ""
    assert concurrency_limits.find_exceeded(pending("next", "a"), bare).endswith("perWorkload, 50% of 1 replica)")


def test_a_workload_that_is_scaled_has_another_share_at_once() -> None:
    replicas = {"web": 10}
    concurrency_limits = ConcurrencyLimits(
        cache_of(under_way("first", workload=WEB)),
        live(concurrency=lambda: replace(FREE, per_workload="10%")),
        lambda namespace, owner: replicas[owner.name],
    )
    assert concurrency_limits.find_exceeded(pending("next"), BEGINS)
    replicas["web"] = 20
    assert concurrency_limits.find_exceeded(pending("next"), BEGINS) == ""


def test_without_limits_nobody_waits() -> None:
    concurrency_limits = ConcurrencyLimits(
        cache_of(*(under_way(f"m{number}", workload=WEB) for number in range(50))), live(concurrency=lambda: FREE)
    )
    assert concurrency_limits.find_exceeded(pending("next"), BEGINS) == ""


def test_a_move_that_is_made_holds_no_slot_while_its_original_is_stuck_in_terminating() -> None:
    migrations = cache_of(under_way("first", workload=WEB, message=f"{STUCK} at 2026-11-20T01:00:00Z"))
    concurrency_limits = ConcurrencyLimits(migrations, live(concurrency=lambda: Concurrency(1, 1, 1, 1)))
    assert concurrency_limits.find_exceeded(pending("next"), BEGINS) == ""


def test_a_node_counts_as_source_and_as_target() -> None:
    concurrency_limits = ConcurrencyLimits(
        cache_of(under_way("first", source="three", target="one")), live(concurrency=lambda: replace(FREE, per_node=1))
    )
    assert "perNode, one" in concurrency_limits.find_exceeded(pending("next"), BEGINS)
    assert concurrency_limits.find_exceeded(pending("next"), replace(BEGINS, source="four")) == ""


def test_the_same_names_in_other_namespaces_are_other_workloads() -> None:
    concurrency_limits = ConcurrencyLimits(
        cache_of(replace(under_way("first", workload=WEB), namespace="bank")), live()
    )
    assert concurrency_limits.find_exceeded(pending("next"), BEGINS) == ""


def test_two_bare_pods_are_two_workloads() -> None:
    concurrency_limits = ConcurrencyLimits(cache_of(under_way("first", "a")), live())
    assert concurrency_limits.find_exceeded(pending("next", "b"), replace(BEGINS, workload=None)) == ""


def test_what_has_just_been_granted_counts_before_it_is_stored() -> None:
    migrations = cache_of(pending("first"), pending("next"))
    concurrency_limits = ConcurrencyLimits(migrations, live(concurrency=lambda: replace(FREE, total=1)))
    concurrency_limits.grant(pending("first"), BEGINS)
    assert concurrency_limits.find_exceeded(pending("next"), BEGINS)
    assert concurrency_limits.find_exceeded(pending("first"), BEGINS) == ""
    assert concurrency_limits.has_granted(("shop", "first"))
    assert not concurrency_limits.has_granted(("shop", "next"))


def test_what_is_only_looked_at_counts_and_is_not_about_to_begin() -> None:
    concurrency_limits = ConcurrencyLimits(
        cache_of(pending("first"), pending("next")), live(concurrency=lambda: replace(FREE, total=1))
    )
    concurrency_limits.reserve(pending("first"), BEGINS)
    assert concurrency_limits.find_exceeded(pending("next"), BEGINS)
    assert not concurrency_limits.has_granted(("shop", "first"))
    concurrency_limits.grant(pending("first"), BEGINS)
    assert concurrency_limits.has_granted(("shop", "first"))


def test_what_is_granted_and_stored_counts_once() -> None:
    migrations = cache_of(pending("first"), pending("next"))
    concurrency_limits = ConcurrencyLimits(migrations, live(concurrency=lambda: replace(FREE, total=2)))
    concurrency_limits.grant(pending("first"), BEGINS)
    migrations.put(under_way("first", version="2", attempts=1))
    assert concurrency_limits.find_exceeded(pending("next"), BEGINS) == ""


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(over("first", version="3"), id="over"),
        pytest.param(pending("first", version="3", attempts=1, retry_time=9.0), id="waiting for its next attempt"),
    ],
)
def test_what_was_granted_and_has_begun_holds_no_slot_after_it(left: PodMigration) -> None:
    """Also if nobody has asked for a slot while it was under way."""
    migrations = cache_of(pending("first"), pending("next"))
    concurrency_limits = ConcurrencyLimits(migrations, live(concurrency=lambda: replace(FREE, total=1)))
    concurrency_limits.grant(pending("first"), BEGINS)
    migrations.put(under_way("first", version="2", attempts=1))
    migrations.put(left)
    assert concurrency_limits.find_exceeded(pending("next"), BEGINS) == ""
    assert not concurrency_limits.has_granted(("shop", "first"))


def test_what_was_granted_and_is_deleted_holds_no_slot() -> None:
    migrations = cache_of(pending("first"), pending("next"))
    concurrency_limits = ConcurrencyLimits(migrations, live(concurrency=lambda: replace(FREE, total=1)))
    concurrency_limits.grant(pending("first"), BEGINS)
    migrations.drop(("shop", "first"))
    assert concurrency_limits.find_exceeded(pending("next"), BEGINS) == ""


def test_what_was_granted_and_did_not_begin_can_be_released() -> None:
    migrations = cache_of(pending("first"), pending("next"))
    concurrency_limits = ConcurrencyLimits(migrations, live(concurrency=lambda: replace(FREE, total=1)))
    concurrency_limits.grant(pending("first"), BEGINS)
    concurrency_limits.release(("shop", "first"))
    assert concurrency_limits.find_exceeded(pending("next"), BEGINS) == ""


def test_members_of_a_proposal_that_has_begun_do_not_wait() -> None:
    together = migration_spec("a", proposal="p", members=2)
    concurrency_limits = ConcurrencyLimits(
        cache_of(under_way("first", order=together)), live(concurrency=lambda: replace(FREE, total=1))
    )
    assert concurrency_limits.find_exceeded(pending("second", order=replace(together, pod="b")), BEGINS) == ""
    assert concurrency_limits.find_exceeded(pending("other", order=replace(together, proposal="q")), BEGINS)


def test_a_proposal_of_one_is_no_way_round_the_limits() -> None:
    alone = migration_spec("a", proposal="p", members=1)
    concurrency_limits = ConcurrencyLimits(
        cache_of(under_way("first", order=alone)), live(concurrency=lambda: replace(FREE, total=1))
    )
    assert concurrency_limits.find_exceeded(pending("second", order=alone), BEGINS)


def test_one_in_line_waits_until_its_limit_changes() -> None:
    migrations = cache_of(under_way("first"))
    concurrency_limits = ConcurrencyLimits(migrations, live(concurrency=lambda: replace(FREE, total=1, per_node=1)))
    told = concurrency_limits.find_exceeded(pending("next"), BEGINS)
    waiting = pending("next", source="one", message=told)
    assert is_in_line(waiting)
    assert concurrency_limits.find_exceeded(waiting, waiting.status)
    migrations.put(over("first", version="2"))
    assert not concurrency_limits.find_exceeded(waiting, waiting.status)


def test_only_pending_ones_are_in_line() -> None:
    assert not is_in_line(under_way("m", message="it waits its turn: 1 under way"))
    assert not is_in_line(pending("m"))
    assert not is_in_line(pending("m", message="a rollout"))


class Interleaved(RuleBasedStateMachine):
    """Workers ask, are granted a slot, store it or fail to; moves end, are retried or deleted, in any order."""

    limits = Concurrency(total=4, per_node=2, per_namespace=3, per_workload=1)
    names = st.sampled_from([f"m{number}" for number in range(8)])

    @initialize()
    def begin(self) -> None:
        self.migrations = MigrationCache()
        self.concurrency_limits = ConcurrencyLimits(self.migrations, live(concurrency=lambda: self.limits))
        self.versions = 0
        self.granted: dict[str, MigrationStatus] = {}

    def stored(self, migration: PodMigration) -> None:
        self.versions += 1
        self.migrations.put(replace(migration, version=str(self.versions)), ours=True)

    def known(self, name: str) -> PodMigration | None:
        return self.migrations.get((self.namespace(name), name))

    @staticmethod
    def namespace(name: str) -> str:
        return "shop" if name < "m5" else "bank"

    @rule(name=names)
    def ordered(self, name: str) -> None:
        if self.known(name) is None:
            self.stored(pod_migration(self.namespace(name), name, migration_spec(f"pod-{name}")))

    @rule(
        name=names,
        source=st.sampled_from(["one", "two"]),
        aim=st.sampled_from(["three", "four", ""]),
        workload=st.sampled_from(["web", "db", "cache", ""]),
    )
    def asked(self, name: str, source: str, aim: str, workload: str) -> None:
        """As the start gate does: a new look gives up what was granted at an earlier one."""
        migration = self.known(name)
        if migration is None or migration.status.phase is not Phase.PENDING:
            return
        self.concurrency_limits.reserve(migration, migration.status)
        self.granted.pop(name, None)
        owner = ObjectReference("Deployment", workload, workload) if workload else None
        progress = replace(migration.status, source=source, target=aim, workload=owner)
        if not self.concurrency_limits.find_exceeded(migration, progress):
            self.concurrency_limits.grant(migration, progress)
            self.granted[name] = progress
        else:
            self.concurrency_limits.release((migration.namespace, migration.name))

    @precondition(lambda self: self.granted)
    @rule(data=st.data())
    def begun(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.granted)))
        progress = self.granted.pop(name)
        migration = self.known(name)
        if migration is not None:
            begun = replace(progress, phase=Phase.IN_PROGRESS, attempts=progress.attempts + 1)
            self.stored(replace(migration, status=begun))

    @rule(name=names, phase=st.sampled_from([Phase.PENDING, Phase.COMPLETED]))
    def ended_or_rolled_back(self, name: str, phase: Phase) -> None:
        migration = self.known(name)
        if migration is not None and migration.status.phase is Phase.IN_PROGRESS:
            self.stored(replace(migration, status=replace(migration.status, phase=phase)))

    @rule(name=names)
    def deleted(self, name: str) -> None:
        self.migrations.drop((self.namespace(name), name))
        self.granted.pop(name, None)

    @invariant()
    def no_limit_is_exceeded(self) -> None:
        moving = [(each, each.status) for each in self.migrations.in_progress()]
        moving += [(found, told) for name, told in self.granted.items() if (found := self.known(name)) is not None]
        taken = [footprint(*each) for each in moving]
        assert len(taken) <= 4
        assert max(Counter(node for each in taken for node in each.nodes).values(), default=0) <= 2
        assert max(Counter(each.namespace for each in taken).values(), default=0) <= 3
        assert max(Counter(each.workload for each in taken).values(), default=0) <= 1

    @invariant()
    def nothing_waits_for_nobody(self) -> None:
        if not self.granted and not list(self.migrations.in_progress()):
            assert self.concurrency_limits.find_exceeded(pending("somebody"), BEGINS) == ""


TestInterleaved = Interleaved.TestCase
