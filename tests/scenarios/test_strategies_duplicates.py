"""RemoveDuplicates: a workload's pods are even over the nodes that could run them, and no move is worth undoing."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings

from rescheduler.model.objects import Pod
from rescheduler.model.plan import Plan
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.workloads import Workloads
from tests.support.builders import Row, cluster, daemonset, deployment, job, node, pod, statefulset
from tests.support.examples import examples
from tests.support.generated import clusters
from tests.support.planning import (
    BALANCING,
    MAINTENANCE,
    OPTIMIZATION,
    PolicyOptions,
    carry_out,
    moves_of,
    planned,
    rejected,
)

DUPLICATES = "RemoveDuplicates"
GROUP = {"scheduling.x-k8s.io/pod-group": "g"}
A, B, C = node("a", zone="z1"), node("b", zone="z2"), node("c", zone="z2")


def on_nodes(snapshot: ClusterSnapshot, plan: Plan) -> dict[str, int]:
    """How many pods each node has once the plan is carried out."""
    return dict(sorted(Counter(each.node for each in carry_out(snapshot, plan).pods).items()))


def second(rows: list[Row]) -> list[Row]:
    """The rows of a second ReplicaSet of a Deployment that is there already."""
    return [row for row in rows if getattr(row, "kind", "") != "Deployment"]


def leaving(rows: list[Row]) -> list[Row]:
    """The same, with all pods but the first being deleted."""
    pods = [row for row in rows if isinstance(row, Pod)]
    gone = [msgspec.structs.replace(row, deleting=True) for row in pods[1:]]
    return [*(row for row in rows if not isinstance(row, Pod)), pods[0], *gone]


SPREAD: list[tuple[str, list[Row], dict[str, int]]] = [
    ("two on one of two nodes", [A, B, *deployment("w", on=["a", "a"])], {"a": 1, "b": 1}),
    ("as even as three can be on two", [A, B, *deployment("w", on=["a", "a", "b"])], {"a": 2, "b": 1}),
    ("to two nodes", [A, B, C, *deployment("w", on=["a"] * 5)], {"a": 2, "b": 2, "c": 1}),
    ("from two nodes", [A, B, C, *deployment("w", on=["a"] * 3 + ["b"] * 3)], {"a": 2, "b": 2, "c": 2}),
    ("a StatefulSet", [A, B, *statefulset("w", on=["a", "a"])], {"a": 1, "b": 1}),
    ("a Job that may move", [A, B, *job("w", on=["a", "a"])], {"a": 1, "b": 1}),
    (
        "two ReplicaSets of one Deployment are one workload",
        [A, B, *deployment("w", on=["a"], template_hash="x"), *second(deployment("w", on=["a"], template_hash="y"))],
        {"a": 1, "b": 1},
    ),
    (
        "workloads of one name in two namespaces are two",
        [A, B, *deployment("w", on=["a"]), *deployment("w", on=["a"], namespace="n")],
        {"a": 2},
    ),
    ("a pod group", [A, B, *deployment("w", on=["a", "a"], labels=GROUP)], {"a": 2}),
    ("pods of nobody", [A, B, pod("p", on="a"), pod("q", on="a")], {"a": 2}),
    ("daemons", [A, B, *daemonset("d", on=["a", "a"])], {"a": 2}),
    ("those that leave anyway", [A, B, *leaving(deployment("w", on=["a", "a", "a"]))], {"a": 3}),
    ("one that is wanted counts", [A, B, C, *deployment("w", replicas=4, on=["a", "a", "b"])], {"a": 2, "b": 1}),
    ("a pending one is on no node", [A, B, *deployment("w", on=["a", ""])], {"": 1, "a": 1}),
    (
        "a tainted node could not run them",
        [A, B, node("t", taints=["x:NoSchedule"]), *deployment("w", on=["a"] * 3 + ["b"])],
        {"a": 2, "b": 2},
    ),
    (
        "nor could a closed one, a sick one, or the control plane",
        [
            *(A, B, node("x", cordoned=True), node("y", ready=False), node("z", control_plane=True)),
            *deployment("w", on=["a"] * 3 + ["b"]),
        ],
        {"a": 2, "b": 2},
    ),
    (
        "nor one without the label",
        [node("a", labels={"disk": "ssd"}), B, *deployment("w", on=["a", "a"], node_selector={"disk": "ssd"})],
        {"a": 2},
    ),
    (
        "from a closed node, too",
        [node("a", cordoned=True), B, C, *deployment("w", on=["a", "a"])],
        {"a": 1, "b": 1},
    ),
]


@pytest.mark.parametrize(("rows", "after"), [pytest.param(*row[1:], id=row[0]) for row in SPREAD])
def test_no_node_has_more_than_an_even_share(rows: list[Row], after: dict[str, int]) -> None:
    snapshot = cluster(rows)
    plan = planned(snapshot, DUPLICATES, allow=["jobs"])
    assert on_nodes(snapshot, plan) == after
    assert planned(carry_out(snapshot, plan), DUPLICATES, allow=["jobs"]).moves == ()


def test_pods_go_where_there_are_fewest_and_then_to_the_least_used() -> None:
    rows = [*deployment("w", on=["a", "a", "a", "a", "b"]), pod("p", on="c", cpu=2), node("d")]
    assert [*moves_of(planned(cluster(A, B, C, rows), DUPLICATES)).values()] == ["d", "c"]


def test_a_target_that_is_crowded_too_will_do_if_it_is_less_so() -> None:
    """Nobody fits on c, so what a has too much of goes to b as long as b is then better off than a was."""
    full = node("c", pods=0)
    snapshot = cluster(A, B, full, deployment("w", on=["a"] * 5 + ["b"]))
    plan = planned(snapshot, DUPLICATES)
    assert on_nodes(snapshot, plan) == {"a": 3, "b": 3}
    assert planned(carry_out(snapshot, plan), DUPLICATES).moves == ()


def test_targets_stay_under_the_thresholds() -> None:
    plan = planned(cluster(A, B, deployment("w", on=["a", "a"], cpu=1), pod("p", on="b", cpu=3)), DUPLICATES)
    assert plan.moves == ()
    assert [*rejected(plan).values()] == ["NoTarget"]


def test_where_two_find_no_target_their_like_is_not_asked_for() -> None:
    crowded = deployment("w", on=["a"] * 6 + ["b"] * 6, cpu="100m")
    plan = planned(cluster(A, B, node("c", pods=0), node("d", pods=0), crowded), DUPLICATES)
    assert plan.moves == ()
    assert len(plan.rejections) <= 2


def test_when_the_plan_is_full_it_says_so_once() -> None:
    plan = planned(cluster(A, B, C, deployment("w", on=["a"] * 9)), DUPLICATES, max_moves=2)
    assert len(plan.moves) == 2
    assert [*rejected(plan).values()] == ["MaxReschedulePods"]


def test_workloads_of_low_priority_come_first() -> None:
    rows = [*deployment("high", on=["a", "a"], priority=9), *deployment("low", on=["a", "a"], priority=1)]
    plan = planned(cluster(A, B, rows), DUPLICATES)
    assert [move.priority for move in plan.moves] == [1, 9]


FILTERS: list[tuple[dict[str, object], set[str]]] = [
    ({}, {"Deployment/web", "StatefulSet/db"}),
    ({"excludedOwnerKinds": ["StatefulSet"]}, {"Deployment/web"}),
    ({"ownerKinds": ["Deployment"]}, {"Deployment/web"}),
    ({"namespaces": ["shop"]}, {"StatefulSet/db"}),
]


@pytest.mark.parametrize(("said", "moved"), FILTERS)
def test_only_what_the_settings_mean_is_moved(said: dict[str, object], moved: set[str]) -> None:
    rows = [*deployment("web", on=["a", "a"]), *statefulset("db", on=["a", "a"], namespace="shop")]
    plan = planned(cluster(A, B, rows), DUPLICATES, settings={DUPLICATES: said})
    assert {move.workload for move in plan.moves} == moved


def test_the_reason_names_the_node_the_workload_and_its_share() -> None:
    plan = planned(cluster(A, B, C, deployment("w", on=["a", "a"])), DUPLICATES)
    said = "a has 2 of the 2 pods of Deployment/w, and 1 would be an even share"
    assert plan.moves[0].reason.startswith(f"{said}; ")


class TestOtherStrategies:
    ROWS = (
        *(A, B),
        *deployment("w", on=["a", "b"], cpu="500m"),
        pod("fixed", on="a", cpu="2", labels={"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}),
    )

    def test_crowd_if_nobody_objects(self) -> None:
        assert len(planned(cluster(self.ROWS), BALANCING).moves) == 1

    def test_do_not_crowd_what_is_to_be_even(self) -> None:
        assert planned(cluster(self.ROWS), BALANCING, DUPLICATES).moves == ()

    def test_say_who_objects(self) -> None:
        hot = [*deployment("w", on=["a", "b"], cpu="500m"), *daemonset("d", on=["a"], cpu=3)]
        plan = planned(cluster(A, B, hot), OPTIMIZATION, DUPLICATES)
        (found,) = [each for each in plan.rejections if each.guard == "NoTarget"]
        assert found.reason.endswith("where RemoveDuplicates would move it away again")

    def test_may_crowd_workloads_that_the_settings_leave_out(self) -> None:
        left_out = {DUPLICATES: {"excludedOwnerKinds": ["Deployment"]}}
        assert len(planned(cluster(self.ROWS), BALANCING, DUPLICATES, settings=left_out).moves) == 1

    def test_crowd_all_the_same_where_they_must(self) -> None:
        emptied = node("a", maintenance=True)
        plan = planned(cluster(emptied, B, deployment("w", on=["a", "b"])), MAINTENANCE, DUPLICATES)
        assert [*moves_of(plan).values()] == ["b"]


ALL: PolicyOptions = {"allow": ["jobs", "single_replica"], "min_pod_age": 0}


@given(clusters(min_pods=4))
@settings(max_examples=examples(few=10, many=100))
def test_each_move_makes_a_workload_more_even(snapshot: ClusterSnapshot) -> None:
    workloads = Workloads(snapshot)
    keys = {(each.namespace, each.name): workloads.key(each) for each in snapshot.pods}
    there = Counter((keys[(p.namespace, p.name)], p.node) for p in snapshot.pods if not p.deleting and not p.finished)
    plan = planned(snapshot, DUPLICATES, **ALL)
    for move in plan.moves:
        key = keys[(move.namespace, move.pod)]
        assert there[(key, move.target)] + 1 < there[(key, move.source)]
        there[(key, move.source)] -= 1
        there[(key, move.target)] += 1
