"""MakeRoom: a pending pod that fits nowhere gets room by the fewest moves, and never at the cost of its betters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.objects import Pod, PodCondition, PodHealth
from rescheduler.model.plan import Plan
from tests.support.builders import Row, cluster, daemonset, deployment, near, node, pdb, pod, spread, statefulset
from tests.support.planning import moves_of, planned
from tests.support.policies import plan_by

MAKE_ROOM = "MakeRoom"
A, B, C = (node(name, cpu=10, memory="10Gi") for name in "abc")
GROUP = "scheduling.x-k8s.io/pod-group"


def made(*rows: Row | Sequence[Row], **settings: object) -> Plan:
    """The plan of MakeRoom where nodes may be full, with these settings of its own."""
    return planned(cluster(*rows), MAKE_ROOM, cpu=100, memory=100, settings={MAKE_ROOM: settings})


def on(place: str, *cpu: int | str, priority: int = 0) -> list[Row]:
    return [pod(f"{place}{n}", on=place, cpu=amount, priority=priority) for n, amount in enumerate(cpu)]


def waiting(cpu: int | str = 6, name: str = "big", *, priority: int = 0) -> Pod:
    return pod(name, cpu=cpu, priority=priority)


def told(waits: Pod, reason: str) -> Pod:
    """What the scheduler or the API server says of a pod that is not placed."""
    said = PodHealth(conditions=(PodCondition("PodScheduled", "False", reason),))
    return msgspec.structs.replace(waits, trouble=said)


MADE: list[tuple[str, list[Row], set[str]]] = [
    ("one pod moves", [A, B, *on("a", 3, 4), *on("b", 6), waiting(6)], {"a0"}),
    ("two where one is not enough", [A, B, *on("a", 2, 2, 3), *on("b", 6), waiting(7)], {"a0", "a1"}),
    ("where fewer must go", [A, B, C, *on("a", 2, 2, 2), *on("b", 3, 4), *on("c", 5), waiting(7)], {"b1"}),
    (
        "the lower of two priorities",
        [A, B, pod("x", "a", cpu=2, priority=5), *on("a", 3), *on("b", 6), waiting(7, priority=9)],
        {"a0"},
    ),
    ("an equal priority", [A, B, *on("a", 4, priority=7), *on("b", 5, priority=8), waiting(7, priority=7)], {"a0"}),
    ("memory", [A, B, pod("m", "a", memory="6Gi"), pod("n", "b", memory="4Gi"), pod("big", memory="7Gi")], {"n"}),
    ("a place among the pods", [node("a", pods=1), node("b", cpu=1), pod("p", "a"), waiting(3)], {"p"}),
    ("a host port", [A, node("b", cpu=1), pod("p", "a", host_ports=[80]), pod("big", cpu=2, host_ports=[80])], {"p"}),
    (
        "a pod that it keeps away from",
        [
            A,
            node("b", cpu=1),
            pod("p", "a", labels={"app": "p"}),
            pod("big", cpu=2, anti_affinity=[near({"app": "p"}, "hostname")]),
        ],
        {"p"},
    ),
    (
        "a pod that keeps away from it, and room",
        [
            *(A, node("b", cpu=5), pod("p", "a", anti_affinity=[near({"app": "big"}, "hostname")])),
            *(*on("a", 3, 4), pod("big", cpu=6, labels={"app": "big"})),
        ],
        {"p", "a0"},
    ),
    ("said to be unschedulable", [A, B, *on("a", 3, 4), *on("b", 6), told(waiting(6), "Unschedulable")], {"a0"}),
]


@pytest.mark.parametrize(("rows", "moved"), [pytest.param(*row[1:], id=row[0]) for row in MADE])
def test_the_fewest_and_least_important_pods_make_room(rows: list[Row], moved: set[str]) -> None:
    plan = made(rows)
    assert set(moves_of(plan)) == moved
    assert len({move.proposal for move in plan.moves}) == 1


NOTHING: list[tuple[str, list[Row]]] = [
    ("it fits somewhere", [A, B, *on("a", 3, 4), waiting(6)]),
    ("nobody has room for what would move", [A, B, *on("a", 6), *on("b", 5), waiting(6)]),
    ("a higher priority is in the way", [A, B, *on("a", 3, 4, priority=1), *on("b", 6, priority=1), waiting(6)]),
    ("a DaemonSet's pod is in the way", [A, node("b", cpu=5), *daemonset("d", on=["a"], cpu=5), waiting(6)]),
    ("its scheduling is gated", [A, B, *on("a", 3, 4), *on("b", 6), told(waiting(6), "SchedulingGated")]),
    ("it is nominated", [A, B, *on("a", 3, 4), *on("b", 6), pod("big", cpu=6, nominated="a")]),
    ("it is being deleted", [A, B, *on("a", 3, 4), *on("b", 6), pod("big", cpu=6, deleting=True)]),
    ("it is a DaemonSet's", [A, B, *on("a", 3, 4), *on("b", 6), *daemonset("d", on=[""], cpu=6)]),
    ("it is young", [A, B, *on("a", 3, 4), *on("b", 6), pod("big", cpu=6, age=10)]),
    ("it claims devices", [A, B, *on("a", 3, 4), *on("b", 6), pod("big", cpu=6, resource_claims=True)]),
    ("the node is closed", [node("a", cpu=10, cordoned=True), B, *on("a", 3, 4), *on("b", 6), waiting(6)]),
    ("too many would have to go", [A, node("b", cpu=5), *on("a", *[1] * 5), waiting(9)]),
    (
        "a disruption budget is in the way",
        [A, B, *statefulset("db", on=["a", "b"], cpu=5), pdb("db", min_available=2, allowed=0), waiting(6)],
    ),
    (
        "a member of a pod group is in the way",
        [A, B, *[pod(f"g{n}", "a", cpu=3, labels={GROUP: "g"}) for n in range(2)], *on("b", 6), waiting(6)],
    ),
]


@pytest.mark.parametrize("rows", [pytest.param(row[1], id=row[0]) for row in NOTHING])
def test_where_no_room_is_needed_or_can_be_made_nothing_moves(rows: list[Row]) -> None:
    assert made(rows).moves == ()


SETTINGS: list[tuple[str, dict[str, object], int]] = [
    ("nothing said", {}, 1),
    ("not old enough", {"minPendingAge": "2h"}, 0),
    ("another namespace", {"namespaces": ["shop"]}, 0),
    ("other labels", {"podSelector": "app"}, 0),
]


@pytest.mark.parametrize(("settings", "moves"), [pytest.param(*row[1:], id=row[0]) for row in SETTINGS])
def test_the_settings_say_for_whom_room_is_made(settings: dict[str, object], moves: int) -> None:
    assert len(made(A, B, on("a", 3, 4), on("b", 6), waiting(6), **settings).moves) == moves


def test_more_moves_for_one_pod_are_made_where_they_are_allowed() -> None:
    rows = [A, node("b", cpu=5), *on("a", *[1] * 4), waiting(10)]
    assert made(rows).moves == ()
    assert len(made(rows, maxMovesPerPod=4).moves) == 4


def test_pods_that_make_room_go_where_they_stay_under_the_thresholds() -> None:
    rows = [A, B, *on("a", 3, 4), *on("b", 6), waiting(6)]
    assert planned(cluster(rows), MAKE_ROOM, cpu=80).moves == ()
    assert moves_of(planned(cluster(rows), MAKE_ROOM, cpu=90)) == {"a0": "b"}


def test_the_reason_names_the_pending_pod() -> None:
    plan = made(A, B, on("a", 3, 4), on("b", 6), waiting(6))
    assert plan.moves[0].reason.startswith(
        "pending default/big fits nowhere: this makes room for it on a; b is then at"
    )


def test_the_highest_priority_gets_room_first_and_then_the_oldest() -> None:
    rows = [A, B, *on("a", 3, 4), *on("b", 6)]
    wait = [pod(name, cpu=6, age=age, priority=rank) for name, age, rank in (("x", 90, 0), ("y", 60, 1), ("z", 99, 1))]
    assert "default/z" in made(rows, wait).moves[0].reason
    assert "default/x" in made(rows, wait[0]).moves[0].reason


def test_what_a_pod_needs_that_fits_is_not_given_away() -> None:
    """Three of a would have to go to b, where the small one is about to be placed."""
    rows = [A, B, *on("a", 3, 4), *on("b", 6)]
    small = pod("small", cpu=4, priority=1)
    assert made(rows, waiting(6)).moves
    assert made(rows, waiting(6), small).moves == ()


def test_the_room_is_not_given_away_to_pods_that_other_strategies_move() -> None:
    rows = [A, B, C, *on("a", 3, 4), *on("b", 6), pod("c0", "c", cpu=9), waiting(6)]
    plan = planned(cluster(rows), MAKE_ROOM, "ResourceOptimization", cpu=100, memory=100)
    assert moves_of(plan) == {"a0": "b"}


def test_a_pod_that_is_only_expected_is_no_company_for_others() -> None:
    """q has to be near an x. One is expected on b, but it may come to stand elsewhere."""
    x = {"app": "x"}
    near_x = pod("q", "a", cpu=3, affinity=[near(x, "hostname")])
    rows = [A, node("b", cpu=10), near_x, pod("x0", "a", cpu=2, labels=x), *on("a", 4), pod("x1", cpu=1, labels=x)]
    plan = planned(cluster(rows), MAKE_ROOM, "ResourceOptimization", cpu=80)
    assert "q" not in moves_of(plan)
    assert plan.moves


def test_nobody_is_taken_from_those_who_need_him_because_another_is_expected() -> None:
    """y has to be near an x. Another x is expected beside it, but x0 must not go on the strength of that."""
    x = {"app": "x"}
    rows = [
        *(node("a", cpu=10, labels={"disk": "ssd"}), B, pod("x0", "a", cpu=2, labels=x), *on("a", 4)),
        pod("y", "a", cpu=3, affinity=[near(x, "hostname")]),
        pod("x1", cpu="500m", labels=x, node_selector={"disk": "ssd"}),
    ]
    assert moves_of(planned(cluster(rows), MAKE_ROOM, "ResourceOptimization", cpu=80)) == {"a0": "b"}


def test_a_pod_that_is_only_expected_makes_no_node_hot() -> None:
    """It may be placed elsewhere, or wait for something that we know nothing of: then others would move for ever."""
    snapshot = cluster(A, B, *on("a", 5, 1), *on("b", 7), waiting(4))
    assert planned(snapshot, MAKE_ROOM, "ResourceOptimization").moves == ()


def test_a_pod_that_is_only_expected_breaks_no_spread_constraint() -> None:
    rules = [spread(1, "zone", {"app": "web"})]
    rows = [node("a", cpu=10, zone="a"), node("b", cpu=10, zone="b"), node("c", cpu=1, zone="c")]
    web = deployment("web", on=["a", "b"], cpu=1, labels={"app": "web"}, spread=rules)
    come = [msgspec.structs.replace(waiting(8, f"more{n}"), labels={"app": "web"}) for n in range(2)]
    plan = planned(cluster(rows, web, come), MAKE_ROOM, "TopologySpread")
    assert plan.moves == ()


def test_a_vacant_node_stays_so_for_consolidation_though_a_pod_is_expected_there() -> None:
    snapshot = cluster(A, B, *on("a", 2), waiting(4))
    assert planned(snapshot, MAKE_ROOM, "Consolidation").moves == ()


def test_a_larger_pod_does_not_take_the_room_that_was_made_for_another() -> None:
    """big has room on a now; huge would have it too, if a pod of c went to a."""
    rows = [A, B, C, *on("a", 4), *on("b", 9), *on("c", 5, 2)]
    assert moves_of(made(rows, pod("huge", cpu=8))) == {"c0": "a"}
    assert made(rows, waiting(6, priority=1), pod("huge", cpu=8)).moves == ()


def group(*cpu: int, age: float = 3600.0) -> list[Row]:
    return [pod(f"g{n}", cpu=amount, labels={GROUP: "g"}, age=age) for n, amount in enumerate(cpu)]


def test_pods_of_one_group_get_room_together_or_not_at_all() -> None:
    rows = [A, B, C, node("d", cpu=10), *on("a", 3, 4), *on("b", 3, 4), *on("c", 4), *on("d", 5)]
    plan = made(rows, group(7, 7))
    assert len(plan.moves) == 2
    assert len({move.proposal for move in plan.moves}) == 1
    assert made(rows, group(7, 7, 7)).moves == ()
    assert made(rows, group(7), [pod("g9", cpu=7, labels={GROUP: "g"}, age=1)]).moves == ()


def test_pods_of_one_group_that_need_each_other_get_room_together() -> None:
    """g1 has to be near g0, which is not there yet either."""
    together = {GROUP: "g"}
    needy = pod("g1", cpu=1, labels=together, affinity=[near({"app": "g0"}, "hostname")])
    first = pod("g0", cpu=5, labels={**together, "app": "g0"})
    plan = made(A, B, on("a", 3, 4), on("b", 6), first, needy)
    assert len(plan.moves) == 1
    assert made(A, B, on("a", 2), on("b", 6), first, needy).moves == ()


def test_more_moves_than_a_plan_may_make_are_not_made() -> None:
    rows = [A, node("b", cpu=5), *on("a", 2, 2), waiting(9)]
    plan = planned(cluster(rows), MAKE_ROOM, cpu=100, memory=100, max_moves=1)
    assert plan.moves == ()
    assert "MaxReschedulePods" in {rejection.guard for rejection in plan.rejections}


def test_in_node_pools_room_is_made_only_where_the_strategy_runs() -> None:
    config = """\
enabledStrategies: []
cpuThreshold: 100
pools: [{name: web, nodeSelector: pool=web, enabledStrategies: [MakeRoom]}]
"""
    web = [node(name, cpu=10, labels={"pool": "web"}) for name in "wx"]
    rows = [A, B, *web, *on("a", 3, 4), *on("b", 6), *on("w", 4, 4), *on("x", 5), waiting(6)]
    assert moves_of(plan_by(cluster(rows), config)) == {"w0": "x"}
    assert (
        plan_by(cluster(A, B, web, on("a", 3, 4), on("b", 6), on("w", 9), on("x", 9), waiting(6)), config).moves == ()
    )


Place = tuple[int, int, int]
"""Node, CPU and priority of a pod."""


def fewest(sizes: Sequence[int], placed: Sequence[Place], cpu: int, priority: int) -> int | None:
    """By trying everything: how many pods must go elsewhere for the pending one; None where it is hopeless."""
    free = [size - sum(c for at, c, _ in placed if at == number) for number, size in enumerate(sizes)]
    for count in range(len(placed) + 1):
        for leaving in combinations(placed, count):
            if len({at for at, _, _ in leaving}) > 1 or any(rank > priority for _, _, rank in leaving):
                continue
            for node_of_pending in {leaving[0][0]} if leaving else range(len(sizes)):
                if free[node_of_pending] + sum(c for _, c, _ in leaving) < cpu:
                    continue
                elsewhere = [number for number in range(len(sizes)) if number != node_of_pending]
                for targets in product(elsewhere, repeat=count):
                    takes = Counter[int]()
                    for (_, size, _), target in zip(leaving, targets, strict=True):
                        takes[target] += size
                    if all(takes[number] <= free[number] for number in elsewhere):
                        return count
    return None


@given(
    sizes=st.lists(st.integers(3, 8), min_size=2, max_size=3),
    pods=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(0, 1)), max_size=7),
    cpu=st.integers(1, 8),
    priority=st.integers(0, 1),
)
def test_no_smaller_number_of_moves_would_do(sizes: list[int], pods: list[Place], cpu: int, priority: int) -> None:
    placed: list[Place] = []
    for at, size, rank in pods:
        room = sizes[at % len(sizes)] - sum(c for other, c, _ in placed if other == at % len(sizes))
        if size <= room:
            placed.append((at % len(sizes), size, rank))
    rows: list[Row] = [node(f"n{number}", cpu=size) for number, size in enumerate(sizes)]
    rows += [pod(f"p{n}", f"n{at}", cpu=size, priority=rank) for n, (at, size, rank) in enumerate(placed)]
    plan = made(rows, waiting(cpu, priority=priority), maxMovesPerPod=10)
    least = fewest(sizes, placed, cpu, priority)
    assert len(plan.moves) == (least or 0)
