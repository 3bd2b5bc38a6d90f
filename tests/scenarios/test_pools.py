"""Node pools: their own thresholds and strategies, and pods that are taken only from where a strategy runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescheduler.app.planning import explain_pod
from rescheduler.config.errors import ConfigErrors
from rescheduler.planning.thresholds import HotStreaks
from tests.support.builders import Row, cluster, node, pod
from tests.support.planning import carry_out, moves_of
from tests.support.policies import plan_by, policy


def pool(name: str, count: int, **options: int) -> list[Row]:
    return [node(f"{name}{n}", cpu=10, memory="10Gi", labels={"pool": name}, **options) for n in range(count)]  # type: ignore[arg-type]  # cpu and the like


def busy(place: str, pods: int) -> list[Row]:
    return [pod(f"{place}-{n}", on=place, cpu=1) for n in range(pods)]


class TestThresholds:
    CONFIG = """\
enabledStrategies: [ResourceOptimization]
cpuThreshold: 80
pools:
  - {name: batch, nodeSelector: pool=batch, cpuThreshold: 100}
  - {name: web, nodeSelector: pool=web, cpuThreshold: 50}
"""

    def test_each_pool_has_its_own_and_nodes_of_none_those_at_the_top(self) -> None:
        rows = [*pool("batch", 1), *pool("web", 2), *pool("other", 2)]
        loads = [*busy("batch0", 9), *busy("web0", 6), *busy("other0", 9)]
        plan = plan_by(cluster(rows, loads), self.CONFIG)
        assert {move.source for move in plan.moves} == {"web0", "other0"}
        assert plan.before.hot_nodes == 2
        assert plan.after.hot_nodes == 0

    def test_a_target_stays_under_the_threshold_of_its_own_pool(self) -> None:
        rows = [*pool("web", 1), *pool("other", 1), *pool("batch", 1)]
        snapshot = cluster(rows, busy("other0", 9), busy("web0", 5), busy("batch0", 8))
        assert set(moves_of(plan_by(snapshot, self.CONFIG)).values()) == {"batch0"}

    def test_the_first_pool_that_selects_a_node_counts(self) -> None:
        config = self.CONFIG + "  - {name: all, nodeSelector: pool, cpuThreshold: 10}\n"
        rows = [*pool("web", 1), *pool("other", 1), *pool("batch", 1)]
        plan = plan_by(cluster(rows, busy("other0", 2), busy("web0", 4)), config)
        assert {move.source for move in plan.moves} == {"other0"}

    def test_a_deviation_is_from_the_mean_of_the_pool(self) -> None:
        config = """\
enabledStrategies: [ResourceOptimization]
thresholdMode: deviation
cpuThreshold: 10
memoryThreshold: 10
pools: [{name: web, nodeSelector: pool=web}]
"""
        rows = [*pool("web", 2), *pool("idle", 4)]
        even = cluster(rows, busy("web0", 5), busy("web1", 5))
        assert plan_by(even, config).moves == ()
        uneven = cluster(rows, busy("web0", 6), busy("web1", 2))
        assert {move.source for move in plan_by(uneven, config).moves} == {"web0"}


class TestHotForAWhile:
    CONFIG = """\
enabledStrategies: [ResourceOptimization]
hotAfterCycles: 2
pools:
  - {name: web, nodeSelector: pool=web, hotAfterCycles: 3}
  - {name: batch, nodeSelector: pool=batch, hotAfterCycles: 1}
  - {name: spot, nodeSelector: pool=spot}
"""

    def test_each_pool_waits_for_its_own_cycles_and_who_says_nothing_for_those_at_the_top(self) -> None:
        names = ("web", "batch", "spot", "other")
        snapshot = cluster([row for name in names for row in (*pool(name, 2), *busy(f"{name}0", 9))])
        streaks, found = HotStreaks(), []
        for _ in range(3):
            laid_over = streaks.with_streaks(snapshot)
            found.append({move.source for move in plan_by(laid_over, self.CONFIG).moves})
            streaks.count(f"{name}0" for name in names)
        assert found == [{"batch0"}, {"batch0", "spot0", "other0"}, {"batch0", "spot0", "other0", "web0"}]

    def test_one_plan_by_itself_waits_for_none(self) -> None:
        snapshot = cluster(pool("web", 2), busy("web0", 9))
        assert {move.source for move in plan_by(snapshot, self.CONFIG).moves} == {"web0"}

    def test_who_waits_is_told_the_number_of_the_pool(self) -> None:
        snapshot = replace(cluster(pool("web", 2), busy("web0", 9)), hot_for={"web0": 1})
        found, _ = explain_pod(snapshot, policy(self.CONFIG), ("default", "web0-0"))
        assert "but not for hotAfterCycles (3) yet." in found.why


class TestStrategies:
    def test_each_pool_is_balanced_by_itself(self) -> None:
        config = """\
enabledStrategies: [LoadBalancing]
pools: [{name: web, nodeSelector: pool=web}, {name: batch, nodeSelector: pool=batch}]
"""
        rows = [*pool("web", 2), *pool("batch", 2), *pool("other", 1)]
        snapshot = cluster(rows, busy("web0", 6), busy("batch0", 4), busy("batch1", 3))
        plan = plan_by(snapshot, config)
        assert {(move.source, move.target) for move in plan.moves} == {("web0", "web1")}
        assert plan_by(carry_out(snapshot, plan), config).moves == ()

    def test_a_strategy_takes_pods_only_from_pools_in_which_it_runs(self) -> None:
        config = """\
enabledStrategies: []
pools:
  - {name: web, nodeSelector: pool=web, enabledStrategies: [NodeMaintenance]}
"""
        rows = [node("m0", labels={"pool": "web"}, maintenance=True), node("m1", maintenance=True), node("c")]
        plan = plan_by(cluster(rows, pod("p", on="m0"), pod("q", on="m1")), config)
        assert moves_of(plan) == {"p": "c"}
        assert any("m1" in warning and "m0" not in warning for warning in plan.warnings)

    def test_a_pool_has_settings_of_its_own_over_those_at_the_top(self) -> None:
        config = """\
enabledStrategies: [LoadBalancing]
imbalanceThreshold: 60
pools:
  - {name: web, nodeSelector: pool=web, imbalanceThreshold: 20}
  - {name: batch, nodeSelector: pool=batch, strategies: {LoadBalancing: {imbalanceThreshold: 30}}}
"""
        found = policy(config)
        top = found.strategy_settings["LoadBalancing"]["imbalance_threshold"]
        assert [
            top,
            *(each.strategy_settings["LoadBalancing"]["imbalance_threshold"] for each in found.node_pools),
        ] == [
            60,
            20,
            30,
        ]
        rows = [*pool("web", 2), *pool("batch", 2), *pool("other", 2)]
        loads = [*busy("web0", 5), *busy("batch0", 2), *busy("other0", 5)]
        assert {move.source for move in plan_by(cluster(rows, loads), config).moves} == {"web0"}

    def test_what_a_pool_says_counts_before_what_a_strategy_is_told_at_the_top(self) -> None:
        config = """\
strategies: {LoadBalancing: {imbalanceThreshold: 60}}
pools:
  - {name: web, nodeSelector: pool=web, imbalanceThreshold: 20}
  - {name: batch, nodeSelector: pool=batch}
"""
        found = policy(config).node_pools
        assert [each.strategy_settings["LoadBalancing"]["imbalance_threshold"] for each in found] == [20, 60]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("pools: [{nodeSelector: a=b}]", "pools[0].name: is required"),
        ("pools: [{name: a}]", "pools[0].nodeSelector: is required"),
        ("pools: [{name: a, nodeSelector: ''}]", "pools[0].nodeSelector: selects every node"),
        ("pools: [{name: a, nodeSelector: 'x in'}]", 'pools[0].nodeSelector: "x in" is not a label selector'),
        ("pools: [{name: A_, nodeSelector: x}]", 'pools[0].name: "A_" is not an object name'),
        ("pools: [{name: a, nodeSelector: x}, {name: a, nodeSelector: y}]", "two pools are called a"),
        ("pools: [{name: a, nodeSelector: x, cpuThreshold: 0}]", "pools[0].cpuThreshold: 0 is not"),
        (
            "pools: [{name: a, nodeSelector: x, hotAfterCycles: 0}]",
            "pools[0].hotAfterCycles: 0 is not at least 1",
        ),
        ("pools: [{name: a, nodeSelector: x, hotAfterCycles: 1.5}]", "pools[0].hotAfterCycles: 1.5 is not an integer"),
        ("pools: [{name: a, nodeSelector: x, colour: red}]", "pools[0].colour: is not a known field"),
        (
            "pools: [{name: a, nodeSelector: x, enabledStrategies: [Nothing]}]",
            'pools[0].enabledStrategies[0]: "Nothing" is not a known strategy',
        ),
        (
            "pools: [{name: a, nodeSelector: x, strategies: {LoadBalancing: {imbalance: 1}}}]",
            "pools[0].strategies.LoadBalancing.imbalance: is not a known field",
        ),
        (
            "pools: [{name: a, nodeSelector: x, strategies: {LoadBalancing: {imbalanceThreshold: 0}}}]",
            "pools[0].strategies.LoadBalancing.imbalanceThreshold: 0 is not",
        ),
        ("pools: {name: a}", "pools: "),
    ],
)
def test_nonsense_is_refused_with_its_place(given: str, said: str) -> None:
    with pytest.raises(ConfigErrors) as refused:
        policy(given)
    assert said in str(refused.value)
