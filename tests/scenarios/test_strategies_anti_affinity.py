"""PodAntiAffinity: pods that must not be near each other are separated, with as few moves as can be."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.model.snapshot import ClusterSnapshot
from tests.support.builders import Row, away, cluster, daemonset, deployment, node, pod, pod_named, replicaset
from tests.support.examples import examples
from tests.support.generated import clusters
from tests.support.planning import PolicyOptions, carry_out, moves_of, planned, rejected
from tests.support.twin import World, refusals

APART = "PodAntiAffinity"
A, B, C = node("a", zone="z1"), node("b", zone="z2"), node("c", zone="z2")
WEB, DB = {"app": "web"}, {"app": "db"}
NOT_WEB, NOT_DB = away(WEB), away(DB)

CONFLICTS: list[tuple[str, list[Row], dict[str, str]]] = [
    ("nobody minds", [A, B, pod("p", on="a", labels=WEB), pod("q", on="a", labels=WEB)], {}),
    ("alone", [A, B, pod("p", on="a", labels=WEB, anti_affinity=[NOT_WEB])], {}),
    (
        "one minds the other",
        [A, B, pod("p", on="a", anti_affinity=[NOT_WEB]), pod("q", on="a", labels=WEB, priority=9)],
        {"p": "b"},
    ),
    (
        "one is minded by the other",
        [A, B, pod("p", on="a", anti_affinity=[NOT_WEB], priority=9), pod("q", on="a", labels=WEB)],
        {"q": "b"},
    ),
    (
        "on two nodes",
        [A, B, pod("p", on="a", anti_affinity=[NOT_WEB]), pod("q", on="b", labels=WEB)],
        {},
    ),
    (
        "in one zone",
        [A, B, C, pod("p", on="b", anti_affinity=[away(WEB, "zone")]), pod("q", on="c", labels=WEB, priority=9)],
        {"p": "a"},
    ),
    (
        "on nodes without a zone",
        [node("n"), A, pod("p", on="n", anti_affinity=[away(WEB, "zone")]), pod("q", on="n", labels=WEB)],
        {},
    ),
    (
        "of other namespaces",
        [A, B, pod("p", on="a", anti_affinity=[NOT_WEB]), pod("q", on="a", labels=WEB, namespace="shop")],
        {},
    ),
    (
        "of other namespaces that are named",
        [
            *(A, B, pod("q", on="a", labels=WEB, namespace="shop", priority=9)),
            pod("p", on="a", anti_affinity=[away(WEB, namespaces=["shop"])]),
        ],
        {"p": "b"},
    ),
    (
        "with one that leaves anyway",
        [A, B, pod("p", on="a", anti_affinity=[NOT_WEB]), pod("q", on="a", labels=WEB, deleting=True)],
        {},
    ),
    (
        "with one that is only expected",
        [A, B, pod("p", on="a", anti_affinity=[NOT_WEB]), pod("q", nominated="a", labels=WEB)],
        {},
    ),
    (
        "with a daemon, which stays",
        [A, B, pod("p", on="a", anti_affinity=[NOT_WEB], priority=9), *daemonset("web", on=["a"])],
        {"p": "b"},
    ),
    (
        "replicas of one workload",
        [A, B, *replicaset("web", on=["a", "a"], anti_affinity=[NOT_WEB])],
        {"web-0": "b"},
    ),
]


@pytest.mark.parametrize(("rows", "moves"), [pytest.param(*row[1:], id=row[0]) for row in CONFLICTS])
def test_pods_that_keep_away_from_each_other_are_separated(rows: list[Row], moves: dict[str, str]) -> None:
    snapshot = cluster(rows)
    plan = planned(snapshot, APART)
    assert moves_of(plan) == moves
    assert planned(carry_out(snapshot, plan), APART).moves == ()


NODES = [node(f"n{number}", pods=200) for number in range(12)]


def knot(edges: list[tuple[int, int]], **priorities: int) -> ClusterSnapshot:
    """Pods p0, p1… on one node of many, of which the first of each edge keeps away from the second."""
    numbers = sorted({number for edge in edges for number in edge})
    rows = [
        pod(
            f"p{n}",
            on="n0",
            labels={"is": f"p{n}"},
            priority=priorities.get(f"p{n}", 0),
            anti_affinity=[away({"is": f"p{other}"}) for one, other in edges if one == n],
        )
        for n in numbers
    ]
    return cluster(NODES, rows)


FEWEST: list[tuple[str, list[tuple[int, int]], dict[str, int], set[str]]] = [
    ("one pod against many", [(0, n) for n in range(1, 6)], {}, {"p0"}),
    ("many against one", [(n, 0) for n in range(1, 6)], {}, {"p0"}),
    ("however important the one is", [(n, 0) for n in range(1, 6)], {"p0": 9}, {"p0"}),
    ("the less important of two", [(0, 1)], {"p0": 9}, {"p1"}),
    ("a chain of five", [(0, 1), (1, 2), (2, 3), (3, 4)], {}, {"p1", "p3"}),
    ("a triangle", [(0, 1), (1, 2), (2, 0)], {"p2": 9}, {"p0", "p1"}),
    ("two stars", [(0, 1), (0, 2), (0, 3), (4, 5), (4, 6)], {}, {"p0", "p4"}),
    ("two stars that touch", [(0, 1), (0, 2), (0, 3), (4, 5), (4, 6), (3, 4)], {}, {"p0", "p4"}),
]


@pytest.mark.parametrize(("edges", "priorities", "moved"), [pytest.param(*row[1:], id=row[0]) for row in FEWEST])
def test_as_few_pods_go_as_can_be(edges: list[tuple[int, int]], priorities: dict[str, int], moved: set[str]) -> None:
    snapshot = knot(edges, **priorities)
    plan = planned(snapshot, APART)
    assert {*moves_of(plan)} == moved
    assert planned(carry_out(snapshot, plan), APART).moves == ()


def smallest_cover(edges: set[frozenset[int]]) -> int:
    """How many pods must go at least, by trying."""
    numbers = sorted({number for edge in edges for number in edge})
    return next(
        size
        for size in range(len(numbers) + 1)
        for chosen in combinations(numbers, size)
        if all(edge & {*chosen} for edge in edges)
    )


PAIRS = st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda pair: pair[0] != pair[1])


@given(st.lists(PAIRS, min_size=1, max_size=14, unique=True))
@settings(max_examples=examples(few=15, many=150))
def test_hardly_ever_goes_one_pod_more_than_the_fewest(edges: list[tuple[int, int]]) -> None:
    plan = planned(knot(edges), APART)
    assert len(plan.moves) <= smallest_cover({frozenset(edge) for edge in edges}) + 1


def test_whoever_cannot_go_stays_and_all_others_go() -> None:
    """The hub is in the most conflicts; once it may not be moved, everybody else has to go."""
    star = [pod("hub", on="a", labels={"app": "hub"}, anti_affinity=[NOT_WEB], priority=-1)]
    star += [pod(f"p{n}", on="a", labels=WEB) for n in range(3)]
    held = pod(
        "hub",
        on="a",
        labels={"app": "hub", "scheduler.alpha.kubernetes.io/rescheduling": "disabled"},
        anti_affinity=[NOT_WEB],
    )
    assert {*moves_of(planned(cluster(A, B, star), APART))} == {"hub"}
    assert {*moves_of(planned(cluster(A, B, held, star[1:]), APART))} == {"p0", "p1", "p2"}


def test_whoever_finds_no_target_stays_and_the_others_go() -> None:
    """p fits on no other node; then q has to go, though it is of higher priority."""
    rows = [
        pod("p", on="a", anti_affinity=[NOT_WEB], node_selector={"zone": "z1"}),
        pod("q", on="a", labels=WEB, priority=9),
    ]
    plan = planned(cluster(A, B, rows), APART)
    assert moves_of(plan) == {"q": "b"}
    assert rejected(plan) == {"p": "NoTarget"}


def test_where_nobody_can_go_people_see_why() -> None:
    mark = {"scheduler.alpha.kubernetes.io/rescheduling": "disabled"}
    rows = [pod("p", on="a", anti_affinity=[NOT_WEB], labels=mark), pod("q", on="a", labels={**WEB, **mark})]
    plan = planned(cluster(A, B, rows), APART)
    assert plan.moves == ()
    assert rejected(plan) == {"p": "ReschedulingDisabled", "q": "ReschedulingDisabled"}


def test_a_conflict_is_ended_even_above_the_thresholds() -> None:
    rows = [
        pod("p", on="a", cpu="500m", anti_affinity=[NOT_WEB]),
        pod("q", on="a", labels=WEB, priority=9),
        pod("busy", on="b", cpu="3500m"),
    ]
    assert moves_of(planned(cluster(A, B, rows), APART)) == {"p": "b"}


def test_where_two_find_no_target_their_like_is_not_asked_for() -> None:
    rows = deployment("web", on=["b", "c"] * 20, anti_affinity=[away(WEB, "zone")])
    plan = planned(cluster(A, B, C, rows), APART)
    assert [*moves_of(plan).values()] == ["a"]
    assert [*rejected(plan).values()] == ["NoTarget"] * 2


def test_when_the_plan_is_full_it_says_so_once() -> None:
    plan = planned(cluster(NODES, deployment("web", on=["n0"] * 8, anti_affinity=[NOT_WEB])), APART, max_moves=2)
    assert len(plan.moves) == 2
    assert [*rejected(plan).values()] == ["MaxReschedulePods"]


def test_the_reason_names_the_rule_the_node_and_the_other_pod() -> None:
    rows = [pod("p", on="a", anti_affinity=[NOT_WEB]), pod("q", on="a", labels=WEB, priority=9)]
    own = "on a it breaks its anti-affinity to pods with app=web in the same kubernetes.io/hostname: default/q is there"
    assert planned(cluster(A, B, rows), APART).moves[0].reason.startswith(f"{own}; ")
    rows = [pod("p", on="a", anti_affinity=[away("")], priority=9), pod("q", on="a", labels=WEB)]
    theirs = "on a it breaks the anti-affinity of default/p to all pods in the same kubernetes.io/hostname"
    assert planned(cluster(A, B, rows), APART).moves[0].reason.startswith(f"{theirs}; ")


FILTERS: list[tuple[dict[str, object], list[str]]] = [
    ({}, ["p"]),
    ({"podSelector": "app=web"}, ["q"]),
    ({"excludedOwnerKinds": ["Pod"]}, []),
    ({"namespaces": ["elsewhere"]}, []),
]


@pytest.mark.parametrize(("said", "moved"), FILTERS)
def test_only_what_the_settings_mean_is_moved(said: dict[str, object], moved: list[str]) -> None:
    rows = [pod("p", on="a", anti_affinity=[NOT_WEB]), pod("q", on="a", labels=WEB, priority=9)]
    assert [*moves_of(planned(cluster(A, B, rows), APART, settings={APART: said}))] == moved


@given(clusters(min_pods=4))
@settings(max_examples=examples(few=10, many=100))
def test_every_move_ends_a_conflict_that_the_twin_sees(snapshot: ClusterSnapshot) -> None:
    options: PolicyOptions = {"allow": ["jobs", "single_replica"], "min_pod_age": 0}
    world = World(snapshot)
    for move in planned(snapshot, APART, **options).moves:
        mover = pod_named(snapshot, move.pod, move.namespace)
        assert "PodAntiAffinity" in refusals(world.without(mover), mover, move.source)
        world = world.without(mover).plus(mover, move.target)
