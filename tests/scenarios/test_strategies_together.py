"""Strategies together: their order, what they share, and that a plan holds at every step of the way."""

from __future__ import annotations

import pytest

from rescheduler.strategies import discover
from tests.support.builders import Row, cluster, deployment, node, pod
from tests.support.planning import (
    BALANCING,
    MAINTENANCE,
    OPTIMIZATION,
    carry_out,
    moves_of,
    planned,
)

A, B, C, H = node("a", maintenance=True), node("b"), node("c"), node("h")


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
    assert moves_of(planned(carry_out(snapshot, plan))) == {}


def test_a_rollout_is_one_workload() -> None:
    """Two ReplicaSets of one Deployment share its limit."""
    old = deployment("web", on=["a"], template_hash="old")
    new = [row for row in deployment("web", on=["a"], template_hash="new") if getattr(row, "kind", "") != "Deployment"]
    assert len(planned(cluster(A, B, old, new), MAINTENANCE, per_workload=1).moves) == 1
