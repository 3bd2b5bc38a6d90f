"""What a plan makes of the hour: it is not carried out before a window opens, and spares namespaces that had enough."""

from __future__ import annotations

from typing import Any

import pytest

from rescheduler.app import planning as app
from rescheduler.model import labels
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from rescheduler.model.plan import Plan
from rescheduler.model.policy import POD_GROUP, Policy, Timing
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.cycle import with_inflight_moves
from rescheduler.planning.revalidate import RequestedMove, Revalidator
from tests.support.builders import NOW, cluster, node, pod
from tests.support.planning import MAINTENANCE, OPTIMIZATION, planned, rejection_of, without_clock
from tests.support.pod_migrations import migration_spec, pod_migration, replace

DISABLED = {labels.RESCHEDULING: "disabled"}

HOT = cluster(node("a"), node("b"), *(pod(f"p{number}", "a", cpu=1) for number in range(4)))
DRAINED = cluster(node("a", maintenance=True), node("b"), pod("p", "a"))
"""NOW is Friday, 2027-01-15, at 08:00."""


def policy(*windows: str) -> Policy:
    timing = Timing(tuple(windows), "Asia/Shanghai")
    return Policy(enabled_strategies=(OPTIMIZATION, MAINTENANCE), when=timing)


def told(snapshot: ClusterSnapshot, wanted: Policy) -> list[str]:
    made = app.plan(snapshot, wanted)
    assert made.moves
    return [each for each in made.warnings if "time window" in each]


def test_a_plan_out_of_hours_says_when_it_is_carried_out() -> None:
    moves = len(app.plan(HOT, policy("Sat 02:00-04:00")).moves)
    assert moves == 1
    expected = "1 move of this plan is not carried out before Sat 2027-01-16 02:00 Asia/Shanghai"
    assert told(HOT, policy("Sat 02:00-04:00")) == [f"no time window is open (when.windows): {expected}"]


@pytest.mark.parametrize(
    ("snapshot", "wanted"),
    [
        pytest.param(HOT, policy(), id="no windows"),
        pytest.param(HOT, policy("Fri"), id="an open one"),
        pytest.param(without_clock(HOT), policy("Sat"), id="nobody knows what time it is"),
        pytest.param(DRAINED, policy("Sat"), id="somebody has asked for it"),
    ],
)
def test_otherwise_it_says_nothing(snapshot: ClusterSnapshot, wanted: Policy) -> None:
    assert told(snapshot, wanted) == []


class TestOneNamespacesHour:
    """Four pods of two namespaces make a node hot; two of them would have to go."""

    NODES = (node("a", cpu=10), node("b", cpu=10))
    ROWS = tuple(
        pod(f"{name}{n}", "a", cpu="2400m", namespace=name, priority=rank)
        for rank, name in enumerate(("shop", "bank"))
        for n in range(2)
    )

    def plan(self, most: int, *begun: PodMigration, emptied: bool = False) -> Plan:
        nodes = (node("a", cpu=10, maintenance=emptied), self.NODES[1])
        timing = Timing(moves_per_hour_per_namespace=most)
        snapshot = with_inflight_moves(cluster(nodes, self.ROWS), begun, 0.0)
        wanted = Policy(enabled_strategies=(OPTIMIZATION, MAINTENANCE), when=timing, cpu_threshold=50.0)
        return app.plan(snapshot, wanted)

    @staticmethod
    def moved(name: str, ago: float, **order: Any) -> PodMigration:
        wanted = migration_spec("gone", strategy=OPTIMIZATION, **{"windowed": True, **order})
        return pod_migration("shop", name, wanted, MigrationStatus(Phase.COMPLETED, start_time=NOW - ago, attempts=1))

    def test_a_plan_takes_its_moves_from_namespaces_that_have_some_left(self) -> None:
        assert {move.namespace for move in self.plan(2).moves} == {"shop"}  # of the lower priority
        plan = self.plan(1)
        assert [move.namespace for move in plan.moves] == ["shop", "bank"]
        (left,) = [each for each in plan.rejections if each.namespace == "shop"]
        limit = "when.movesPerHourPerNamespace (1) is reached for shop"
        assert left.guard == "MovesPerHourPerNamespace"
        assert left.reason == f"{limit}, with 0 begun or ordered within the hour and 1 in this plan"

    def test_what_has_begun_within_the_hour_counts_and_so_does_what_is_ordered(self) -> None:
        assert {move.namespace for move in self.plan(2, self.moved("m", 3600)).moves} == {"shop", "bank"}
        ordered = replace(self.moved("m", 0), status=MigrationStatus())
        assert {move.namespace for move in self.plan(2, ordered).moves} == {"shop", "bank"}
        assert {move.namespace for move in self.plan(2, ordered, self.moved("n", 5)).moves} == {"bank"}

    def test_what_is_longer_ago_or_was_asked_for_does_not_count(self) -> None:
        before = [self.moved("m", 3601), self.moved("n", 5, windowed=False)]
        assert {move.namespace for move in self.plan(2, *before).moves} == {"shop"}

    def test_a_node_is_emptied_at_once(self) -> None:
        plan = self.plan(1, self.moved("m", 5), self.moved("n", 5), emptied=True)
        assert {(move.strategy, move.target) for move in plan.moves} == {(MAINTENANCE, "b")}
        assert len(plan.moves) == 4

    def test_explaining_a_pod_names_it_among_what_objects(self) -> None:
        wanted = replace(policy(), when=Timing(moves_per_hour_per_namespace=1))
        found, _ = app.explain_pod(replace(HOT, hourly={"default": 1}), wanted, ("default", "p0"))
        assert "MovesPerHourPerNamespace" in dict(found.objections)

    def test_what_is_ordered_is_judged_without_it(self) -> None:
        """Whether it may begin, its hour says; what a person has ordered waits for none."""
        wanted = replace(policy(), when=Timing(moves_per_hour_per_namespace=1))
        for by_hand in (True, False):
            revalidator = Revalidator(replace(HOT, hourly={"default": 5}), wanted)
            assert revalidator.check(RequestedMove("default", "p0", by_hand=by_hand)).method is not None


def test_pods_that_go_together_or_not_at_all_stay_if_their_namespace_has_no_hour_for_them() -> None:
    """Unless somebody has asked for it."""
    gang = [pod(f"g{n}", on=at, cpu=2, labels={POD_GROUP: "gang"}) for n, at in enumerate("ab")]
    full = pod("full", on="a", cpu="1900m", namespace="shop", labels=DISABLED)
    snapshot = cluster(node("a"), node("b"), node("c", cpu=8), gang, full)
    plan = planned(snapshot, OPTIMIZATION, when=Timing(moves_per_hour_per_namespace=1))
    assert plan.moves == ()
    told = rejection_of(plan, "g0")
    assert told.guard == "MovesPerHourPerNamespace"
    asked = "2 of them are in default, and when.movesPerHourPerNamespace is 1"
    assert told.reason == f"2 pods move together or not at all, and {asked}"
    assert len(planned(snapshot, OPTIMIZATION, when=Timing(moves_per_hour_per_namespace=2)).moves) == 2
    emptied = cluster(node("a", maintenance=True), node("b"), node("c", cpu=8), gang)
    known = replace(emptied, hourly={"default": 9})
    assert len(planned(known, MAINTENANCE, when=Timing(moves_per_hour_per_namespace=1)).moves) == 2


def test_explaining_a_pod_says_it_too() -> None:
    moved = app.plan(HOT, policy("Sat")).moves[0]
    _, made = app.explain_pod(replace(HOT), policy("Sat"), (moved.namespace, moved.pod))
    assert any("time window" in each for each in made.warnings)
