"""ResourceOptimization: hot nodes come under their thresholds, with the fewest moves, onto nodes that stay under."""

from __future__ import annotations

import pytest

from rescheduler.model.snapshot import ClusterSnapshot
from tests.support.builders import Row, cluster, daemonset, deployment, node, pod
from tests.support.planning import OPTIMIZATION, PolicyOptions, carry_out, moves_of, planned, rejected, rejection_of

A, B, C = node("a", cpu=10, memory="10Gi"), node("b", cpu=10, memory="10Gi"), node("c", cpu=10, memory="10Gi")


def sized(**cpu: int | str) -> list[Row]:
    """Pods on a, by name and CPU."""
    return [pod(name, on="a", cpu=amount) for name, amount in cpu.items()]


def both(**sizes: tuple[int | str, str]) -> list[Row]:
    """Pods on a, by name, CPU and memory."""
    return [pod(name, on="a", cpu=cpu, memory=memory) for name, (cpu, memory) in sizes.items()]


CASES: list[tuple[str, list[Row], PolicyOptions, list[str]]] = [
    ("nothing is hot", sized(p=5, q=3), {}, []),
    ("at the threshold is not over it", sized(p=8), {}, []),
    ("one thousandth over it is", sized(p=5, q="3001m"), {}, ["q"]),
    ("a threshold by configuration", sized(p=3, q=2), {"cpu": 40}, ["q"]),
    ("the smallest that suffices", sized(p=5, q=3, r=1), {}, ["r"]),
    ("the largest first where one is not enough", sized(p=1, q=1, r=3, s=3, t=2), {"cpu": 50}, ["r", "t"]),
    ("one large instead of three small", sized(p=3, q=2, r=1, s=1, t=1, u=2), {"cpu": 70}, ["p"]),
    ("memory", both(p=(0, "6Gi"), q=(0, "3Gi")), {}, ["q"]),
    ("one pod for two resources", both(p=(5, "0"), q=(0, "5Gi"), r=(4, "4Gi")), {}, ["r"]),
    ("the smallest for two resources", both(p=(4, "1Gi"), q=(3, "5Gi"), r=(2, "3Gi")), {}, ["p"]),
    ("what is held counts, not what is asked", [pod("p", on="a", cpu=1, held={"cpu": 9})], {}, ["p"]),
    ("pods that ask nothing are left", [*sized(p=5, q=4), *(pod(f"n{n}", on="a") for n in range(3))], {}, ["q"]),
]


@pytest.mark.parametrize(("rows", "options", "moved"), [pytest.param(*row[1:], id=row[0]) for row in CASES])
def test_a_hot_node_sheds_the_fewest_pods_that_cool_it(
    rows: list[Row], options: PolicyOptions, moved: list[str]
) -> None:
    plan = planned(cluster(A, B, C, rows), OPTIMIZATION, **options)
    assert [*moves_of(plan)] == moved
    assert plan.rejections == ()
    assert plan.after.hot_nodes == 0


FILTERED: list[tuple[str, dict[str, object], list[str]]] = [
    ("none", {}, ["r"]),
    ("namespaces", {"namespaces": ["shop"]}, ["q"]),
    ("excluded namespaces", {"excludedNamespaces": ["default"]}, ["q"]),
    ("labels", {"podSelector": "app=web"}, ["p"]),
    ("owners", {"ownerKinds": ["Deployment"]}, ["job"]),
    ("excluded owners", {"excludedOwnerKinds": ["Pod"]}, ["job"]),
    ("nobody", {"namespaces": ["nowhere"]}, []),
]


@pytest.mark.parametrize(("filters", "moved"), [pytest.param(*row[1:], id=row[0]) for row in FILTERED])
def test_only_pods_that_the_filters_mean_leave_a_hot_node(filters: dict[str, object], moved: list[str]) -> None:
    rows: list[Row] = [
        pod("p", on="a", cpu=3, labels={"app": "web"}),
        pod("q", on="a", cpu="2500m", namespace="shop"),
        pod("r", on="a", cpu="1500m"),
        *deployment("job", on=["a"], cpu=2),
    ]
    plan = planned(cluster(A, B, rows), OPTIMIZATION, settings={OPTIMIZATION: filters})
    assert [name.partition("-")[0] for name in moves_of(plan)] == moved
    assert plan.rejections == ()


def test_two_resources_need_two_pods_where_none_helps_both() -> None:
    plan = planned(cluster(A, B, C, both(p=(6, "0"), q=(0, "6Gi"), r=(3, "0"), s=(0, "3Gi"))), OPTIMIZATION)
    assert (len(plan.moves), plan.after.hot_nodes) == (2, 0)


PRIORITIES = [
    ("low before high", {"low": (2, 0), "high": (2, 100), "rest": (5, 100)}, ["low"]),
    ("a larger low one before a smaller high one", {"low": (4, 0), "high": (1, 100), "rest": (4, 50)}, ["low"]),
    (
        "two low ones before a high one",
        {"low": (1, 0), "low2": (1, 0), "high": (3, 100), "rest": (5, 100)},
        ["low", "low2"],
    ),
    ("a high one where the low ones are not enough", {"low": (1, 0), "high": (3, 9), "rest": (6, 90)}, ["high"]),
    ("negative is lowest", {"low": (2, -1), "high": (2, 0), "rest": (5, 0)}, ["low"]),
]


@pytest.mark.parametrize(("pods", "moved"), [pytest.param(*row[1:], id=row[0]) for row in PRIORITIES])
def test_low_priorities_go_first_and_high_ones_stay_where_they_can(
    pods: dict[str, tuple[int, int]], moved: list[str]
) -> None:
    rows = [pod(name, on="a", cpu=cpu, priority=priority) for name, (cpu, priority) in pods.items()]
    assert [*moves_of(planned(cluster(A, B, rows), OPTIMIZATION))] == moved


TARGETS: list[tuple[str, list[Row], dict[str, str]]] = [
    ("the coolest", [A, B, C, pod("x", on="b", cpu=1), *sized(p=5, q=4)], {"q": "c"}),
    (
        "by the scarcer resource",
        [A, B, C, pod("x", on="b", cpu=1), pod("y", on="c", memory="2Gi"), *sized(p=5, q=4)],
        {"q": "b"},
    ),
    ("exactly to the threshold", [A, B, pod("x", on="b", cpu=4), *sized(p=5, q=4)], {"q": "b"}),
    ("never over it", [A, B, pod("x", on="b", cpu="4001m"), *sized(p=5, q=4)], {}),
    (
        "never over the other resource",
        [A, B, pod("x", on="b", memory="7Gi"), *both(p=(5, "1Gi"), q=(4, "2Gi"))],
        {"p": "b"},
    ),
    (
        "not onto a node that is hot already",
        [A, B, *daemonset("d", on=["b"], cpu=9), *both(p=(1, "5Gi"), q=(1, "4Gi"))],
        {},
    ),
    (
        "a hot node's own pods come and go in one plan",
        [A, B, C, pod("x", on="b", cpu=5), pod("y", on="b", cpu=4), *sized(p=5, q=4)],
        {"q": "c", "y": "c"},
    ),
    (
        "not onto closed nodes",
        [A, node("b", cordoned=True), node("c", control_plane=True), node("d", maintenance=True), *sized(p=5, q=4)],
        {},
    ),
]


@pytest.mark.parametrize(("rows", "moves"), [pytest.param(*row[1:], id=row[0]) for row in TARGETS])
def test_pods_go_to_the_coolest_node_that_stays_under_its_thresholds(rows: list[Row], moves: dict[str, str]) -> None:
    assert moves_of(planned(cluster(rows), OPTIMIZATION)) == moves


def test_a_pod_that_asks_no_cpu_goes_to_no_node_that_is_hot_in_cpu() -> None:
    rows = [*both(p=(0, "5Gi"), q=(0, "4Gi")), *daemonset("agent", on=["b"], cpu=9)]
    plan = planned(cluster(A, B, C, pod("x", on="c", memory="1Gi"), rows), OPTIMIZATION)
    assert moves_of(plan) == {"q": "c"}
    assert moves_of(planned(cluster(A, B, rows), OPTIMIZATION)) == {}


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(node("a", cpu=10, cordoned=True), id="cordoned"),
        pytest.param(node("a", cpu=10, taints=["x:NoSchedule"]), id="tainted"),
        pytest.param(node("a", cpu=10, maintenance=True), id="maintenance"),
    ],
)
def test_a_hot_node_is_cooled_even_where_nothing_may_come(state: Row) -> None:
    assert moves_of(planned(cluster(state, B, sized(p=5, q=4)), OPTIMIZATION)) == {"q": "b"}


def test_a_node_that_is_not_ready_is_left_to_others() -> None:
    plan = planned(cluster(node("a", cpu=10, ready=False), B, sized(p=5, q=4)), OPTIMIZATION)
    assert (plan.moves, plan.rejections) == ((), ())


def test_when_a_pod_may_not_move_the_next_best_goes_and_the_first_says_why() -> None:
    plan = planned(cluster(A, B, daemonset("agent", on=["a"], cpu=2), sized(p=5, q=3)), OPTIMIZATION)
    assert moves_of(plan) == {"q": "b"}
    assert rejected(plan) == {"agent-0": "DaemonSet"}


def test_when_it_is_not_possible_every_pod_says_why() -> None:
    full = [pod("x", on="b", cpu=8), pod("s", on="a", cpu=1, priority=2_000_000_000)]
    plan = planned(cluster(A, B, full, sized(p=5, q=3)), OPTIMIZATION)
    assert plan.moves == ()
    assert rejected(plan) == {"p": "NoTarget", "q": "NoTarget", "s": "SystemCritical"}
    assert plan.after.hot_nodes == 1


def test_a_node_that_would_be_over_its_threshold_is_not_called_the_pods_own() -> None:
    plan = planned(cluster(A, B, pod("x", on="b", cpu="5500m"), sized(p=5, q=4)), OPTIMIZATION)
    reason = rejection_of(plan, "q").reason
    assert "threshold" in reason
    assert "its own" not in reason


def test_the_reason_says_what_was_wrong_and_how_the_target_is_then() -> None:
    plan = planned(cluster(A, B, both(p=(5, "5Gi"), q=(4, "4Gi"))), OPTIMIZATION, memory=75)
    said = "a is at 90.0% CPU (threshold 80%) and 90.0% memory (threshold 75%); b is then at 40.0% CPU and 40.0% memory"
    assert plan.moves[0].reason == said


ROOM_LATER: list[tuple[str, ClusterSnapshot]] = [
    (
        "the other hot node makes room",
        cluster(
            node("a", cpu=8, memory="8Gi"),
            node("b", cpu=2, memory="8Gi"),
            node("c", cpu=16, memory="4Gi"),
            pod("p", on="a", cpu=1, memory="4Gi"),
            pod("q", on="a", cpu=1, memory="4Gi"),
            pod("tight", on="b", cpu=2, memory="128Mi", priority=10),
        ),
    ),
]


@pytest.mark.parametrize("snapshot", [pytest.param(row[1], id=row[0]) for row in ROOM_LATER])
def test_no_node_is_left_hot_that_the_next_plan_would_cool(snapshot: ClusterSnapshot) -> None:
    plan = planned(snapshot, OPTIMIZATION)
    assert planned(carry_out(snapshot, plan), OPTIMIZATION).moves == ()
    assert plan.after.hot_nodes == 0
