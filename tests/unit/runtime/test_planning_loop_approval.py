"""Migrations that wait for approval are judged again as a whole, and given up when refused twice in a row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from rescheduler.kube.migrations import StaleError
from rescheduler.model import labels
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.cycle import with_inflight_moves
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore
from rescheduler.runtime.planning_loop import ApprovalRevalidator, find_refusals
from rescheduler.runtime.starting.windows import TimeWindows
from tests.support.builders import NOW, cluster, node, pod
from tests.support.informers import informers
from tests.support.live import live
from tests.support.pod_migrations import migration_spec, pod_migration, replace

POLICY = Policy(min_pod_age=0.0, cool_down=0.0)


def waiting(name: str, target: str, *, strategy: str = "LoadBalancing") -> PodMigration:
    order = migration_spec(name, target=target, strategy=strategy, approval_required=True, plan="k4m9tz")
    return pod_migration("default", f"m-{name}", order, MigrationStatus(), f"{name}-uid", "1", NOW)


@dataclass
class Stage:
    """A cache, a cluster as given, and a store that keeps or refuses."""

    snapshot: ClusterSnapshot
    migrations: MigrationCache = field(default_factory=MigrationCache)
    stale: bool = False

    def __post_init__(self) -> None:
        now_live = live(policy=lambda: POLICY)
        self.reviewing = ApprovalRevalidator(
            informers(migrations=self.migrations, capture=lambda: lambda: self.snapshot),
            now_live,
            cast("MigrationStore", self),
            TimeWindows(self.migrations, now_live, lambda: NOW),
            lambda: NOW,
        )

    async def update_status(self, migration: PodMigration, progress: MigrationStatus) -> PodMigration:
        if self.stale:
            raise StaleError("changed")
        stored = replace(migration, status=progress, version=str(int(migration.metadata.resource_version) + 1))
        self.migrations.put(stored)
        return stored

    def failed(self) -> dict[str, str]:
        found = [each for each in self.migrations.all() if each.status.phase is Phase.FAILED]
        return {each.name: each.status.message for each in found}


ROOMY = cluster(node("one"), node("two"), pod("a", "one", cpu=1), pod("b", "one", cpu=1))
FULL = cluster(node("one"), node("two"), pod("a", "one", cpu=1), pod("full", "two", cpu=4))
SWAP = cluster(node("one", cpu=4), node("two", cpu=4), pod("a", "one", cpu=3), pod("b", "two", cpu=3), node("three"))


async def test_what_still_holds_waits_on() -> None:
    stage = Stage(ROOMY)
    for name in ("a", "b"):
        stage.migrations.put(waiting(name, "two"))
    assert [await stage.reviewing.revalidate() for _ in range(3)] == [0, 0, 0]
    assert stage.failed() == {}


async def test_what_is_refused_twice_in_a_row_is_given_up() -> None:
    stage = Stage(FULL)
    stage.migrations.put(waiting("a", "two"))
    assert await stage.reviewing.revalidate() == 0
    stage.snapshot = ROOMY
    assert await stage.reviewing.revalidate() == 0
    stage.snapshot = FULL
    assert [await stage.reviewing.revalidate() for _ in range(2)] == [0, 1]
    (message,) = stage.failed().values()
    assert message.startswith("given up while it waited for approval: NoTarget: two: ")


def test_a_move_may_count_on_the_room_that_another_one_leaves_in_whatever_order_they_come() -> None:
    freed, follows = waiting("b", "three"), waiting("a", "two")
    for order in ([freed, follows], [follows, freed]):
        assert find_refusals(SWAP, POLICY, order) == {}
    assert set(find_refusals(SWAP, POLICY, [follows])) == {("default", "m-a")}


def test_a_move_that_promised_something_and_has_nothing_to_give_any_more_is_of_no_use() -> None:
    level = cluster(node("one"), node("two"), pod("a", "one", cpu=1), pod("b", "two", cpu=1))
    promising = replace(waiting("a", "two"), spec=replace(waiting("a", "two").spec, expected_gain=25.0))
    (why,) = find_refusals(level, POLICY, [promising]).values()
    assert why.startswith("it would not make the busier of its two nodes less busy any more (")
    assert find_refusals(ROOMY, POLICY, [promising]) == {}
    assert find_refusals(level, POLICY, [waiting("a", "two")]) == {}


async def test_what_was_approved_meanwhile_or_ordered_by_hand_is_left_to_the_start_gate() -> None:
    stage = Stage(FULL)
    stage.migrations.put(replace(waiting("a", "two"), approved_by="me"))
    assert [await stage.reviewing.revalidate() for _ in range(3)] == [0, 0, 0]
    stage = Stage(FULL)
    stage.migrations.put(waiting("a", "two", strategy="Manual"))
    assert [await stage.reviewing.revalidate() for _ in range(3)] == [0, 0, 0]


async def test_what_waits_on_a_node_that_is_to_be_emptied_goes_at_once_and_the_pod_is_free() -> None:
    emptied = cluster(node("one", labels={labels.MAINTENANCE: "true"}), node("two"), pod("a", "one", cpu=1))
    stage = Stage(emptied)
    stage.migrations.put(replace(waiting("a", "two"), status=MigrationStatus(source="one", target="two")))
    assert await stage.reviewing.revalidate() == 1
    (message,) = stage.failed().values()
    assert message == "given up while it waited for approval: node one is to be emptied, which needs no approval"
    assert with_inflight_moves(emptied, stage.migrations.all(), 600.0).spoken_for == {}


def test_only_a_rejection_makes_a_pod_rest_that_was_not_touched() -> None:
    timed_out = replace(
        waiting("a", "two"), status=MigrationStatus(Phase.FAILED, completion_time=NOW, message="nobody approved")
    )
    assert with_inflight_moves(ROOMY, [timed_out], 600.0).spoken_for == {}
    rejected = replace(timed_out, rejected_by="jane")
    assert list(with_inflight_moves(ROOMY, [rejected], 600.0).spoken_for) == [("default", "a")]
    tried = replace(timed_out, status=replace(timed_out.status, attempts=1))
    assert list(with_inflight_moves(ROOMY, [tried], 600.0).spoken_for) == [("default", "a")]


async def test_one_that_somebody_has_just_written_to_is_not_given_up() -> None:
    stage = Stage(FULL, stale=True)
    stage.migrations.put(waiting("a", "two"))
    assert [await stage.reviewing.revalidate() for _ in range(3)] == [0, 0, 0]
    assert stage.failed() == {}
