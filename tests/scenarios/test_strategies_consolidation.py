"""Consolidation: whole nodes are emptied onto others, the dearest for the fewest moves first, and it settles."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import pytest

from rescheduler.config.errors import ConfigErrors
from rescheduler.config.loader import load
from rescheduler.model import labels
from rescheduler.model.objects import Node
from rescheduler.model.plan import Plan
from rescheduler.strategies import settings_by_name
from tests.support.builders import Row, cluster, daemonset, deployment, node, pdb, pod, statefulset
from tests.support.planning import PolicyOptions, carry_out, moves_of, planned, rejected, rejection_of
from tests.support.policies import plan_by

CONSOLIDATION = "Consolidation"
A, B, C, D = (node(name, cpu=10, memory="10Gi") for name in "abcd")


def packed(*rows: Row | Sequence[Row], **settings: object) -> Plan:
    return planned(cluster(*rows), CONSOLIDATION, settings={CONSOLIDATION: settings})


def on(place: str, *cpu: int | str, priority: int = 0) -> list[Row]:
    return [pod(f"{place}{n}", on=place, cpu=amount, priority=priority) for n, amount in enumerate(cpu)]


def noted(found: Node, key: str, text: str) -> Node:
    return msgspec.structs.replace(found, annotations={key: text})


def priced(found: Node, price: str) -> Node:
    return noted(found, "rescheduler.io/price", price)


def emptied(plan: Plan) -> set[str]:
    return {move.source for move in plan.moves}


SCALE_DOWN, DISRUPT = "cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt"

EMPTIED: list[tuple[str, list[Row], dict[str, object], set[str]]] = [
    ("the node with fewer pods", [A, B, *on("a", 2, 2), *on("b", 1, 1, 1)], {}, {"a"}),
    ("one after the other", [A, B, C, *on("a", 5), *on("b", 1), *on("c", 1)], {}, {"b", "c"}),
    ("no node is left half empty", [A, B, *on("a", 3, 3), *on("b", 2, 2, 1)], {}, set()),
    ("thresholds hold", [A, B, *on("a", 4, 1), *on("b", 4)], {}, set()),
    ("all but the DaemonSet's", [A, B, *daemonset("d", on=["a", "b"], cpu=1), *on("a", 4), *on("b", 1)], {}, {"b"}),
    ("a node with nothing but daemons is no target", [A, B, *on("a", 4), *daemonset("d", on=["b"], cpu=1)], {}, set()),
    ("an empty node is no target", [A, B, C, *on("a", 2), *on("b", 7, 1)], {}, set()),
    ("a busy node is not worth it", [A, B, *on("a", 3, 3), *on("b", 1, priority=9)], {"maxUtilization": 5}, set()),
    ("just within what is worth it", [A, B, *on("a", 3, 2), *on("b", *[1] * 3)], {"maxUtilization": 50}, {"a"}),
    ("just above it", [A, B, *on("a", 3, 2), *on("b", *[1] * 3)], {"maxUtilization": 29}, set()),
    ("so many nodes stay", [A, B, C, *on("a", 5), *on("b", 1), *on("c", 1)], {"minNodes": 2}, {"b"}),
    ("no more in one plan", [A, B, C, *on("a", 5), *on("b", 1), *on("c", 1)], {"maxNodesPerPlan": 1}, {"b"}),
    ("a cordoned node", [node("a", cpu=10, cordoned=True), B, *on("a", 1), *on("b", 7)], {}, set()),
    ("a node under maintenance", [node("a", cpu=10, maintenance=True), B, *on("a", 1), *on("b", 7)], {}, set()),
    ("a node that is not ready", [node("a", cpu=10, ready=False), B, *on("a", 1), *on("b", 7)], {}, set()),
    ("a node of the control plane", [node("a", cpu=10, control_plane=True), B, *on("a", 1), *on("b", 7)], {}, set()),
    ("for the autoscaler to leave alone", [noted(A, SCALE_DOWN, "true"), B, *on("a", 1), *on("b", 7)], {}, set()),
    ("for Karpenter to leave alone", [noted(A, DISRUPT, "true"), B, *on("a", 1), *on("b", 7)], {}, set()),
    ("marked, but not with true", [noted(A, DISRUPT, "false"), B, *on("a", 1), *on("b", 7)], {}, {"a"}),
    ("a kept node takes pods in", [noted(A, DISRUPT, "true"), B, *on("a", 1), *on("b", 4)], {}, {"b"}),
    ("nothing at all", [A, B], {}, set()),
]


@pytest.mark.parametrize(("rows", "settings", "nodes"), [pytest.param(*row[1:], id=row[0]) for row in EMPTIED])
def test_whole_nodes_are_emptied_or_none(rows: list[Row], settings: dict[str, object], nodes: set[str]) -> None:
    snapshot = cluster(rows)
    plan = planned(snapshot, CONSOLIDATION, settings={CONSOLIDATION: settings})
    assert emptied(plan) == nodes
    left = carry_out(snapshot, plan).pods
    assert all(found.owner is not None for found in left if found.node in nodes)
    assert {move.target for move in plan.moves}.isdisjoint(nodes)


GPU = "example.com/gpu"
RICH = node("a", cpu=10, memory="10Gi", resources={GPU: 4})
TRAINING = pod("training", on="a", cpu=1, resources={GPU: 1})
OTHER = node("c", cpu=10, memory="10Gi", resources={GPU: 4})
LIMITS: list[tuple[str, list[Row], str, set[str]]] = [
    ("none", [A, B, *on("a", 2), pod("m", on="b", memory="6Gi")], "maxUtilization: 30", {"a"}),
    (
        "more of a resource",
        [A, B, pod("m", on="a", memory="6Gi"), *on("b", 6)],
        "{maxUtilization: 30, maxUtilizationOf: {memory: 60}}",
        {"a"},
    ),
    (
        "just not enough of it",
        [A, B, pod("m", on="a", memory="6Gi"), *on("b", 6)],
        "{maxUtilization: 30, maxUtilizationOf: {memory: 59}}",
        set(),
    ),
    (
        "less of a resource",
        [A, B, *on("a", 2), *on("b", 6)],
        "{maxUtilization: 50, maxUtilizationOf: {cpu: 19}}",
        set(),
    ),
    ("devices within the limit for all", [RICH, OTHER, TRAINING, *on("c", 6)], "{}", {"a"}),
    ("devices in use", [RICH, OTHER, TRAINING, *on("c", 6)], f"{{maxUtilizationOf: {{{GPU}: 0}}}}", set()),
    ("devices not in use", [RICH, B, *on("a", 1), *on("b", 6)], f"{{maxUtilizationOf: {{{GPU}: 0}}}}", {"a"}),
    ("no devices", [A, B, *on("a", 1), *on("b", 6)], f"{{maxUtilizationOf: {{{GPU}: 0}}}}", {"a"}),
]


DENSE = node("a", cpu=10, memory="10Gi", pods=4)
BUSY_DEVICES = pod("training", on="a", cpu=1, resources={GPU: 3})
UNNAMED: list[tuple[str, list[Row], dict[str, object], set[str]]] = [
    ("devices in use", [RICH, OTHER, BUSY_DEVICES, *on("c", 6)], {}, set()),
    ("devices in use up to the limit", [RICH, OTHER, BUSY_DEVICES, *on("c", 6)], {"maxUtilization": 75}, {"a"}),
    ("devices that are looked away from", [RICH, OTHER, BUSY_DEVICES, *on("c", 6)], {"of": {GPU: 100}}, {"a"}),
    ("few devices in use", [RICH, OTHER, TRAINING, *on("c", 6)], {}, {"a"}),
    ("few devices in use, and fewer allowed", [RICH, OTHER, TRAINING, *on("c", 6)], {"of": {GPU: 0}}, set()),
    ("pods", [DENSE, B, *on("a", "1m", "1m", "1m"), *on("b", 6)], {}, set()),
    ("few pods", [DENSE, B, *on("a", "1m", "1m"), *on("b", 6)], {}, {"a"}),
    ("pods of the node itself", [DENSE, B, *daemonset("d", on=["a", "a"]), *on("a", 1), *on("b", 6)], {}, set()),
    ("more devices than there are", [A, OTHER, BUSY_DEVICES, *on("c", 6)], {"of": {GPU: 100}}, set()),
]


@pytest.mark.parametrize(("rows", "settings", "nodes"), [pytest.param(*row[1:], id=row[0]) for row in UNNAMED])
def test_every_resource_that_a_node_has_counts_for_whether_it_is_worth_emptying_without_a_threshold_of_it(
    rows: list[Row], settings: dict[str, object], nodes: set[str]
) -> None:
    given = {("maxUtilizationOf" if name == "of" else name): value for name, value in settings.items()}
    assert emptied(packed(rows, **given)) == nodes
    assert bool(packed(rows, **given, minUnderusedNodes=1).moves) == bool(nodes)


@pytest.mark.parametrize(("rows", "settings", "nodes"), [pytest.param(*row[1:], id=row[0]) for row in LIMITS])
def test_a_node_is_worth_emptying_if_it_is_within_the_limit_of_each_resource(
    rows: list[Row], settings: str, nodes: set[str]
) -> None:
    given = settings if settings.startswith("{") else f"{{{settings}}}"
    config = f"enabledStrategies: [Consolidation]\nthresholds: {{{GPU}: 90}}\nstrategies: {{Consolidation: {given}}}\n"
    assert emptied(plan_by(cluster(rows), config)) == nodes


FILTERED: list[tuple[str, dict[str, object], set[str]]] = [
    ("none", {}, {"a", "b"}),
    ("a node of which all pods are meant", {"namespaces": ["shop"]}, {"a"}),
    ("excluded namespaces", {"excludedNamespaces": ["shop"]}, {"c"}),
    ("labels", {"podSelector": "app=web"}, set()),
    ("owners", {"ownerKinds": ["Pod"]}, {"a", "b"}),
    ("no owners", {"excludedOwnerKinds": ["Pod"]}, set()),
]


@pytest.mark.parametrize(("filters", "nodes"), [pytest.param(*row[1:], id=row[0]) for row in FILTERED])
def test_a_pod_that_the_filters_do_not_mean_stays_and_keeps_its_node(
    filters: dict[str, object], nodes: set[str]
) -> None:
    rows = [
        *[pod(f"s{n}", on="a", cpu=1, namespace="shop") for n in range(2)],
        *daemonset("agent", on=["a", "b", "c"], cpu="100m"),
        pod("t", on="b", cpu=1, namespace="shop"),
        pod("w", on="b", cpu=1, labels={"app": "web"}),
        *on("c", 2, 1, priority=10**9),
    ]
    snapshot = cluster(A, B, C, rows)
    plan = planned(snapshot, CONSOLIDATION, settings={CONSOLIDATION: filters})
    assert emptied(plan) == nodes
    assert plan.rejections == ()
    assert planned(carry_out(snapshot, plan), CONSOLIDATION, settings={CONSOLIDATION: filters}).moves == ()


class TestMinUnderusedNodes:
    ROWS = (A, B, C, D, *on("a", 1), *on("b", "500m", "500m"), *on("c", "5500m"))

    def test_nothing_is_emptied_unless_so_many_nodes_are_worth_it_and_the_plan_says_so(self) -> None:
        config = "enabledStrategies: [Consolidation]\nstrategies: {Consolidation: {minUnderusedNodes: %d}}\n"
        snapshot = cluster(self.ROWS)
        enough = plan_by(snapshot, config % 2)
        assert emptied(enough) == {"a", "b"}
        assert enough.warnings == ()
        few = plan_by(snapshot, config % 3)  # d is vacant already, c is busy
        assert (few.moves, few.rejections) == ((), ())
        assert few.warnings == ("Consolidation moves nothing: 2 nodes are worth emptying, and minUnderusedNodes is 3",)

    def test_nothing_is_said_where_no_node_is_worth_it(self) -> None:
        config = "enabledStrategies: [Consolidation]\nstrategies: {Consolidation: {minUnderusedNodes: 3}}\n"
        assert plan_by(cluster(A, B, on("a", 7), on("b", 7)), config).warnings == ()

    @pytest.mark.parametrize(
        ("kept", "settings"),
        [
            pytest.param(noted(B, DISRUPT, "true"), {}, id="marked to be kept"),
            pytest.param(node("b", cpu=10, cordoned=True), {}, id="cordoned"),
            pytest.param(B, {"podSelector": "app!=b"}, id="with a pod that is not meant"),
        ],
    )
    def test_nodes_that_cannot_be_emptied_do_not_count(self, kept: Row, settings: dict[str, object]) -> None:
        rows = [A, kept, C, *on("a", 1), pod("b0", on="b", cpu=1, labels={"app": "b"}), *on("c", 6)]
        assert emptied(packed(rows, minUnderusedNodes=1, **settings)) == {"a"}
        assert packed(rows, minUnderusedNodes=2, **settings).moves == ()


def test_the_moves_of_a_node_stand_or_fall_together() -> None:
    plan = packed(A, B, C, on("a", 3, 1, 1), on("b", 1, 1), on("c", 1))
    assert {(move.source, move.proposal) for move in plan.moves} == {("c", 0), ("b", 1)}


def test_pods_go_to_the_fullest_node_that_takes_them() -> None:
    plan = packed(A, B, C, D, on("a", 2), on("b", 4, 2), on("c", 5, 2), on("d", 7, 1), minNodes=3)
    assert moves_of(plan) == {"a0": "b"}


def test_a_pod_goes_straight_to_where_it_can_stay() -> None:
    """b takes what c bears, and a takes both: nothing moves twice, in this cycle or the next."""
    snapshot = cluster(A, B, C, on("a", 4, priority=1), on("b", 2), on("c", 1))
    plan = planned(snapshot, CONSOLIDATION)
    assert moves_of(plan) == {"c0": "a", "b0": "a"}
    assert planned(carry_out(snapshot, plan), CONSOLIDATION).moves == ()


KEEPING: list[tuple[str, list[Row], PolicyOptions, str]] = [
    (
        "must not be moved",
        [pod("keeper", "a", labels={"scheduler.alpha.kubernetes.io/rescheduling": "disabled"})],
        {},
        "ReschedulingDisabled",
    ),
    ("is of a namespace that is left alone", [pod("keeper", "a", namespace="kube-system")], {}, "ExcludedNamespace"),
    ("has data on its node", [pod("keeper", "a", local_storage=["scratch"])], {}, "LocalStorage"),
    ("is too young", [pod("keeper", "a", age=1)], {}, "MinPodAge"),
]


@pytest.mark.parametrize(("rows", "options", "guard"), [pytest.param(*row[1:], id=row[0]) for row in KEEPING])
def test_a_pod_that_may_not_be_moved_keeps_its_node_and_the_plan_says_so(
    rows: list[Row], options: PolicyOptions, guard: str
) -> None:
    plan = planned(cluster(A, B, rows, on("a", 1, 1), on("b", 6)), CONSOLIDATION, **options)
    assert plan.moves == ()
    assert rejected(plan) == {"keeper": guard}


def test_a_spent_disruption_budget_keeps_the_node() -> None:
    sets = statefulset("db", on=["a", "b"], cpu=1)
    plan = packed(A, B, sets, pdb("db", min_available=2, allowed=0), on("b", 6))
    assert plan.moves == ()
    assert rejected(plan) == {"db-0": "DisruptionBudget"}


def test_a_budget_that_two_pods_of_a_node_would_need_keeps_it_whole() -> None:
    sets = statefulset("db", on=["a", "a", "b"], cpu=1)
    plan = packed(A, B, sets, pdb("db", min_available=2, allowed=1), on("b", 6))
    assert plan.moves == ()
    assert "DisruptionBudget" in rejected(plan).values()


def test_more_pods_than_a_plan_may_move_keep_their_node_and_the_plan_says_so() -> None:
    plan = planned(cluster(A, B, on("a", 1, 1, 1), on("b", 6)), CONSOLIDATION, max_moves=2)
    assert plan.moves == ()
    assert rejection_of(plan, "a0").guard == "MaxReschedulePods"
    assert rejection_of(plan, "a0").reason == "3 pods move together or not at all, and maxReschedulePods is 2"


def test_where_the_pods_fit_nowhere_the_plan_says_so() -> None:
    plan = packed(A, B, on("a", 4, 1), on("b", 6, 1))
    assert plan.moves == ()
    assert rejected(plan) == {"a0": "NoTarget"}


PRICED: list[tuple[str, list[Row], dict[str, object], str]] = [
    ("equal", [A, B], {}, "a"),
    ("the annotation", [A, priced(B, "2.5")], {}, "b"),
    (
        "another annotation",
        [A, noted(B, "rescheduler.io/hourly", "3")],
        {"priceAnnotation": "rescheduler.io/hourly"},
        "b",
    ),
    ("a cheaper one", [priced(A, "0.1"), B], {}, "b"),
    ("one of no price beside the default", [priced(A, "0.1"), B], {"defaultPrice": 0.01}, "a"),
    ("what is no number", [priced(A, "a lot"), priced(B, "1.1")], {}, "b"),
    ("a label", [A, node("b", cpu=10, labels={"price": "9"})], {"priceLabel": "price"}, "b"),
    (
        "by type",
        [node("a", cpu=10, labels={"type": "s"}), node("b", cpu=10, labels={"type": "l"})],
        {"priceLabel": "type", "prices": {"s": 1, "l": 2}},
        "b",
    ),
    (
        "the label before the annotation",
        [priced(A, "5"), priced(node("b", cpu=10, labels={"price": "9"}), "1")],
        {"priceLabel": "price"},
        "b",
    ),
]


@pytest.mark.parametrize(("nodes", "settings", "first"), [pytest.param(*row[1:], id=row[0]) for row in PRICED])
def test_the_dearer_of_two_nodes_that_bear_the_same_is_emptied(
    nodes: list[Row], settings: dict[str, object], first: str
) -> None:
    assert emptied(packed(nodes, on("a", 2, 2), on("b", 2, 2), **settings)) == {first}


def test_what_counts_is_the_price_for_each_move() -> None:
    dear = priced(A, "2.9")
    assert emptied(packed(dear, B, on("a", 1, 1, 1), on("b", 1), minNodes=1)) == {"b"}
    dearer = priced(A, "3.1")
    assert emptied(packed(dearer, B, on("a", 1, 1, 1), on("b", 1), minNodes=1)) == {"a"}


def test_an_eviction_counts_twice_and_a_high_priority_more() -> None:
    evicted = statefulset("db", on=["a"], cpu=1)
    assert emptied(planned(cluster(A, B, evicted, on("b", 1)), CONSOLIDATION, allow=["single_replica"])) == {"b"}
    assert emptied(packed(A, B, on("a", 1, priority=10**6), on("b", 1))) == {"b"}


def test_the_reason_says_what_it_takes_and_what_it_saves() -> None:
    plan = packed(priced(A, "0.25"), B, on("a", 2), on("b", 3, 3))
    assert plan.moves[0].reason == (
        "a is used to 20.0% CPU: emptying it takes 1 moves and saves 0.25 an hour; "
        "b is then at 80.0% CPU and 0.0% memory"
    )


def test_other_strategies_do_not_fill_vacant_nodes_unless_a_node_is_hot() -> None:
    rows = [A, B, C, *on("a", 3, 3, 3), *on("b", 3, 3)]
    assert moves_of(planned(cluster(rows), "ResourceOptimization")) == {"a0": "c"}
    # b would do for it, so the vacant node is left alone
    cool = [A, B, C, *on("a", 3, 3, 3), *on("b", 3, 2)]
    assert moves_of(planned(cluster(cool), "ResourceOptimization", CONSOLIDATION)) == {"a0": "b"}
    # here b would be hot, so the vacant node is used
    assert moves_of(planned(cluster(rows), "ResourceOptimization", CONSOLIDATION, cpu=85)) == {"a0": "c"}


def test_a_hot_node_sheds_onto_a_vacant_one_if_no_node_in_use_suits_the_others() -> None:
    """On b there is room, but one of the workload already: RemoveDuplicates would want a second one away again."""
    rows = deployment("web", on=["a", "b"], cpu=2)
    snapshot = cluster(A, B, C, rows, pod("rest", on="a", cpu=7, labels={labels.RESCHEDULING: "disabled"}))
    plan = planned(snapshot, "ResourceOptimization", "RemoveDuplicates", CONSOLIDATION)
    assert [(move.source, move.target) for move in plan.moves] == [("a", "c")]


def test_load_balancing_is_refused_beside_it() -> None:
    file = "apiVersion: rescheduler.io/v1alpha1\nkind: ReschedulerConfiguration\n"
    known = settings_by_name()
    with pytest.raises(ConfigErrors, match="undo each other"):
        load(f"{file}enabledStrategies: [LoadBalancing, Consolidation]", "f", known)
    alone = load(f"{file}enabledStrategies: [Consolidation]", "f", known)
    assert alone.fields.enabled_strategies == ("Consolidation",)


BAD_SETTINGS = [
    (
        "priceAnnotation: example.com/price",
        "is not read: give a name that begins with rescheduler.io/, or use priceLabel",
    ),
    ("prices: {m5.large: -1}", "the price of 'm5.large' is -1, which is below 0"),
    ("maxUtilization: 0", "maxUtilization"),
    ("maxNodesPerPlan: 0", "maxNodesPerPlan"),
]


@pytest.mark.parametrize(("text", "said"), BAD_SETTINGS)
def test_settings_that_cannot_be_meant_are_refused(text: str, said: str) -> None:
    file = "apiVersion: rescheduler.io/v1alpha1\nkind: ReschedulerConfiguration\n"
    with pytest.raises(ConfigErrors, match=re.escape(said)):
        load(f"{file}strategies: {{Consolidation: {{{text}}}}}", "f", settings_by_name())


def test_in_node_pools_each_is_packed_by_itself() -> None:
    config = """\
enabledStrategies: [LoadBalancing]
pools: [{name: spot, nodeSelector: pool=spot, enabledStrategies: [Consolidation]}]
"""
    spot = [node(name, cpu=10, labels={"pool": "spot"}) for name in "st"]
    rows = [A, B, *spot, *on("a", 2), *on("b", 2), *on("s", 1), *on("t", 2)]
    assert moves_of(plan_by(cluster(rows), config)) == {"s0": "t"}
    alone = [A, *spot[:1], *on("a", 2), *on("s", 1)]
    assert plan_by(cluster(alone), config).moves == ()
