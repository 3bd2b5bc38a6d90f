"""Strategies together: their order, what they share, and that a plan holds at every step of the way."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.strategies import discover
from tests.support.builders import Row, cluster, deployment, node, pod
from tests.support.examples import examples
from tests.support.generated import clusters
from tests.support.planning import (
    BALANCING,
    MAINTENANCE,
    OPTIMIZATION,
    PolicyOptions,
    carried_out,
    moves_of,
    planned,
    policy_of,
)
from tests.support.steps import check_budgets, walk

A, B, C, H = node("a", maintenance=True), node("b"), node("c"), node("h")
ALL: PolicyOptions = {"allow": ["jobs", "single_replica"], "cpu": 60, "memory": 60, "imbalance": 10, "min_pod_age": 0}


def test_what_must_be_done_comes_before_what_would_be_nice() -> None:
    assert [*discover()] == [
        MAINTENANCE,
        *("FailedPods", "NodeAffinity", "NodeTaints", "PodAntiAffinity", "TooManyRestarts", "PodLifeTime", "MakeRoom"),
        OPTIMIZATION,
        *("TopologySpread", "Topology", "RemoveDuplicates"),
        BALANCING,
        "Consolidation",
    ]


@pytest.mark.parametrize("order", [(BALANCING, MAINTENANCE, OPTIMIZATION), (OPTIMIZATION, BALANCING, MAINTENANCE)])
def test_the_order_in_which_strategies_are_named_does_not_matter(order: tuple[str, ...]) -> None:
    rows = [pod("p", on="a", cpu=1), *(pod(f"h{n}", on="h", cpu="600m") for n in range(6))]
    snapshot = cluster(A, B, C, H, rows)
    plan = planned(snapshot, *order)
    assert plan == planned(snapshot, MAINTENANCE, OPTIMIZATION, BALANCING)
    ran = [move.strategy for move in plan.moves]
    assert ran == sorted(ran, key=[*discover()].index)
    assert set(ran) >= {MAINTENANCE, OPTIMIZATION}


def test_a_pod_that_one_strategy_moved_is_left_by_the_others() -> None:
    rows = [pod("p", on="a", cpu=3), pod("q", on="a", cpu="900m")]
    plan = planned(cluster(A, B, C, rows))
    assert len({move.pod for move in plan.moves}) == len(plan.moves)


def test_what_one_strategy_could_not_do_is_not_held_against_a_pod_that_another_moves() -> None:
    """ResourceOptimization finds no node under 40 per cent for it; LoadBalancing doesn't ask; nobody says both."""
    plan = planned(cluster(H, B, C, [pod(f"h{n}", on="h", cpu=1) for n in range(4)]), cpu=50)
    assert not {move.pod for move in plan.moves} & {rejection.pod for rejection in plan.rejections}


def test_each_move_is_its_own_proposal_and_they_are_numbered() -> None:
    plan = planned(cluster(A, B, [pod(f"p{n}", on="a") for n in range(3)]), MAINTENANCE)
    assert [move.proposal for move in plan.moves] == [0, 1, 2]


def test_an_empty_cluster_gives_an_empty_plan() -> None:
    plan = planned(cluster())
    assert (plan.moves, plan.rejections, plan.before.loads) == ((), (), ())


@pytest.mark.parametrize("name", [*discover()])
def test_a_pod_on_a_node_that_is_not_there_disturbs_nobody(name: str) -> None:
    snapshot = cluster(A, B, pod("p", on="gone", cpu=3), allow_unknown_nodes=True)
    assert planned(snapshot, name).moves == ()


def test_load_balancing_does_not_undo_what_resource_optimization_did() -> None:
    rows: list[Row] = [
        node("n0", cpu=2, memory="4Gi"),
        node("n1", cpu=2, memory="4Gi"),
        node("n2", cpu=8, memory="8Gi"),
        node("n3", cpu=4, memory="8Gi"),
        pod("p2", on="n0", cpu="250m", memory="4Gi"),
        pod("p0", on="n1", cpu=2, memory="128Mi"),
    ]
    snapshot = cluster(rows)
    plan = planned(snapshot)
    assert {"p0", "p2"} == {move.pod for move in plan.moves if move.strategy == OPTIMIZATION}
    assert moves_of(planned(carried_out(snapshot, plan))) == {}


@given(clusters(min_pods=4), st.sampled_from([(), *((name,) for name in discover())]), st.booleans())
@settings(max_examples=examples(few=30, many=300))
def test_every_plan_is_feasible_step_by_step(
    snapshot: ClusterSnapshot, strategies: tuple[str, ...], evict: bool
) -> None:
    options: PolicyOptions = {**ALL, "method": "evict" if evict else "auto"}
    plan = planned(snapshot, *strategies, **options)
    walk(snapshot, plan)
    assert len({(move.namespace, move.pod) for move in plan.moves}) == len(plan.moves)
    assert all(move.source != move.target for move in plan.moves)


@given(clusters(min_pods=4))
@settings(max_examples=examples(few=15, many=150))
def test_disruption_budgets_and_limits_hold_in_every_plan(snapshot: ClusterSnapshot) -> None:
    limits: PolicyOptions = {**ALL, "max_moves": 5, "per_node_in": 2, "per_node_out": 2, "per_workload": 2}
    check_budgets(snapshot, planned(snapshot, **limits), policy_of(limits).limits)


def test_a_rollout_is_one_workload() -> None:
    """Two ReplicaSets of one Deployment share its limit."""
    old = deployment("web", on=["a"], template_hash="old")
    new = [row for row in deployment("web", on=["a"], template_hash="new") if getattr(row, "kind", "") != "Deployment"]
    assert len(planned(cluster(A, B, old, new), MAINTENANCE, per_workload=1).moves) == 1
