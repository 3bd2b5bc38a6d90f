"""NodeMaintenance: all that can move leaves, the rest says what keeps it, and nothing comes."""

from __future__ import annotations

import pytest

from rescheduler.model.labels import MIGRATION_TIME
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.time import format_instant
from tests.support.builders import (
    PodOptions,
    Row,
    cluster,
    daemonset,
    deployment,
    near,
    node,
    pdb,
    pod,
    spread,
    statefulset,
)
from tests.support.builders.rows import NOW
from tests.support.planning import MAINTENANCE, carry_out, moves_of, planned, rejected, rejection_of

A, B, C = node("a", maintenance=True), node("b"), node("c")


def test_everything_that_can_move_leaves_and_the_rest_says_what_keeps_it() -> None:
    rows: list[Row] = [
        *deployment("web", on=["a", "a", "b"]),
        pod("lonely", on="a"),
        *daemonset("agent", on=["a", "b"]),
        *statefulset("db", on=["a"]),
        *statefulset("kept", on=["a", "b"]),
        pdb("kept", allowed=0),
        pod("huge", on="a", cpu=64),
    ]
    plan = planned(cluster(A, B, C, rows), MAINTENANCE)
    assert {move.source for move in plan.moves} == {"a"}
    assert len(plan.moves) == 3
    guards = {"agent-0": "DaemonSet", "db-0": "SingleReplica", "kept-0": "DisruptionBudget", "huge": "NoTarget"}
    assert rejected(plan) == guards
    assert {rejection.strategy for rejection in plan.rejections} == {MAINTENANCE}
    assert {rejection.node for rejection in plan.rejections} == {"a"}
    assert rejection_of(plan, "huge").reason == "0/2 other nodes: 2 NodeResourcesFit"


@pytest.mark.parametrize(
    ("label", "leaves"), [("true", True), ("false", False), ("True", False), ("", False), (None, False)]
)
def test_only_the_label_true_means_maintenance(label: str | None, leaves: bool) -> None:
    labels = {} if label is None else {"scheduler.alpha.kubernetes.io/maintenance": label}
    plan = planned(cluster(node("a", labels=labels), B, pod("p", on="a")), MAINTENANCE)
    assert bool(plan.moves) is leaves


def test_a_workload_that_was_moved_a_moment_ago_leaves_all_the_same() -> None:
    just_now = {MIGRATION_TIME: format_instant(NOW - 5)}
    plan = planned(cluster(A, B, pod("p", on="a", annotations=just_now)), MAINTENANCE, cool_down=600)
    assert [(move.pod, move.target) for move in plan.moves] == [("p", "b")]


TARGETS = [
    ("the least used node", [pod("x", on="b", cpu=1)], "1", "c"),
    ("by its scarcer resource", [pod("x", on="b", cpu=1), pod("y", on="c", memory="4Gi")], "1", "b"),
    (
        "under the threshold before the emptier",
        [node("s", cpu=2), pod("x", on="b", cpu=1), pod("y", on="c", cpu=2)],
        "1700m",
        "b",
    ),
    ("over the threshold where there is no other", [pod("x", on="b", cpu=2), pod("y", on="c", cpu=1)], "2900m", "c"),
]


@pytest.mark.parametrize(("rows", "cpu", "target"), [pytest.param(*row[1:], id=row[0]) for row in TARGETS])
def test_targets_are_as_the_scheduler_would_choose_them(rows: list[Row], cpu: str, target: str) -> None:
    plan = planned(cluster(A, B, C, rows, pod("p", on="a", cpu=cpu)), MAINTENANCE)
    assert moves_of(plan) == {"p": target}
    assert plan.moves[0].reason.startswith(f"a is under maintenance; {target} is then at ")


def test_low_priority_goes_first_then_the_largest() -> None:
    rows = [
        pod("high", on="a", cpu=1, priority=10),
        pod("small", on="a", cpu="100m"),
        pod("large", on="a", cpu=2),
        pod("wide", on="a", memory="3Gi"),
    ]
    assert [*moves_of(planned(cluster(A, B, C, rows), MAINTENANCE))] == ["large", "wide", "small", "high"]


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(node("a", maintenance=True, cordoned=True), id="cordoned"),
        pytest.param(node("a", maintenance=True, ready=False), id="not ready"),
        pytest.param(node("a", maintenance=True, taints=["down:NoSchedule"]), id="tainted"),
        pytest.param(node("a", maintenance=True, control_plane=True), id="control plane"),
    ],
)
def test_a_node_is_emptied_whatever_else_is_said_of_it(state: Row) -> None:
    assert moves_of(planned(cluster(state, B, pod("p", on="a")), MAINTENANCE)) == {"p": "b"}


def test_two_nodes_are_emptied_and_neither_into_the_other() -> None:
    snapshot = cluster(A, node("d", maintenance=True), B, pod("p", on="a", cpu=2), pod("q", on="d", cpu=1))
    plan = planned(snapshot, MAINTENANCE)
    assert moves_of(plan) == {"p": "b", "q": "b"}


def test_what_came_before_counts_for_what_comes_after() -> None:
    plan = planned(cluster(A, B, [pod(f"p{n}", on="a", cpu="1500m") for n in range(3)]), MAINTENANCE)
    assert moves_of(plan) == {"p0": "b", "p1": "b"}
    assert rejection_of(plan, "p2").reason == "0/1 other nodes: 1 NodeResourcesFit"


def test_pods_are_spread_over_the_nodes_that_take_them() -> None:
    plan = planned(cluster(A, B, C, [pod(f"p{n}", on="a", cpu="500m") for n in range(4)]), MAINTENANCE)
    assert sorted(moves_of(plan).values()) == ["b", "b", "c", "c"]


def test_nothing_is_done_where_there_is_no_maintenance() -> None:
    plan = planned(cluster(B, C, pod("p", on="b", cpu=4)), MAINTENANCE)
    assert (plan.moves, plan.rejections) == ((), ())


WAITING = [
    (
        "one that needs another's company",
        [
            deployment("front", on=["a"], cpu=1, affinity=[near({"app": "db"}, "hostname")]),
            deployment("db", on=["a", "a"], cpu="100m"),
        ],
        3,
    ),
    (
        "one whose spread is mended by another",
        [
            node("z", zone="z1", maintenance=True),
            node("t", zone="z2"),
            node("u", zone="z3", taints=["u:NoSchedule"]),
            pod("first", on="z", cpu=1, labels={"app": "s"}, spread=[spread(1, "zone", {"app": "s"})]),
            pod("then", on="z", labels={"app": "s"}, tolerations=["u"], node_selector={"zone": "z3"}),
            pod("there", on="t", labels={"app": "s"}),
            node("w", zone="z1"),
            pod("stays", on="w", labels={"app": "s"}),
        ],
        2,
    ),
]


@pytest.mark.parametrize(("rows", "moves"), [pytest.param(*row[1:], id=row[0]) for row in WAITING])
def test_what_can_move_once_another_has_gone_moves_in_the_same_plan(rows: list[Row | list[Row]], moves: int) -> None:
    snapshot: ClusterSnapshot = cluster(A, B, C, *rows)
    plan = planned(snapshot, MAINTENANCE)
    again = planned(carry_out(snapshot, plan), MAINTENANCE)
    assert len(plan.moves) + len(again.moves) == moves
    assert again.moves == ()


@pytest.mark.parametrize(
    ("options", "target"),
    [
        pytest.param({}, "b", id="nothing preferred"),
        pytest.param({"preferred_nodes": [(100, "disk=ssd")]}, "y", id="a preference for 20 points of use"),
        pytest.param(
            {"preferred_nodes": [(100, "disk=ssd"), (100, "hostname=b")]}, "b", id="preferences that even out"
        ),
    ],
)
def test_preferences_rank_targets(options: PodOptions, target: str) -> None:
    rows: list[Row] = [
        pod("p", on="a", **options),
        B,
        node("y", labels={"disk": "ssd"}),
        pod("busy", on="y", cpu="600m"),
    ]
    assert moves_of(planned(cluster(A, rows), MAINTENANCE)) == {"p": target}


def test_a_node_that_would_rather_not_is_taken_only_when_the_other_is_much_busier() -> None:
    shy = node("b", taints=["k:PreferNoSchedule"])
    for busy, target in (("100m", "y"), ("1500m", "b")):
        rows: list[Row] = [pod("p", on="a"), shy, node("y"), pod("busy", on="y", cpu=busy)]
        assert moves_of(planned(cluster(A, rows), MAINTENANCE)) == {"p": target}
