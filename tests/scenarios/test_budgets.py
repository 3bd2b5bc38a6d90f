"""Budgets: how many pods one plan may move, in all and by node, namespace and workload, and how that is said."""

from __future__ import annotations

import pytest

from rescheduler.model.snapshot import ClusterSnapshot
from tests.support.builders import cluster, deployment, node, pod
from tests.support.planning import (
    BALANCING,
    MAINTENANCE,
    OPTIMIZATION,
    PolicyOptions,
    moves_of,
    planned,
    rejected,
    rejection_of,
)

A, B, C = node("a", maintenance=True), node("b"), node("c")
PLAIN = cluster(A, B, C, [pod(f"p{n}", on="a") for n in range(4)])
APPS = cluster(A, B, deployment("api", on=["a"] * 2), deployment("web", on=["a"] * 2))
SPACES = cluster(A, B, [pod(f"p{n}", on="a", namespace=("red", "blue")[n % 2]) for n in range(4)])
TWO = cluster(A, node("c", maintenance=True), B, [pod(f"p{n}", on=("a", "c")[n % 2]) for n in range(4)])

LIMITED: list[tuple[str, ClusterSnapshot, PolicyOptions, int, str, str]] = [
    (
        "all",
        PLAIN,
        {"max_moves": 3},
        3,
        "MaxReschedulePods",
        "maxReschedulePods (3) is reached",
    ),
    ("none at all", PLAIN, {"max_moves": 0}, 0, "MaxReschedulePods", "maxReschedulePods (0) is reached"),
    ("out of a node", PLAIN, {"per_node_out": 1}, 1, "NodeOutLimit", "limits.perNodeOut (1) is reached for its node"),
    ("out of each of two", TWO, {"per_node_out": 1}, 2, "NodeOutLimit", "limits.perNodeOut (1)"),
    ("a namespace", SPACES, {"per_namespace": 1}, 2, "NamespaceLimit", "limits.perNamespace (1) is reached for "),
    ("a workload", APPS, {"per_workload": 1}, 2, "WorkloadLimit", "limits.perWorkload (1) is reached for "),
    ("a pod of nobody is its own workload", PLAIN, {"per_workload": 1}, 4, "", ""),
    ("just enough in all", PLAIN, {"max_moves": 4}, 4, "", ""),
    ("just enough out", PLAIN, {"per_node_out": 4}, 4, "", ""),
    ("just enough in", PLAIN, {"per_node_in": 2}, 4, "", ""),
    ("just enough of a namespace", SPACES, {"per_namespace": 2}, 4, "", ""),
    ("just enough of a workload", APPS, {"per_workload": 2}, 4, "", ""),
    (
        "the narrowest of several",
        APPS,
        {"max_moves": 4, "per_workload": 2, "per_node_out": 3},
        3,
        "NodeOutLimit",
        "(3)",
    ),
]


@pytest.mark.parametrize(
    ("snapshot", "options", "moves", "guard", "words"), [pytest.param(*row[1:], id=row[0]) for row in LIMITED]
)
def test_a_limit_lets_so_many_go_and_names_itself_to_the_others(
    snapshot: ClusterSnapshot, options: PolicyOptions, moves: int, guard: str, words: str
) -> None:
    plan = planned(snapshot, MAINTENANCE, **options)
    assert len(plan.moves) == moves
    assert len(plan.rejections) == 4 - moves
    for rejection in plan.rejections:
        assert rejection.guard == guard
        assert words in rejection.reason


def test_a_node_that_took_its_share_is_passed_over() -> None:
    """Without the limit b, which is nearly empty, would take both."""
    snapshot = cluster(
        A, node("b", cpu=64), C, [pod(f"p{n}", on="a", cpu=1) for n in range(2)], pod("q", on="c", cpu=2)
    )
    assert moves_of(planned(snapshot, MAINTENANCE)) == {"p0": "b", "p1": "b"}
    plan = planned(snapshot, MAINTENANCE, per_node_in=1)
    assert moves_of(plan) == {"p0": "b", "p1": "c"}


def test_when_every_node_took_its_share_the_limit_is_named() -> None:
    plan = planned(cluster(A, B, pod("p0", on="a"), pod("p1", on="a")), MAINTENANCE, per_node_in=1)
    assert moves_of(plan) == {"p0": "b"}
    assert "perNodeIn (1)" in rejection_of(plan, "p1").reason


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        pytest.param(MAINTENANCE, {}, id=MAINTENANCE),
        pytest.param(OPTIMIZATION, {"cpu": 40}, id=OPTIMIZATION),
        pytest.param(BALANCING, {}, id=BALANCING),
    ],
)
def test_a_strategy_that_the_limit_stops_says_so(strategy: str, options: PolicyOptions) -> None:
    """One move is not enough: without a report the plan looks as if all were well."""
    source = node("a", maintenance=strategy == MAINTENANCE)
    snapshot = cluster(source, B, C, [pod(f"p{n}", on="a", cpu="600m") for n in range(6)])
    assert len(planned(snapshot, strategy, **options).moves) > 1
    limited: PolicyOptions = {**options, "max_moves": 1}
    plan = planned(snapshot, strategy, **limited)
    assert len(plan.moves) == 1
    assert "MaxReschedulePods" in rejected(plan).values()


def test_a_limit_that_is_just_enough_is_not_reported() -> None:
    snapshot = cluster(node("a"), B, pod("p0", on="a", cpu=2), pod("p1", on="a", cpu="1500m"))
    plan = planned(snapshot, OPTIMIZATION, max_moves=1)
    assert (len(plan.moves), plan.rejections) == (1, ())


def test_strategies_share_the_limit_in_their_order() -> None:
    hot = [pod(f"hot{n}", on="h", cpu=1) for n in range(4)]
    snapshot = cluster(A, node("h"), B, C, pod("p0", on="a"), pod("p1", on="a"), hot)
    plan = planned(snapshot, OPTIMIZATION, MAINTENANCE, max_moves=3, cpu=50)
    assert [move.strategy for move in plan.moves] == [MAINTENANCE, MAINTENANCE, OPTIMIZATION]
    assert len(planned(snapshot, OPTIMIZATION, MAINTENANCE, max_moves=4, cpu=50).moves) == 4


def test_what_is_rejected_spends_no_limit() -> None:
    rows = [pod("big", on="a", cpu="3900m"), pod("small", on="a"), pod("busy", on="b", cpu=1)]
    plan = planned(cluster(A, B, rows), MAINTENANCE, max_moves=1, per_node_out=1, per_node_in=1, per_namespace=1)
    assert moves_of(plan) == {"small": "b"}
    assert rejected(plan) == {"big": "NoTarget"}


def test_a_guard_is_named_before_a_limit() -> None:
    plan = planned(cluster(A, B, pod("p0", on="a"), pod("p1", on="a", deleting=True)), MAINTENANCE, max_moves=1)
    assert rejected(plan) == {"p1": "Deleting"}


def test_a_pod_is_moved_at_most_once_a_plan() -> None:
    """After the maintenance b is over its threshold; what just came there doesn't go on to c."""
    snapshot = cluster(A, B, node("c", taints=["x:NoSchedule"]), pod("p", on="a", cpu="3500m"))
    plan = planned(snapshot)
    assert moves_of(plan) == {"p": "b"}
    assert len(plan.moves) == 1
