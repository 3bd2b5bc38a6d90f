"""Filters: for each a pod that it keeps in place, its neighbour that may go, and what lifts it.

In the manner of test_guards, on the same stage: everything that may leave node a does.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from rescheduler.model import labels
from rescheduler.model.policy import Filters
from rescheduler.model.selector import parse_selector
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.revalidate import RequestedMove, Revalidator
from tests.scenarios.test_guards import only_kept, stored
from tests.support.builders import claim, cluster, deployment, namespace, node, pdb, pod, statefulset, volume
from tests.support.planning import policy_of

GPU = parse_selector("pool=gpu")
EVICT = {labels.EVICT: ""}


def on_stage(*rows: object, classes: dict[str, int] | None = None) -> ClusterSnapshot:
    """Node a is of the pool cpu, b of the pool gpu."""
    stage = [node("a", labels={"pool": "cpu"}), node("b", labels={"pool": "gpu"})]
    snapshot = cluster(stage, *rows)  # type: ignore[arg-type]  # rows and lists of them
    return replace(snapshot, priority_classes=classes or {})


def of_class(name: str) -> list[object]:
    return [
        pod("p", on="a", claims=["data"]),
        claim("data", "v", storage_class=name, modes=["ReadWriteMany"]),
        volume("v"),
    ]


FILTERED = [
    (
        "NamespaceFilter",
        on_stage(pod("p", on="a")),
        Filters(namespaces=("shop",)),
        "default is not in filters",
    ),
    (
        "NamespaceFilter",
        on_stage(pod("p", on="a"), namespace("default", {"team": "web"})),
        Filters(namespace_selector="team=shop"),
        "namespaceSelector team=shop does not select",
    ),
    (
        "NamespaceFilter",
        on_stage(pod("p", on="a")),
        Filters(namespace_selector="team=shop"),
        "the labels of namespace default, which filters.namespaceSelector goes by, are not known",
    ),
    (
        "NodeFilter",
        on_stage(pod("p", on="a")),
        Filters(node_selector="pool=gpu"),
        "nodeSelector pool=gpu does not select its node",
    ),
    (
        "PodFilter",
        on_stage(pod("p", on="a")),
        Filters(pod_selector="tier=web"),
        "podSelector tier=web does not",
    ),
    (
        "PriorityThreshold",
        on_stage(pod("p", on="a", priority=100)),
        Filters(priority_threshold=100),
        "100 is not below",
    ),
    ("PriorityThreshold", on_stage(pod("p", on="a", priority=-5)), Filters(priority_threshold=-10), "-5 is not below"),
    (
        "PriorityThreshold",
        on_stage(pod("p", on="a", priority=500), classes={"high": 500}),
        Filters(priority_threshold="high"),
        "its priority 500 is not below that of high (500)",
    ),
    (
        "PriorityThreshold",
        on_stage(pod("p", on="a")),
        Filters(priority_threshold="high"),
        "PriorityClass high, which filters.priorityThreshold names, is not known",
    ),
    (
        "MinReplicas",
        on_stage(deployment("web", on=["a", "b"])),
        Filters(min_replicas=3),
        "its controller has 2 replicas, fewer than filters.minReplicas (3)",
    ),
    ("WithoutController", on_stage(pod("p", on="a")), Filters(without_controller=False), "it has no controller"),
    (
        "WithoutDisruptionBudget",
        on_stage(pod("p", on="a", labels={"app": "p"}), pdb("other", allowed=1, match={"app": "q"})),
        Filters(without_disruption_budget=False),
        "no disruption budget selects it",
    ),
    ("PersistentVolumes", on_stage(stored()), Filters(persistent_volumes=False), "it uses claim data, and filters"),
    (
        "PersistentVolumes",
        on_stage(of_class("fast")),
        Filters(persistent_volumes=False, protected_storage_classes=("fast",)),
        "claim data is of storage class fast",
    ),
    (
        "PersistentVolumes",
        on_stage(of_class("")),
        Filters(persistent_volumes=False, protected_storage_classes=("fast",)),
        "which storage class claim data has is not known",
    ),
]

LET = [
    ("a namespace that is named", on_stage(pod("p", on="a")), Filters(namespaces=("default",))),
    (
        "a namespace with the labels",
        on_stage(pod("p", on="a"), namespace("default", {"team": "shop"})),
        Filters(namespace_selector="team=shop"),
    ),
    ("a node with the labels", on_stage(pod("p", on="a")), Filters(node_selector="pool=cpu")),
    ("a pod with the labels", on_stage(pod("p", on="a", labels={"tier": "web"})), Filters(pod_selector="tier")),
    ("a lower priority", on_stage(pod("p", on="a", priority=99)), Filters(priority_threshold=100)),
    (
        "a priority below the class",
        on_stage(pod("p", on="a", priority=499), classes={"high": 500}),
        Filters(priority_threshold="high"),
    ),
    ("a class that is always there", on_stage(pod("p", on="a")), Filters(priority_threshold="system-cluster-critical")),
    ("enough replicas", on_stage(deployment("web", on=["a", "b"])), Filters(min_replicas=2)),
    ("a pod of nobody has no replicas", on_stage(pod("p", on="a")), Filters(min_replicas=5)),
    ("a pod with a controller", on_stage(deployment("web", on=["a"])), Filters(without_controller=False)),
    (
        "a pod with a budget",
        on_stage(deployment("web", on=["a"]), pdb("web", allowed=1, match={"app": "web"})),
        Filters(without_disruption_budget=False),
    ),
    ("a pod without claims", on_stage(pod("p", on="a")), Filters(persistent_volumes=False)),
    (
        "a claim of another class",
        on_stage(of_class("slow")),
        Filters(persistent_volumes=False, protected_storage_classes=("fast",)),
    ),
]

LIFTED = {
    "PodFilter",
    "PriorityThreshold",
    "MinReplicas",
    "WithoutController",
    "WithoutDisruptionBudget",
    "PersistentVolumes",
}
"""By the mark `evict`; where a pod is, is not for it to say."""


@pytest.mark.parametrize(
    ("guard", "snapshot", "filters", "words"), [pytest.param(*row, id=f"{row[0]}: {row[3][:40]}") for row in FILTERED]
)
def test_a_filter_keeps_a_pod_in_place_and_says_why(
    guard: str, snapshot: ClusterSnapshot, filters: Filters, words: str
) -> None:
    kept = only_kept(snapshot, {"filters": filters})
    assert kept is not None
    assert kept[0] == guard
    assert words in kept[1]


@pytest.mark.parametrize(("snapshot", "filters"), [pytest.param(*row[1:], id=row[0]) for row in LET])
def test_a_filter_lets_its_neighbour_go(snapshot: ClusterSnapshot, filters: Filters) -> None:
    assert only_kept(snapshot, {"filters": filters}) is None


@pytest.mark.parametrize(
    ("guard", "snapshot", "filters"), [pytest.param(*row[:3], id=f"{row[0]}: {row[3][:40]}") for row in FILTERED]
)
def test_the_mark_evict_lifts_filters_about_the_pod_and_not_those_about_where_it_is(
    guard: str, snapshot: ClusterSnapshot, filters: Filters
) -> None:
    assert (only_kept(marked(snapshot), {"filters": filters}) is None) == (guard in LIFTED)
    deaf = replace(filters, honour_evict_mark=False)
    kept = only_kept(marked(snapshot), {"filters": deaf})
    assert kept is not None
    assert kept[0] == guard


@pytest.mark.parametrize(
    ("snapshot", "filters"), [pytest.param(*row[1:3], id=f"{row[0]}: {row[3][:40]}") for row in FILTERED]
)
def test_whoever_orders_a_move_by_hand_is_not_bound_by_filters(snapshot: ClusterSnapshot, filters: Filters) -> None:
    name = next(each.name for each in snapshot.pods if each.node == "a")
    revalidator = Revalidator(snapshot, policy_of({"filters": filters}))
    assert revalidator.check(RequestedMove("default", name)).method is None
    assert revalidator.check(RequestedMove("default", name, by_hand=True)).method is not None


@pytest.mark.parametrize(
    ("rows", "guard"),
    [
        ([pod("p", on="a", age=1)], "MinPodAge"),
        ([pod("p", on="a", local_storage=["emptyDir tmp"])], "LocalStorage"),
        (statefulset("db", on=["a"]), "SingleReplica"),
    ],
)
def test_the_mark_evict_lifts_the_guards_that_are_only_cautious(rows: list[object], guard: str) -> None:
    kept = only_kept(on_stage(rows), {})
    assert kept is not None
    assert kept[0] == guard
    assert only_kept(marked(on_stage(rows)), {}) is None


@pytest.mark.parametrize(
    ("rows", "guard"),
    [
        ([pod("p", on="a", priority=2_000_000_000)], "SystemCritical"),
        ([pod("p", on="a", namespace="kube-system")], "ExcludedNamespace"),
        ([pod("p", on="a", labels={labels.RESCHEDULING: "disabled"})], "ReschedulingDisabled"),
        ([pod("p", on="a", resource_claims=True)], "ResourceClaims"),
        ([pod("p", on="a", inline_disks=["rbd disk"])], "Volumes"),
        ([pod("p", on="a", deleting=True)], "Deleting"),
    ],
)
def test_the_mark_evict_does_not_lift_what_keeps_pods_safe(rows: list[object], guard: str) -> None:
    kept = only_kept(marked(on_stage(rows)), {})
    assert kept is not None
    assert kept[0] == guard


def marked(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """The same, with the mark on every pod, whatever its value."""
    pods = tuple(msgspec.structs.replace(each, annotations={**each.annotations, **EVICT}) for each in snapshot.pods)
    return replace(snapshot, pods=pods)
