"""Planning by measured use: what counts, and what falls back to requests and says so."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.app.planning import make_plan
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy, Utilization
from rescheduler.model.snapshot import ClusterSnapshot, MeasuredUsage
from rescheduler.planning.gain import RealisedGains
from rescheduler.planning.planner import Planner
from tests.support.builders import cluster, deployment, node, pod
from tests.support.examples import examples
from tests.support.generated import clusters
from tests.support.planning import carry_out, moves_of
from tests.support.pod_migrations import replace
from tests.support.policies import plan_by, policy

OPTIMIZATION = "enabledStrategies: [ResourceOptimization]\n"
BALANCING = "enabledStrategies: [LoadBalancing]\n"
USAGE, MAX = "utilization: usage\n", "utilization: max\n"


def measured(
    snapshot: ClusterSnapshot, pods: Mapping[str, int], nodes: Mapping[str, int] | None = None
) -> ClusterSnapshot:
    """The snapshot with CPU (thousandths) measured of these pods and nodes; of all nodes, if none are given."""
    found = dict.fromkeys((each.name for each in snapshot.nodes), 0) if nodes is None else dict(nodes)
    return replace(
        snapshot,
        measured=MeasuredUsage(
            nodes={name: (("cpu", cpu), ("memory", 0)) for name, cpu in found.items()},
            pods={("default", name): (("cpu", cpu), ("memory", 0)) for name, cpu in pods.items()},
        ),
    )


def idle_but_asking() -> ClusterSnapshot:
    """Node a is full by requests and idle by use; node b the other way round."""
    rows = [pod(f"a{n}", on="a", cpu=1) for n in range(4)] + [pod(f"b{n}", on="b", cpu="100m") for n in range(4)]
    return cluster(node("a"), node("b"), node("c"), rows)


USE = {**{f"a{n}": 50 for n in range(4)}, **{f"b{n}": 950 for n in range(4)}}


class TestWhatCounts:
    def test_by_requests_the_node_is_hot_that_is_asked_for(self) -> None:
        plan = plan_by(measured(idle_but_asking(), USE), OPTIMIZATION)
        assert {move.source for move in plan.moves} == {"a"}
        assert plan.warnings == ()

    def test_by_usage_the_node_is_hot_that_is_used(self) -> None:
        plan = plan_by(measured(idle_but_asking(), USE), OPTIMIZATION + USAGE)
        assert {move.source for move in plan.moves} == {"b"}
        assert plan.before.loads[1].cpu == 95.0
        assert plan.warnings == ()

    def test_by_the_larger_both_are(self) -> None:
        plan = plan_by(measured(idle_but_asking(), USE), OPTIMIZATION + MAX)
        assert {move.source for move in plan.moves} == {"a", "b"}

    def test_balancing_evens_out_use(self) -> None:
        snapshot = measured(idle_but_asking(), USE)
        plan = plan_by(snapshot, BALANCING + USAGE)
        assert {move.source for move in plan.moves} == {"b"}
        assert plan.after.cpu.max - plan.after.cpu.min < plan.before.cpu.max - plan.before.cpu.min
        assert plan_by(carry_out(snapshot, plan), BALANCING + USAGE).moves == ()

    def test_what_a_node_uses_besides_its_pods_stays_with_it(self) -> None:
        rows = [pod(f"a{n}", on="a", cpu="100m") for n in range(4)]
        snapshot = measured(cluster(node("a"), node("b"), rows), {f"a{n}": 100 for n in range(4)}, {"a": 3600, "b": 0})
        plan = plan_by(snapshot, OPTIMIZATION + USAGE)
        assert plan.before.loads[0].cpu == 90.0
        assert len(plan.moves) == 4
        assert plan.after.loads[0].cpu == 80.0
        assert plan.after.loads[1].cpu == 10.0

    def test_a_pod_goes_only_where_its_requests_fit_however_little_is_used_there(self) -> None:
        rows = [pod(f"a{n}", on="a", cpu=1) for n in range(4)] + [pod(f"b{n}", on="b", cpu=1) for n in range(4)]
        snapshot = measured(cluster(node("a"), node("b"), rows), {f"a{n}": 1000 for n in range(4)})
        plan = plan_by(snapshot, OPTIMIZATION + USAGE)
        assert plan.moves == ()
        assert "NodeResourcesFit" in plan.rejections[0].reason

    def test_a_target_stays_under_its_threshold_by_use(self) -> None:
        rows = [pod(f"a{n}", on="a", cpu="100m") for n in range(4)] + [pod("b0", on="b", cpu="100m")]
        snapshot = measured(cluster(node("a"), node("b"), rows), {**{f"a{n}": 900 for n in range(4)}, "b0": 3000})
        assert plan_by(snapshot, OPTIMIZATION + USAGE).moves == ()

    def test_of_other_resources_requests_count(self) -> None:
        gpu = "example.com/gpu"
        rows = [pod(f"a{n}", on="a", cpu="100m", resources={gpu: 1}) for n in range(4)]
        nodes = [node(name, resources={gpu: 4}) for name in "ab"]
        snapshot = measured(cluster(nodes, rows), {f"a{n}": 1 for n in range(4)})
        plan = plan_by(snapshot, OPTIMIZATION + USAGE + f"thresholds: {{{gpu}: 75}}")
        assert len(plan.moves) == 1


class TestFallingBack:
    def test_where_nothing_was_measured_requests_count_and_the_plan_says_so(self) -> None:
        plan = plan_by(idle_but_asking(), OPTIMIZATION + USAGE)
        assert plan.moves == plan_by(idle_but_asking(), OPTIMIZATION).moves
        assert "utilization is usage, but nothing was measured: requests count instead" in plan.warnings

    def test_a_pod_that_was_not_measured_counts_by_its_requests(self) -> None:
        plan = plan_by(measured(idle_but_asking(), {k: v for k, v in USE.items() if k != "a0"}), OPTIMIZATION + USAGE)
        assert plan.before.loads[0].cpu == pytest.approx((1000 + 150) / 40)

    def test_a_pod_without_a_history_counts_by_its_workload(self) -> None:
        rows = deployment("web", on=["a", "a", "b"], cpu="100m")
        snapshot = cluster(node("a"), node("b"), rows)
        found = MeasuredUsage(
            nodes={"a": (("cpu", 0),), "b": (("cpu", 0),)},
            workloads={("Deployment", "default", "web"): (("cpu", 700), ("memory", 1))},
        )
        plan = plan_by(replace(snapshot, measured=found), OPTIMIZATION + USAGE)
        assert [load.cpu for load in plan.before.loads] == [35.0, 17.5]
        assert plan.warnings == ()

    def test_what_is_not_measured_of_a_pod_yet_counts_by_its_workload_too(self) -> None:
        """A Prometheus knows the memory of a new pod before its CPU, which takes two scrapes."""
        snapshot = cluster(node("a"), node("b"), deployment("web", on=["a", "b"], cpu="100m"))
        found = MeasuredUsage(
            nodes={"a": (("cpu", 0),), "b": (("cpu", 0),)},
            pods={("default", snapshot.pods[0].name): (("memory", 2**32),)},
            workloads={("Deployment", "default", "web"): (("cpu", 700), ("memory", 2**31))},
        )
        plan = plan_by(replace(snapshot, measured=found), OPTIMIZATION + USAGE)
        assert [(load.cpu, load.memory) for load in plan.before.loads] == [(17.5, 50.0), (17.5, 25.0)]

    def test_a_node_that_was_not_measured_counts_by_its_pods(self) -> None:
        plan = plan_by(measured(idle_but_asking(), USE, {"a": 0, "b": 0}), OPTIMIZATION + USAGE)
        assert plan.before.loads[2].cpu == 0.0

    def test_a_single_resource_that_is_missing_falls_back_alone(self) -> None:
        snapshot = cluster(node("a"), pod("p", on="a", cpu=1, memory="4Gi"))
        found = MeasuredUsage(nodes={"a": ()}, pods={("default", "p"): (("cpu", 2000),)})
        plan = plan_by(replace(snapshot, measured=found), OPTIMIZATION + USAGE)
        assert (plan.before.loads[0].cpu, plan.before.loads[0].memory) == (50.0, 50.0)

    def test_what_the_source_says_of_itself_stands_in_the_plan(self) -> None:
        told = MeasuredUsage(
            nodes=dict.fromkeys("abc", ()), pods={("default", p): () for p in USE}, warnings=("stale: 3",)
        )
        assert "stale: 3" in plan_by(replace(idle_but_asking(), measured=told), OPTIMIZATION + USAGE).warnings


def with_use(snapshot: ClusterSnapshot, uses: list[int]) -> ClusterSnapshot:
    pods = {
        (each.namespace, each.name): (("cpu", uses[n % len(uses)]), ("memory", uses[-1 - n % len(uses)] * 2**20))
        for n, each in enumerate(snapshot.pods)
        if n % 5
    }
    return replace(snapshot, measured=MeasuredUsage(pods=pods))


def plan_of(snapshot: ClusterSnapshot, utilization: Utilization) -> tuple[Planner, Plan]:
    wanted = policy(
        f"enabledStrategies: [ResourceOptimization, LoadBalancing]\nutilization: {utilization}\ncpuThreshold: 60\n"
        "memoryThreshold: 60\nimbalanceThreshold: 10\nminPodAge: 0s"
    )
    return make_plan(snapshot, wanted)


@given(clusters(min_pods=4), st.lists(st.integers(0, 4000), min_size=1, max_size=9), st.sampled_from([*Utilization]))
@settings(max_examples=examples(few=15, many=150))
def test_what_follows_the_moves_one_by_one_is_what_the_end_amounts_to(
    snapshot: ClusterSnapshot, uses: list[int], utilization: Utilization
) -> None:
    """The sums that are kept up to date equal those that are made anew of where pods ended."""
    used = with_use(snapshot, uses)
    planner, plan = plan_of(used, utilization)
    again = Planner(carry_out(used, plan), planner.policy)
    assert (again.load.used == planner.load.used).all()


@given(clusters(min_pods=4), st.lists(st.integers(0, 4000), min_size=1, max_size=9))
@settings(max_examples=examples(few=10, many=100))
def test_a_gain_that_is_predicted_by_use_comes_true_by_use(snapshot: ClusterSnapshot, uses: list[int]) -> None:
    used = with_use(snapshot, uses)
    planner, plan = plan_of(used, Utilization.USAGE)
    if len(plan.moves) != 1:
        return
    (move,) = plan.moves
    then = carry_out(used, plan)
    moved = next(each for each in then.pods if (each.namespace, each.name) == (move.namespace, move.pod))
    realised = RealisedGains(then, planner.policy, {move.source, move.target}).gain(moved, move.source)
    assert realised == pytest.approx(move.gain, abs=0.011)


def test_the_policy_of_requests_is_the_default() -> None:
    assert Policy().utilization is Utilization.REQUESTS
    assert moves_of(plan_by(idle_but_asking(), OPTIMIZATION)) == moves_of(
        plan_by(idle_but_asking(), OPTIMIZATION + "utilization: requests")
    )
