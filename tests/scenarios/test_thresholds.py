"""Thresholds: of every resource, absolute or from the mean, and for how long a node must have been hot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rescheduler.config.errors import ConfigErrors
from rescheduler.model.policy import Policy, ThresholdMode, Thresholds
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.planner import Planner
from rescheduler.planning.thresholds import HotStreaks
from tests.support.builders import Row, cluster, node, pod
from tests.support.generated import random_cluster
from tests.support.planning import carry_out, moves_of, threshold_fields
from tests.support.policies import plan_by, policy

OPTIMIZATION = "enabledStrategies: [ResourceOptimization]\n"
BALANCING = "enabledStrategies: [LoadBalancing]\n"
GPU = "example.com/gpu"


def gpu_node(name: str, gpus: int = 8, **labels: str) -> Row:
    return node(name, cpu=64, memory="64Gi", resources={GPU: gpus}, labels=labels)


def gpu_pods(place: str, *gpus: int) -> Iterable[Row]:
    return [pod(f"{place}{n}", on=place, cpu="1", resources={GPU: count}) for n, count in enumerate(gpus)]


class TestOtherResources:
    def test_a_node_over_the_threshold_of_an_extended_resource_is_hot(self) -> None:
        snapshot = cluster(gpu_node("a"), gpu_node("b"), gpu_pods("a", 2, 2, 2, 2))
        plan = plan_by(snapshot, OPTIMIZATION + f"thresholds: {{{GPU}: 75}}")
        assert len(plan.moves) == 1
        assert f"100.0% {GPU} (threshold 75%)" in plan.moves[0].reason
        assert (plan.before.hot_nodes, plan.after.hot_nodes) == (1, 0)

    def test_without_a_threshold_of_its_own_a_resource_makes_no_node_hot(self) -> None:
        snapshot = cluster(gpu_node("a"), gpu_node("b"), gpu_pods("a", 2, 2, 2, 2))
        assert plan_by(snapshot, OPTIMIZATION).moves == ()

    def test_a_node_with_too_many_pods_is_hot_where_the_pod_count_has_a_threshold(self) -> None:
        rows = [pod(f"p{n}", on="a", cpu="10m") for n in range(10)]
        plan = plan_by(cluster(node("a", pods=10), node("b", pods=10), rows), OPTIMIZATION + "thresholds: {pods: 70}")
        assert len(plan.moves) == 3
        assert [load.pods for load in plan.after.loads] == [7, 3]

    def test_no_move_by_choice_fills_a_node_beyond_the_threshold_of_any_resource(self) -> None:
        full = gpu_pods("b", 4)
        snapshot = cluster(gpu_node("a"), gpu_node("b"), gpu_pods("a", 4, 4), full)
        plan = plan_by(snapshot, OPTIMIZATION + f"thresholds: {{{GPU}: 75}}")
        assert plan.moves == ()
        assert "over a threshold afterwards" in plan.rejections[0].reason

    def test_balancing_evens_out_what_has_a_threshold_among_the_nodes_that_have_it(self) -> None:
        plain = [node(f"n{n}", cpu=64, memory="64Gi") for n in range(3)]
        snapshot = cluster(gpu_node("a"), gpu_node("b"), plain, gpu_pods("a", 2, 2, 2))
        plan = plan_by(snapshot, BALANCING + f"thresholds: {{{GPU}: 100}}\nimbalanceThreshold: 30")
        assert set(moves_of(plan).values()) == {"b"}
        assert len(plan.moves) == 1
        assert GPU in plan.moves[0].reason
        assert plan_by(carry_out(snapshot, plan), BALANCING + f"thresholds: {{{GPU}: 100}}").moves == ()

    def test_a_resource_that_no_node_has_does_no_harm(self) -> None:
        snapshot = cluster(node("a"), node("b"), pod("p", on="a", cpu="3900m"), pod("q", on="a", cpu="100m"))
        plan = plan_by(snapshot, OPTIMIZATION + "thresholds: {example.com/none: 50}")
        assert structs.replace(plan, warnings=()) == plan_by(snapshot, OPTIMIZATION)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (f"thresholds: {{pods: 90, {GPU}: 90}}", ()),
            (f"thresholds: {{{GPU}s: 90}}", (f"thresholds names {GPU}s, which no node has, did you mean {GPU}?",)),
            ("thresholds: {pod: 90}", ("thresholds names pod, which no node has, did you mean pods?",)),
            ("thresholds: {disk: 90}", ("thresholds names disk, which no node has: it is ignored",)),
            (
                "thresholds: {disk: 90}\npools: [{name: p, nodeSelector: p=1, thresholds: {disk: 80, tape: 70}}]",
                (
                    "thresholds names disk, which no node has: it is ignored",
                    "thresholds of pool p names tape, which no node has: it is ignored",
                ),
            ),
        ],
    )
    def test_a_name_that_no_node_has_is_told_once_with_the_one_that_was_meant(
        self, given: str, said: tuple[str, ...]
    ) -> None:
        assert plan_by(cluster(gpu_node("a")), "enabledStrategies: [Consolidation]\n" + given).warnings == said

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("thresholds: {cpu: 50}", "give cpuThreshold instead"),
            ("thresholds: {memory: 50}", "give memoryThreshold instead"),
            ('thresholds: {"foo bar": 50}', 'thresholds: "foo bar" is not the name of a resource, such as pods or'),
            ('thresholds: {"": 50}', "thresholds: a resource has no name"),
            (
                'pools: [{name: p, nodeSelector: p=1, thresholds: {"a b": 5}}]',
                'pools[0].thresholds: "a b" is not the name of a',
            ),
            ('thresholds: {"/gpu": 50}', 'thresholds: "/gpu" is not the name of a resource'),
            ('thresholds: {"a..b/c": 50}', 'thresholds: "a..b/c" is not the name of a resource'),
            ('thresholds: {"a/b/c": 50}', 'thresholds: "a/b/c" is not the name of a resource'),
            ("thresholds: {pods: 0}", "thresholds.pods: 0 is not above 0"),
            ("thresholds: {pods: lots}", "thresholds.pods"),
            ("thresholds: [pods]", "thresholds: "),
            ("thresholdMode: relative", 'thresholdMode: "relative" is not one of absolute, deviation'),
            ("hotAfterCycles: 0", "hotAfterCycles: 0 is not between 1 and 1000"),
            ("utilization: measured", 'utilization: "measured" is not one of requests, usage, max'),
            ("podGroupLabels: [-x]", 'podGroupLabels[0]: "-x" is not the name of a label'),
        ],
    )
    def test_nonsense_is_refused_with_its_place(self, given: str, said: str) -> None:
        with pytest.raises(ConfigErrors) as refused:
            policy(given)
        assert said in str(refused.value)


class TestDeviation:
    CONFIG = OPTIMIZATION + "thresholdMode: deviation\ncpuThreshold: 20\nmemoryThreshold: 50\n"

    def rows(self, *cpu: str) -> list[Row]:
        return [pod(f"p{n}", on="a", cpu=amount) for n, amount in enumerate(cpu)]

    def test_a_node_is_hot_that_is_further_above_the_mean_than_the_threshold(self) -> None:
        nodes = [node(name, cpu=10) for name in "abcd"]
        plan = plan_by(cluster(nodes, self.rows("1", "1", "1", "1")), self.CONFIG)  # 40% here, 10% on the mean
        assert len(plan.moves) == 1
        assert "(threshold 30%)" in plan.moves[0].reason

    def test_a_cluster_that_is_evenly_full_has_no_hot_node(self) -> None:
        nodes = [node(name, cpu=10) for name in "ab"]
        rows = [pod(f"{place}{n}", on=place, cpu="950m") for place in "ab" for n in range(10)]
        assert plan_by(cluster(nodes, rows), self.CONFIG).moves == ()

    def test_the_mean_is_that_before_any_move_so_that_the_plan_settles(self) -> None:
        nodes = [node(name, cpu=10) for name in "abc"]
        snapshot = cluster(nodes, self.rows(*["500m"] * 12))
        plan = plan_by(snapshot, self.CONFIG)
        assert plan.moves
        assert plan_by(carry_out(snapshot, plan), self.CONFIG).moves == ()

    def test_the_mean_stays_when_a_pod_goes_from_a_small_node_to_a_large_one(self) -> None:
        snapshot = cluster(node("a", cpu=4), node("b", cpu=16), self.rows("1", "1", "1"))
        plan = plan_by(snapshot, self.CONFIG)  # 3 of 20 CPUs are 15%; the mean of 75% and 0% would be 37.5%
        assert "(threshold 35%)" in plan.moves[0].reason
        after = carry_out(snapshot, plan)
        wanted = policy(self.CONFIG)
        assert (Planner(after, wanted).levels.percent == Planner(snapshot, wanted).levels.percent).all()
        assert plan_by(after, self.CONFIG).moves == ()

    @given(st.integers(0, 60), st.floats(1, 60))
    def test_limits_never_exceed_what_a_node_has(self, seed: int, deviation: float) -> None:
        wanted = Thresholds(deviation, deviation, (("pods", deviation),), ThresholdMode.DEVIATION)
        planner = Planner(random_cluster(seed, 6, 30), Policy(**threshold_fields(wanted)))
        assert (planner.levels.limit <= planner.load.capacity).all()
        assert np.isfinite(planner.levels.percent).all()


class TestHotForAWhile:
    CONFIG = OPTIMIZATION + "hotAfterCycles: 3\n"

    def snapshot(self) -> ClusterSnapshot:
        return cluster(node("a"), node("b"), [pod(f"p{n}", on="a", cpu="900m") for n in range(4)])

    def test_a_node_is_left_alone_until_it_was_hot_for_as_many_cycles(self) -> None:
        streaks, found = HotStreaks(), []
        for _ in range(4):
            plan = plan_by(streaks.with_streaks(self.snapshot()), self.CONFIG)
            found.append(len(plan.moves))
            streaks.count(["a"])
        assert found == [0, 0, 1, 1]

    def test_a_cycle_in_which_it_was_not_hot_begins_the_count_anew(self) -> None:
        streaks = HotStreaks()
        for hot in (["a"], ["a"], ["b"], ["a"]):
            streaks.count(hot)
        assert plan_by(streaks.with_streaks(self.snapshot()), self.CONFIG).moves == ()

    def test_one_plan_by_itself_has_no_cycles_before_it_and_waits_for_none(self) -> None:
        assert len(plan_by(self.snapshot(), self.CONFIG).moves) == 1

    def test_a_hot_node_takes_no_pods_however_short_it_has_been_so(self) -> None:
        rows: list[Row] = [node("a"), node("b"), node("m", maintenance=True), pod("m0", on="m", cpu="100m")]
        rows += [pod(f"p{n}", on="a", cpu="900m") for n in range(4)]
        snapshot = replace(cluster(rows), hot_for={})
        plan = plan_by(snapshot, "enabledStrategies: [NodeMaintenance, ResourceOptimization]\nhotAfterCycles: 9")
        assert moves_of(plan) == {"m0": "b"}
