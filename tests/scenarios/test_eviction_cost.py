"""Eviction costs: among pods of one priority those of lower cost go first, by every strategy that goes by priority.

Unless a case says otherwise the pods differ in nothing but their names and costs, and the one that would go by its name
has the higher cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Unpack

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.app import planning as app
from rescheduler.cli.explain import explanation_lines
from rescheduler.cli.output import Terminal
from rescheduler.model import labels
from rescheduler.model.labels import MOST
from rescheduler.model.objects import Pod
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.cycle import make_plan
from rescheduler.planning.explain import explanation_document
from rescheduler.strategies import discover
from tests.support.applied import apply_plan
from tests.support.builders import Row, away, cluster, deployment, node, pod, spread
from tests.support.builders.rows import TemplateOptions
from tests.support.examples import examples, seeds
from tests.support.generated import random_cluster
from tests.support.planning import PolicyOptions, moves_of, planned, rejected
from tests.support.pod_migrations import replace
from tests.support.sample_settings import samples

OWN, KOORDINATOR, DELETION = labels.EVICTION_COST, labels.KOORDINATOR_COST, labels.DELETION_COST
WEB = {"app": "web"}
A, B, C = (node(name, cpu=10, memory="10Gi") for name in "abc")


def costing(name: str, on: str, cost: int | str, mark: str = OWN, **options: Unpack[TemplateOptions]) -> Pod:
    row = pod(name, on=on, **options)
    return msgspec.structs.replace(row, annotations={mark: str(cost)})


def with_costs(rows: Sequence[Row], costs: Sequence[int]) -> list[Row]:
    """The same, with these costs on the pods, in their order."""
    left = iter(costs)
    return [
        msgspec.structs.replace(row, annotations={OWN: str(next(left))}) if isinstance(row, Pod) else row
        for row in rows
    ]


def two(**options: Unpack[TemplateOptions]) -> list[Row]:
    """A pod of high cost and one of low, both on a."""
    return [costing("p", "a", 5, **options), costing("q", "a", 1, **options)]


FIRST: list[tuple[str, list[Row], PolicyOptions]] = [
    ("NodeMaintenance", [node("a", maintenance=True), B, *two(cpu=1)], {"max_moves": 1}),
    ("NodeAffinity", [A, node("b", labels={"disk": "ssd"}), *two(node_selector={"disk": "ssd"})], {"max_moves": 1}),
    ("NodeTaints", [node("a", taints=["x:NoSchedule"]), B, *two()], {"max_moves": 1}),
    ("PodAntiAffinity", [A, B, *two(labels=WEB, anti_affinity=[away("app=web")])], {}),
    ("TooManyRestarts", [A, B, *two(restarts=200)], {"max_moves": 1}),
    ("PodLifeTime", [A, B, *two(age=1e6)], {"max_moves": 1}),
    ("MakeRoom", [A, B, *two(cpu=4), pod("x", on="b", cpu=6), pod("big", cpu=5, age=90)], {"cpu": 100}),
    ("ResourceOptimization", [A, B, *two(cpu=5)], {}),
    ("LoadBalancing", [A, B, *two(cpu=3)], {}),
    (
        "TopologySpread",
        [node("a", zone="1"), node("b", zone="2"), *two(labels=WEB, spread=[spread(1, "zone", WEB)])],
        {},
    ),
]


@pytest.mark.parametrize(("strategy", "rows", "options"), [pytest.param(*row, id=row[0]) for row in FIRST])
@pytest.mark.parametrize("mark", [OWN, KOORDINATOR, DELETION])
def test_the_lower_cost_goes_first(strategy: str, rows: list[Row], options: PolicyOptions, mark: str) -> None:
    marked = [
        msgspec.structs.replace(row, annotations={mark: row.annotations[OWN]})
        if isinstance(row, Pod) and row.annotations
        else row
        for row in rows
    ]
    assert [*moves_of(planned(cluster(marked), strategy, **options))] == ["q"]


@pytest.mark.parametrize(("strategy", "rows", "options"), [pytest.param(*row, id=row[0]) for row in FIRST])
def test_no_cost_makes_up_for_a_priority(strategy: str, rows: list[Row], options: PolicyOptions) -> None:
    lower = [
        msgspec.structs.replace(row, priority=-1) if isinstance(row, Pod) and row.name == "p" else row for row in rows
    ]
    assert [*moves_of(planned(cluster(lower), strategy, **options))] == ["p"]


def test_of_a_crowd_the_cheapest_replicas_leave() -> None:
    rows = with_costs(deployment("web", on=["a"] * 4), [9, 1, 7, 3])
    names = sorted(row.name for row in rows if isinstance(row, Pod) and row.annotations[OWN] in ("1", "3"))
    assert sorted(moves_of(planned(cluster(A, B, rows), "RemoveDuplicates"))) == names


def test_a_pod_that_would_like_it_better_elsewhere_goes_by_that_before_its_cost() -> None:
    """By cost alone, two that stand well and find nothing better could keep a third, who would, from being asked."""
    nodes = [node("a"), node("b", labels={"w": "1"}), node("c", labels={"w": "2"}, cpu=1)]
    likes = [(10, "w=1"), (20, "w=2")]
    rows = [costing("p", "b", 1, preferred_nodes=likes), costing("q", "a", 5, preferred_nodes=likes)]
    plan = planned(cluster(nodes, rows), "NodeAffinity", settings={"NodeAffinity": {"includePreferred": True}})
    assert [*moves_of(plan)] == ["q", "p"]


def test_the_group_with_the_cheapest_pod_comes_together_first() -> None:
    nodes = [node("a", zone="1"), node("b", zone="2")]
    rows = [
        costing(f"{group}{place}", place, cost, labels={"group": group})
        for group, cost in (("g", 5), ("h", 1))
        for place in "ab"
    ]
    options: PolicyOptions = {"max_moves": 1, "settings": {"Topology": {"groupLabel": "group"}}}
    (moved,) = moves_of(planned(cluster(nodes, rows), "Topology", **options))
    assert moved.startswith("h")


EMPTIED: list[tuple[str, int, int, str]] = [
    ("equal costs: by name", 0, 0, "a"),
    ("the cheaper node", 1, 0, "b"),
    ("a cost below that of pods without one", 0, -1, "b"),
    ("a very low cost is still a move", 0, -MOST, "b"),
]


@pytest.mark.parametrize(("of_a", "of_b", "emptied"), [pytest.param(*row[1:], id=row[0]) for row in EMPTIED])
def test_the_node_whose_pods_cost_least_is_emptied_first(of_a: int, of_b: int, emptied: str) -> None:
    rows = [costing("p", "a", of_a, cpu=1), costing("q", "b", of_b, cpu=1), pod("x", on="c", cpu=4)]
    options: PolicyOptions = {"settings": {"Consolidation": {"maxNodesPerPlan": 1}}}
    plan = planned(cluster(A, B, C, rows), "Consolidation", **options)
    assert [move.source for move in plan.moves] == [emptied]


OPTIMIZED: list[tuple[str, dict[str, tuple[int, int]], list[str]]] = [
    ("the cheaper of two that suffice", {"p": (2, 1), "q": (2, 0), "rest": (5, 9)}, ["q"]),
    ("the cheaper though it is larger", {"p": (1, 1), "q": (4, 0), "rest": (4, 9)}, ["q"]),
    ("two cheap ones before a dear one", {"p": (3, 1), "q": (1, 0), "r": (1, 0), "rest": (5, 9)}, ["q", "r"]),
    (
        "a dear one where the cheap are not enough, and then that alone",
        {"p": (3, 1), "q": (1, 0), "rest": (6, 9)},
        ["p"],
    ),
    ("of those that suffice the fewest", {"p": (1, 1), "q": (1, 2), "r": (2, 3), "rest": (6, 9)}, ["p", "q"]),
    ("costs of their own for all", {"p": (1, 4), "q": (2, 3), "r": (3, 2), "s": (4, 1)}, ["s"]),
]


@pytest.mark.parametrize(("pods", "moved"), [pytest.param(*row[1:], id=row[0]) for row in OPTIMIZED])
def test_a_hot_node_sheds_the_lowest_costs_that_suffice_and_of_those_the_fewest(
    pods: dict[str, tuple[int, int]], moved: list[str]
) -> None:
    rows = [costing(name, "a", cost, cpu=cpu) for name, (cpu, cost) in pods.items()]
    assert [*moves_of(planned(cluster(A, B, rows), "ResourceOptimization"))] == moved


def test_the_hottest_node_is_cooled_first_whatever_its_pods_cost() -> None:
    rows = [
        costing("p", "a", 1, cpu=5),
        costing("q", "a", 1, cpu=5),
        costing("r", "b", 0, cpu=5),
        costing("s", "b", 0, cpu=4),
    ]
    (moved,) = moves_of(planned(cluster(A, B, C, rows), "ResourceOptimization", max_moves=1))
    assert moved == "p"


@pytest.mark.parametrize("mark", [OWN, KOORDINATOR])
def test_the_highest_cost_keeps_a_pod_where_it_is(mark: str) -> None:
    rows = [costing("p", "a", MOST, mark, cpu=5), pod("q", on="a", cpu=5, priority=9)]
    plan = planned(cluster(A, B, rows), "ResourceOptimization")
    assert [*moves_of(plan)] == ["q"]
    assert rejected(plan) == {"p": "EvictionCost"}


def test_a_cost_gives_nobody_the_right_to_room() -> None:
    """Who has to make room for whom goes by priority alone; the pending pod's own cost says nothing."""
    rows = [pod("p", on="a", cpu=6), pod("q", on="b", cpu=4), costing("big", "", -9, cpu=10, age=90)]
    assert [*moves_of(planned(cluster(A, B, rows), "MakeRoom", cpu=100))] == ["q"]


ALIKE: dict[str, Callable[[list[Row]], tuple[ClusterSnapshot, PolicyOptions]]] = {
    "NodeMaintenance": lambda rows: (cluster(node("a", maintenance=True), B, C, rows), {"max_moves": 3}),
    "NodeTaints": lambda rows: (cluster(node("a", taints=["x:NoSchedule"]), B, C, rows), {"max_moves": 3}),
    "ResourceOptimization": lambda rows: (cluster(A, B, C, rows), {"cpu": 40}),
    "LoadBalancing": lambda rows: (cluster(A, B, C, rows), {}),
    "RemoveDuplicates": lambda rows: (cluster(A, B, C, rows), {}),
    "TopologySpread": lambda rows: (
        cluster(node("a", zone="1"), node("b", zone="2"), node("c", zone="3"), rows),
        {},
    ),
}


@pytest.mark.parametrize("strategy", ALIKE)
@settings(max_examples=examples(few=10, many=25))
@given(costs=st.permutations(range(-3, 4)))
def test_of_pods_that_are_alike_costs_say_who_goes_and_never_how_many(strategy: str, costs: list[int]) -> None:
    rules = [spread(1, "zone", WEB)] if strategy == "TopologySpread" else []
    alike = deployment("web", on=["a"] * 7, cpu=1, labels=WEB, spread=rules)
    snapshot, options = ALIKE[strategy](with_costs(alike, costs))
    moved = moves_of(planned(snapshot, strategy, **options))
    unmarked, _ = ALIKE[strategy](alike)
    assert len(moved) == len(planned(unmarked, strategy, **options).moves) > 0
    cost_of = {row.name: int(row.annotations[OWN]) for row in snapshot.pods}
    assert sorted(cost_of[name] for name in moved) == sorted(costs)[: len(moved)]


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(-2, 2)), min_size=1, max_size=8),
    st.sampled_from((30.0, 50.0, 70.0)),
)
def test_nobody_sheds_a_dear_pod_where_all_cheaper_ones_would_have_done(
    pods: list[tuple[int, int]], threshold: float
) -> None:
    big = [node(name, cpu=32, memory="32Gi") for name in "abc"]
    rows = [costing(f"p{n}", "a", cost, cpu=cpu) for n, (cpu, cost) in enumerate(pods)]
    moved = moves_of(planned(cluster(big, rows), "ResourceOptimization", cpu=threshold))
    excess = sum(cpu for cpu, _ in pods) - 32 * threshold / 100
    if excess <= 0:
        assert not moved
        return
    dearest = max(pods[int(name[1:])][1] for name in moved)
    assert sum(cpu for cpu, cost in pods if cost < dearest) < excess


@pytest.mark.parametrize("name", discover())
def test_every_strategy_settles_whatever_pods_cost(name: str) -> None:
    policy = Policy(max_reschedule_pods=None, cpu_threshold=60, memory_threshold=60)
    for seed in seeds(few=2, many=8):
        chance, crowded = Random(seed), seed % 2 == 0
        plain = random_cluster(seed, nodes=10, pods=70 if crowded else 15)
        costs = (str(chance.choice((-9, 0, 3, 7))) for _ in plain.pods)
        pods = [msgspec.structs.replace(row, annotations={OWN: next(costs)}) for row in plain.pods]
        snapshot = replace(plain, pods=tuple(pods))
        plan = make_plan(snapshot, policy, samples([name]))
        for _ in range(20):  # what one plan may not evict at once, the next does
            if not plan.moves:
                break
            snapshot = apply_plan(snapshot, plan)
            plan = make_plan(snapshot, policy, samples([name]))
        assert plan.moves == (), f"seed {seed}"


def test_marks_that_are_no_numbers_are_ignored_and_told_of_once() -> None:
    wrong = [costing(f"p{n}", "a", "high", KOORDINATOR, cpu=1) for n in range(5)]
    plan = planned(cluster(node("a", maintenance=True), B, wrong, costing("q", "a", "+1")), "NodeMaintenance")
    assert len(plan.moves) == 6
    told = [warning for warning in plan.warnings if "annotation" in warning]
    numbers = "is ignored, because it is not a whole number from -2147483648 to 2147483647"
    assert told == [
        f"annotation {OWN} {numbers}: default/q ('+1')",
        f"annotation {KOORDINATOR} {numbers}: default/p0 ('high'), default/p1 ('high'), default/p2 ('high') and 2 more",
    ]


def explained(row: Row) -> tuple[str, Plan, object]:
    snapshot = cluster(A, B, row)
    found, plan = app.explain_pod(snapshot, Policy(enabled_strategies=("ResourceOptimization",)), ("default", "p"))
    text = "\n".join(explanation_lines(found, plan, Terminal(), wide=False))
    return text, plan, explanation_document(found)["evictionCost"]


def test_explain_names_the_cost_and_the_mark_that_tells_it() -> None:
    text, _, document = explained(costing("p", "a", -7, DELETION))
    assert f"Priority:   0, eviction cost -7 ({DELETION})\n" in text
    assert document == {"cost": -7, "annotation": DELETION}
    text, _, document = explained(pod("p", on="a"))
    assert "Priority:   0\n" in text
    assert document is None
