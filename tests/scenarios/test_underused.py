"""ResourceOptimization's lowThresholds and minUnderusedNodes: who takes pods from hot nodes, and when nobody does."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rescheduler.model.snapshot import ClusterSnapshot, MeasuredUsage
from tests.support.builders import Row, cluster, daemonset, node, pod
from tests.support.examples import seeds
from tests.support.generated import random_cluster
from tests.support.planning import OPTIMIZATION, carry_out, moves_of, planned, rejection_of
from tests.support.pod_migrations import replace
from tests.support.policies import plan_by

A, B, C = (node(name, cpu=10, memory="10Gi") for name in "abc")
HOT = [pod("p", on="a", cpu=5), pod("q", on="a", cpu=4)]
GPU = "example.com/gpu"
ENABLED = "enabledStrategies: [ResourceOptimization]\n"


def on(place: str, cpu: int | str, memory: str = "0") -> Row:
    return pod(f"on-{place}", on=place, cpu=cpu, memory=memory)


TARGETS: list[tuple[str, list[Row], dict[str, float], dict[str, str]]] = [
    ("none given", [on("b", 3, "4Gi"), on("c", "3500m")], {}, {"q": "c"}),
    ("the node above one is passed over", [on("b", 3, "3Gi"), on("c", "2500m", "1Gi")], {"cpu": 25}, {"q": "c"}),
    ("even if it would rank first", [on("b", 3, "4Gi"), on("c", "3500m")], {"cpu": 30}, {"q": "b"}),
    ("at the threshold is not above it", [on("b", 4), on("c", "4001m")], {"cpu": 40}, {"q": "b"}),
    ("any of them keeps a node out", [on("b", 1, "4Gi"), on("c", 3)], {"cpu": 40, "memory": 30}, {"q": "c"}),
    ("what has none is not looked at", [on("b", 1, "7Gi")], {"cpu": 40}, {"q": "c"}),
    ("zero means nodes that bear nothing", [on("b", "1m")], {"cpu": 0}, {"q": "c"}),
    ("a hundred means all", [on("b", 4), on("c", 4)], {"cpu": 100}, {"q": "b"}),
    ("no node is", [on("b", 3), on("c", 3)], {"cpu": 20}, {}),
    ("the upper thresholds hold all the same", [on("b", 1, "9Gi"), on("c", 5)], {"cpu": 40}, {}),
]


@pytest.mark.parametrize(("rows", "low", "moves"), [pytest.param(*row[1:], id=row[0]) for row in TARGETS])
def test_only_nodes_under_all_low_thresholds_take_pods(
    rows: list[Row], low: dict[str, float], moves: dict[str, str]
) -> None:
    snapshot = cluster(A, B, C, HOT, rows)
    plan = planned(snapshot, OPTIMIZATION, settings={OPTIMIZATION: {"lowThresholds": low}}, cpu=85)
    assert moves_of(plan) == moves


def test_when_no_node_is_underused_the_rejection_says_so() -> None:
    snapshot = cluster(A, B, HOT, on("b", 3))
    plan = planned(snapshot, OPTIMIZATION, settings={OPTIMIZATION: {"lowThresholds": {"cpu": 20}}})
    said = "0/1 other nodes: 1 over a threshold afterwards or above one of the lowThresholds"
    assert rejection_of(plan, "q").reason == said


def test_an_underused_node_is_filled_up_to_its_upper_thresholds() -> None:
    small = [pod(f"s{n}", on="a", cpu=1) for n in range(10)]
    snapshot = cluster(A, B, small, on("b", 2))
    low = {OPTIMIZATION: {"lowThresholds": {"cpu": 20}}}
    plan = planned(snapshot, OPTIMIZATION, settings=low, cpu=70)
    assert [*moves_of(plan).values()] == ["b", "b", "b"]
    assert plan.after.hot_nodes == 0


def test_a_node_that_becomes_underused_by_the_plan_takes_pods_in_the_same_plan() -> None:
    large = [*daemonset("agent", on=["a"], cpu=1), pod("large", on="a", cpu=8)]
    snapshot = cluster(A, B, C, large, pod("x", on="c", cpu=5), pod("y", on="c", cpu=4))
    low = {OPTIMIZATION: {"lowThresholds": {"cpu": 20}}}
    plan = planned(snapshot, OPTIMIZATION, settings=low)
    assert moves_of(plan) == {"large": "b", "y": "a"}
    assert planned(carry_out(snapshot, plan), OPTIMIZATION, settings=low).moves == ()


SEEDS = seeds(few=10, many=30)


@pytest.mark.parametrize("low", [20, 40, 60])
def test_what_is_moved_by_low_thresholds_is_left_alone_by_the_next_plan(low: int) -> None:
    moved = 0
    settings = {OPTIMIZATION: {"lowThresholds": {"cpu": low, "memory": low}, "minUnderusedNodes": 1}}
    for seed in SEEDS:
        snapshot = random_cluster(seed, nodes=10, pods=25 + seed % 3 * 20)
        plan = planned(snapshot, OPTIMIZATION, settings=settings, cpu=60, memory=60)
        while plan.moves and {"WorkloadAtOnce", "DisruptionBudget"} & {each.guard for each in plan.rejections}:
            moved += len(plan.moves)
            snapshot = carry_out(snapshot, plan)
            plan = planned(snapshot, OPTIMIZATION, settings=settings, cpu=60, memory=60)
        moved += len(plan.moves)
        again = planned(carry_out(snapshot, plan), OPTIMIZATION, settings=settings, cpu=60, memory=60)
        assert again.moves == (), f"seed {seed}"
    assert moved > len(SEEDS) / 3


class TestOtherResources:
    def test_the_pod_count(self) -> None:
        rows = [*(pod(f"b{n}", on="b") for n in range(6)), *(pod(f"c{n}", on="c", cpu=1) for n in range(3))]
        nodes = [node(name, cpu=10, memory="10Gi", pods=10) for name in "abc"]
        low = "strategies: {ResourceOptimization: {lowThresholds: {pods: 50}}}\nthresholds: {pods: 90}\n"
        assert moves_of(plan_by(cluster(nodes, HOT, rows), ENABLED + low)) == {"q": "c"}
        assert moves_of(plan_by(cluster(nodes, HOT, rows), ENABLED)) == {"q": "b"}

    def test_a_node_that_lacks_an_extended_resource_uses_none_of_it(self) -> None:
        rich = node("b", cpu=10, memory="10Gi", resources={GPU: 4})
        rows = [pod("training", on="b", resources={GPU: 2}), on("c", 2)]
        low = f"strategies: {{ResourceOptimization: {{lowThresholds: {{{GPU}: 25}}}}}}\nthresholds: {{{GPU}: 90}}\n"
        assert moves_of(plan_by(cluster(A, rich, C, HOT, rows), ENABLED + low)) == {"q": "c"}


def measured(snapshot: ClusterSnapshot, cpu: Mapping[str, int]) -> ClusterSnapshot:
    """The snapshot with CPU (thousandths) measured of these pods; nodes use what their pods do."""
    used: dict[str, int] = dict.fromkeys((each.name for each in snapshot.nodes), 0)
    for each in snapshot.pods:
        used[each.node] += cpu[each.name]
    found = MeasuredUsage(
        nodes={name: (("cpu", amount), ("memory", 0)) for name, amount in used.items()},
        pods={("default", name): (("cpu", amount), ("memory", 0)) for name, amount in cpu.items()},
    )
    return replace(snapshot, measured=found)


def test_where_use_is_measured_it_decides_who_is_underused() -> None:
    snapshot = measured(
        cluster(A, B, C, HOT, on("b", 1), on("c", 5)), {"p": 5000, "q": 4000, "on-b": 4000, "on-c": 1000}
    )
    low = "strategies: {ResourceOptimization: {lowThresholds: {cpu: 30}}}\n"
    assert moves_of(plan_by(snapshot, ENABLED + low + "utilization: usage")) == {"q": "c"}
    assert moves_of(plan_by(snapshot, ENABLED + low)) == {"q": "b"}


class TestDeviation:
    """With thresholdMode: deviation they are points below the mean."""

    CONFIG = ENABLED + "thresholdMode: deviation\ncpuThreshold: 20\nmemoryThreshold: 100\n"

    def low(self, points: float) -> str:
        return f"{self.CONFIG}strategies: {{ResourceOptimization: {{lowThresholds: {{cpu: {points}}}}}}}\n"

    def test_only_nodes_so_far_below_the_mean_take_pods(self) -> None:
        d = node("d", cpu=10, memory="10Gi")
        snapshot = cluster(A, B, C, d, HOT, on("b", 3, "2Gi"), on("c", "3500m"), on("d", "4500m"))  # the mean is 50
        assert set(moves_of(plan_by(snapshot, self.low(20))).values()) == {"b"}
        assert plan_by(snapshot, self.low(21)).moves == ()

    def test_further_below_than_there_can_be_means_nodes_that_bear_nothing(self) -> None:
        snapshot = cluster(A, B, C, HOT, on("b", "1m"))
        assert set(moves_of(plan_by(snapshot, self.low(90))).values()) == {"c"}

    def test_the_mean_is_that_of_the_nodes_own_pool(self) -> None:
        web = [node(f"w{n}", cpu=10, memory="10Gi", labels={"pool": "web"}) for n in range(2)]
        pools = "pools: [{name: web, nodeSelector: pool=web}]\n"
        rows = [pod("x", on="w0", cpu=6), pod("y", on="w0", cpu=2), pod("z", on="w1", cpu=4), on("a", "4500m")]
        snapshot = cluster(web, A, B, rows, on("b", "4500m"))  # 60 in the pool, 45 beside it
        assert moves_of(plan_by(snapshot, self.low(5) + pools)) == {}
        near = cluster(web, A, B, rows[:2], pod("z", on="w1", cpu=3), on("a", "4500m"), on("b", "4500m"))
        assert {move.target for move in plan_by(near, self.low(20) + pools).moves} == {"w1"}


class TestTooFew:
    def test_nothing_is_moved_unless_so_many_nodes_are_underused_and_the_plan_says_so(self) -> None:
        snapshot = cluster(A, B, C, HOT, on("b", 1), on("c", 5))
        low = "strategies: {ResourceOptimization: {lowThresholds: {cpu: 20}, minUnderusedNodes: %d}}\n"
        one = plan_by(snapshot, ENABLED + low % 1)
        assert moves_of(one) == {"q": "b"}
        assert one.warnings == ()
        two = plan_by(snapshot, ENABLED + low % 2)
        assert (two.moves, two.rejections) == ((), ())
        said = "ResourceOptimization moves nothing: 1 node is under all lowThresholds, and minUnderusedNodes is 2"
        assert two.warnings == (said,)

    def test_nothing_is_said_where_no_node_is_hot(self) -> None:
        low = "strategies: {ResourceOptimization: {lowThresholds: {cpu: 20}, minUnderusedNodes: 9}}\n"
        assert plan_by(cluster(A, B, C, on("b", 1)), ENABLED + low).warnings == ()

    def test_nodes_that_take_no_pods_do_not_count(self) -> None:
        closed = [node("b", cpu=10, cordoned=True), node("d", cpu=10, control_plane=True), C]
        low = "strategies: {ResourceOptimization: {lowThresholds: {cpu: 20}, minUnderusedNodes: 2}}\n"
        (said,) = plan_by(cluster(A, closed, HOT), ENABLED + low).warnings
        assert said.endswith("1 node is under all lowThresholds, and minUnderusedNodes is 2")

    def test_each_pool_counts_its_own_and_the_warning_names_it(self) -> None:
        config = """\
enabledStrategies: [ResourceOptimization]
strategies: {ResourceOptimization: {lowThresholds: {cpu: 20}, minUnderusedNodes: 2}}
pools:
  - {name: web, nodeSelector: pool=web}
  - {name: lax, nodeSelector: pool=lax, strategies: {ResourceOptimization: {minUnderusedNodes: 0}}}
"""

        def of(name: str, count: int) -> list[Row]:
            labels = {"pool": name}
            nodes = [node(f"{name}{n}", cpu=10, memory="10Gi", labels=labels) for n in range(count)]
            return [*nodes, pod(f"{name}-p", on=f"{name}0", cpu=5), pod(f"{name}-q", on=f"{name}0", cpu=4)]

        plan = plan_by(cluster(of("web", 2), of("lax", 2), of("none", 3)), config)
        assert {move.source for move in plan.moves} == {"lax0", "none0"}
        said = "moves nothing in pool web: 1 node is under all lowThresholds, and minUnderusedNodes is 2"
        assert plan.warnings == (f"ResourceOptimization {said}",)
