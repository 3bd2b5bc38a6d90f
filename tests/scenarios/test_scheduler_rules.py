"""The scheduler's rules that surprise, one sentence each: our feasibility and its plain twin both keep them.

Each row of the first tables: what is said, the cluster, the pod that would come, the node, and all predicates that
refuse it. The plain rules are in `test_predicates`; on generated clusters both judges are compared in
`test_feasibility_agrees_with_its_twin`, and feasibility with the real scheduler in `tests.contract.agreement`.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from rescheduler.model.objects import Pod
from rescheduler.model.shape import Shape, Toleration
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import Columns
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.whatif import WhatIf
from tests.support.builders import (
    away,
    claim,
    cluster,
    csinode,
    deployment,
    namespace,
    near,
    node,
    pod,
    pod_named,
    spread,
    storage_class,
    volume,
)
from tests.support.twin import World, keeps_rules, refusals

Case = tuple[str, ClusterSnapshot, Pod, str, set[str]]
WEB, DB = {"app": "web"}, {"app": "db"}
A = node("a", zone="z1")
B = node("b", zone="z1")
C = node("c", zone="z2")
BARE = node("bare")
C_IN_ROW = node("c", zone="z2", labels={"row": "1"})
ASKS_ZERO = msgspec.structs.replace(pod("n"), shape=Shape(requests=(("cpu", 0),)))
ON_ONE_NODE: list[Case] = [
    ("a preference does not", cluster(node("a", taints=["k:PreferNoSchedule"])), pod("new"), "a", set()),
    (
        "an operator of nothing is Equal",
        cluster(node("a", taints=["k=v:NoSchedule"])),
        pod("new", tolerations=[Toleration("k", "", "v", "")]),
        "a",
        set(),
    ),
    ("NotIn holds for an absent key", cluster(BARE), pod("n", node_affinity=["zone notin (z1)"]), "bare", set()),
    ("an empty list matches nothing", cluster(A), pod("n", node_affinity=[]), "a", {"NodeAffinity"}),
    (
        "what a pod holds counts, not what it would ask",
        cluster(A, pod("x", on="a", cpu=3, held={"cpu": 1})),
        pod("new", cpu=3),
        "a",
        set(),
    ),
    ("an overfull node takes a pod of no requests", cluster(A, pod("x", on="a", cpu=9)), pod("n"), "a", set()),
    ("or of a request of 0", cluster(A, pod("x", on="a", cpu=9)), ASKS_ZERO, "a", set()),
    ("a finished pod holds nothing", cluster(A, pod("x", on="a", cpu=4, phase="Failed")), pod("n", cpu=4), "a", set()),
]
SHUNS_WEB = pod("loner", on="a", labels=DB, anti_affinity=[away(WEB, "zone")])
BETWEEN_PODS: list[Case] = [
    ("the first of its kind is free to choose", cluster(A, C), pod("n", labels=WEB, affinity=[near(WEB)]), "c", set()),
    (
        "but not where the key is missing",
        cluster(A, BARE),
        pod("n", labels=WEB, affinity=[near(WEB)]),
        "bare",
        {"PodAffinity"},
    ),
    (
        "nor once there is a second one",
        cluster(A, C, pod("x", on="a", labels=WEB)),
        pod("n", labels=WEB, affinity=[near(WEB)]),
        "c",
        {"PodAffinity"},
    ),
    (
        "a second one on a node without the key is not seen",
        cluster(BARE, C, pod("x", on="bare", labels=WEB)),
        pod("n", labels=WEB, affinity=[near(WEB)]),
        "c",
        set(),
    ),
    (
        "one on a node with one of the keys is",
        cluster(A, C_IN_ROW, pod("x", on="a", labels=WEB)),
        pod("n", labels=WEB, affinity=[near(WEB), near(WEB, "row")]),
        "c",
        {"PodAffinity"},
    ),
    (
        "pods of another kind do not end the exemption",
        cluster(A, C, pod("x", on="a", labels=DB)),
        pod("n", labels=WEB, affinity=[near(WEB)]),
        "c",
        set(),
    ),
    (
        "the exemption needs the keys of all terms",
        cluster(A),
        pod("n", labels=WEB, affinity=[near(WEB), near(WEB, "row")]),
        "a",
        {"PodAffinity"},
    ),
    (
        "two pods that match a term each do not satisfy both terms",
        cluster(A, pod("x", on="a", labels=WEB), pod("y", on="a", labels=DB)),
        pod("n", affinity=[near(WEB), near(DB)]),
        "a",
        {"PodAffinity"},
    ),
    (
        "two pods that match all terms may serve one term each",
        cluster(
            node("a", zone="z1", labels={"row": "1"}),
            node("b", zone="z1", labels={"row": "2"}),
            node("c", zone="z2", labels={"row": "1"}),
            pod("x", on="b", labels=WEB),
            pod("y", on="c", labels=WEB),
        ),
        pod("n", affinity=[near(WEB), near(WEB, "row")]),
        "a",
        set(),
    ),
    ("no selector meets nobody", cluster(A, pod("x", on="a")), pod("n", affinity=[near(None)]), "a", {"PodAffinity"}),
    (
        "or about those it selects",
        cluster(A, namespace("shop", {"team": "s"}), pod("x", on="a", namespace="shop", labels=WEB)),
        pod("n", anti_affinity=[away(WEB, namespace_selector={"team": "s"})]),
        "a",
        {"PodAntiAffinity"},
    ),
    (
        "a namespace that nobody listed has its name as a label",
        cluster(A, pod("x", on="a", namespace="shop", labels=WEB)),
        pod("n", anti_affinity=[away(WEB, namespace_selector={"kubernetes.io/metadata.name": "shop"})]),
        "a",
        {"PodAntiAffinity"},
    ),
    ("one that is there shuns the new one", cluster(A, B, SHUNS_WEB), pod("n", labels=WEB), "b", {"PodAntiAffinity"}),
    ("a node without the key is in no domain", cluster(A, BARE, SHUNS_WEB), pod("n", labels=WEB), "bare", set()),
]
EVEN = [spread(1, "zone", WEB)]
TWO_ZONES = (A, C)
ONE_WEB = (*TWO_ZONES, pod("x", on="a", labels=WEB))
SPREAD: list[Case] = [
    ("a pod that is not counted itself adds nothing", cluster(ONE_WEB), pod("n", spread=EVEN), "a", set()),
    (
        "too few domains make the minimum 0",
        cluster(A, C, pod("x", on="a", labels=WEB), pod("y", on="c", labels=WEB)),
        pod("n", labels=WEB, spread=[spread(1, "zone", WEB, min_domains=3)]),
        "a",
        {"PodTopologySpread"},
    ),
    (
        "terminating pods are not counted",
        cluster(A, C, pod("x", on="a", labels=WEB, deleting=True)),
        pod("n", labels=WEB, spread=EVEN),
        "a",
        set(),
    ),
    (
        "nor those of other namespaces",
        cluster(A, C, pod("x", on="a", labels=WEB, namespace="shop")),
        pod("n", labels=WEB, spread=EVEN),
        "a",
        set(),
    ),
    (
        "a zone that the pod may not enter does not hold the minimum down",
        cluster(ONE_WEB),
        pod("n", labels=WEB, spread=EVEN, node_selector={"zone": "z1"}),
        "a",
        set(),
    ),
    (
        "unless the constraint ignores that",
        cluster(ONE_WEB),
        pod("n", labels=WEB, spread=[spread(1, "zone", WEB, honor_affinity=False)], node_selector={"zone": "z1"}),
        "a",
        {"PodTopologySpread"},
    ),
    (
        "a tainted zone does",
        cluster(A, node("c", zone="z2", taints=["k:NoSchedule"]), pod("x", on="a", labels=WEB)),
        pod("n", labels=WEB, spread=EVEN),
        "a",
        {"PodTopologySpread"},
    ),
    (
        "unless the constraint honours taints",
        cluster(A, node("c", zone="z2", taints=["k:NoSchedule"]), pod("x", on="a", labels=WEB)),
        pod("n", labels=WEB, spread=[spread(1, "zone", WEB, honor_taints=True)]),
        "a",
        set(),
    ),
    (
        "and they are not tolerated",
        cluster(A, node("c", zone="z2", taints=["k:NoSchedule"]), pod("x", on="a", labels=WEB)),
        pod("n", labels=WEB, spread=[spread(1, "zone", WEB, honor_taints=True)], tolerations=["k"]),
        "a",
        {"PodTopologySpread"},
    ),
    (
        "a node that lacks another constraint's key is not counted for any",
        cluster(A, node("c", zone="z2", labels={"row": "1"}), pod("x", on="c", labels=WEB)),
        pod("n", labels=WEB, spread=[*EVEN, spread(5, "row", WEB)]),
        "c",
        set(),
    ),
    (
        "matchLabelKeys tell revisions apart",
        cluster(A, C, pod("x", on="a", labels={**WEB, "rev": "1"})),
        pod("n", labels={**WEB, "rev": "2"}, spread=[spread(1, "zone", WEB, match_label_keys=["rev"])]),
        "a",
        set(),
    ),
    (
        "keys that the pod lacks are passed over",
        cluster(A, C, pod("x", on="a", labels={**WEB, "rev": "1"})),
        pod("n", labels=WEB, spread=[spread(1, "zone", WEB, match_label_keys=["rev"])]),
        "a",
        {"PodTopologySpread"},
    ),
    (
        "nor does one that selects all",
        cluster(ONE_WEB, node("b", zone="z1"), pod("y", on="b", labels=WEB)),
        pod("n", labels=WEB, spread=[spread(1, "zone", {})]),
        "a",
        set(),
    ),
]
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
USES = pod("n", claims=["data"])
BOUND = claim("data", "pv")
VOLUMES: list[Case] = [
    ("an unbound one of no class waits", cluster(A, claim("data")), USES, "a", {"VolumeBinding"}),
    ("a waiting class makes one", cluster(A, claim("data", storage_class="s"), storage_class("s")), USES, "a", set()),
    (
        "if it has a provisioner",
        cluster(A, claim("data", storage_class="s"), storage_class("s", provisioner="kubernetes.io/no-provisioner")),
        USES,
        "a",
        {"VolumeBinding"},
    ),
    ("a set of zones admits each", cluster(A, BOUND, volume("pv", labels={"zone": "z0__z1"})), USES, "a", set()),
    ("a broken set says nothing", cluster(A, BOUND, volume("pv", labels={"zone": "z0__"})), USES, "a", set()),
    ("a node without zones passes", cluster(BARE, BOUND, volume("pv", labels={"zone": "z2"})), USES, "bare", set()),
    (
        "with a region only it does not",
        cluster(node("a", labels={"region": "r"}), BOUND, volume("pv", labels={"zone": "z2"})),
        USES,
        "a",
        {"VolumeZone"},
    ),
    ("an old label meets a new one", cluster(A, BOUND, volume("pv", labels={BETA_ZONE: "z1"})), USES, "a", set()),
    (
        "a new label does not meet an old one",
        cluster(node("a", labels={BETA_ZONE: "z1"}), BOUND, volume("pv", labels={"zone": "z1"})),
        USES,
        "a",
        {"VolumeZone"},
    ),
    (
        "its namesake elsewhere is another",
        cluster(
            A,
            claim("data", "pv", modes=["ReadWriteOncePod"]),
            volume("pv"),
            pod("x", on="a", claims=["data"], namespace="shop"),
        ),
        USES,
        "a",
        set(),
    ),
    (
        "a volume that is there already is not new",
        cluster(A, csinode("a", 1), BOUND, volume("pv"), pod("x", on="a", claims=["data"])),
        USES,
        "a",
        set(),
    ),
    (
        "other drivers have their own",
        cluster(
            A,
            csinode("a", 1),
            BOUND,
            volume("pv"),
            claim("d2", "p2"),
            volume("p2", driver="o.io"),
            pod("x", on="a", claims=["d2"]),
        ),
        USES,
        "a",
        set(),
    ),
    ("a driver without a limit has none", cluster(A, csinode("a", {"o.io": 0}), BOUND, volume("pv")), USES, "a", set()),
    (
        "a volume that is not there counts by its claim's class",
        cluster(
            A,
            csinode("a", 1),
            BOUND,
            volume("pv"),
            claim("d2", "gone", storage_class="s"),
            storage_class("s"),
            pod("x", on="a", claims=["d2"]),
        ),
        USES,
        "a",
        {"NodeVolumeLimits"},
    ),
    (
        "a class that is not there counts for no driver",
        cluster(A, csinode("a", 0), claim("data", storage_class="gone")),
        USES,
        "a",
        {"VolumeBinding"},
    ),
    (
        "volumes to be made count",
        cluster(A, csinode("a", 0), claim("data", storage_class="s"), storage_class("s")),
        USES,
        "a",
        {"NodeVolumeLimits"},
    ),
]


def feasibility_of(snapshot: ClusterSnapshot) -> Feasibility:
    return Feasibility(WhatIf(Columns(snapshot)))


@pytest.mark.parametrize(
    ("snapshot", "new", "where", "expected"),
    [pytest.param(*row[1:], id=row[0]) for row in (*ON_ONE_NODE, *BETWEEN_PODS, *SPREAD, *VOLUMES)],
)
def test_a_node_refuses_what_the_scheduler_refuses(
    snapshot: ClusterSnapshot, new: Pod, where: str, expected: set[str]
) -> None:
    both = replace(snapshot, pods=(*snapshot.pods, new))
    feasible = feasibility_of(both)
    assert feasible.refused_by(len(both.pods) - 1, feasible.whatif.columns.node_index[where]) == expected
    assert refusals(World(both), new, where) == expected


def test_a_handoff_is_judged_beside_its_original_and_an_eviction_without_it() -> None:
    snapshot = cluster(A, B, pod("web", on="a", cpu=3, labels=WEB, anti_affinity=[away(WEB, "zone")]))
    web, world, feasible = pod_named(snapshot, "web"), World(snapshot), feasibility_of(snapshot)
    assert feasible.refused_by(0, 1) == refusals(world, web, "b") == {"PodAntiAffinity"}
    feasible.whatif.remove(0, 0)
    assert feasible.refused_by(0, 1) == refusals(world.without(web), web, "b") == set()


PAIR = [pod("front", on="a", labels=WEB, affinity=[near(DB)]), pod("back", on="a", labels=DB)]
MOVES = [
    ("a lone pod goes anywhere", cluster(A, C, pod("p", on="a", labels=WEB)), "p", "c", True),
    ("company may be left within the zone", cluster(A, B, PAIR), "front", "b", True),
    ("but not beyond it", cluster(A, C, PAIR), "front", "c", False),
    ("nor may the company leave", cluster(A, C, PAIR), "back", "c", False),
    ("unless it has a stand-in", cluster(A, C, PAIR, pod("b2", on="a", labels=DB)), "back", "c", True),
    ("the first of its kind may go", cluster(A, C, pod("p", on="a", labels=WEB, affinity=[near(WEB)])), "p", "c", True),
    (
        "whoever had no company loses none",
        cluster(A, B, C, pod("q", on="c", affinity=[near(DB)]), pod("back", on="a", labels=DB)),
        "back",
        "b",
        True,
    ),
    ("an even spread stays even", cluster(A, C, deployment("web", on=["a", "c"], spread=EVEN)), 0, "c", False),
    ("a move within the zone is none", cluster(A, B, C, deployment("web", on=["a", "c"], spread=EVEN)), 0, "b", True),
    ("a skew may be mended", cluster(A, C, deployment("web", on=["a", "a", "a"], spread=EVEN)), 0, "c", True),
    (
        "a bad skew may stay bad",
        cluster(A, B, C, deployment("web", on=["a", "a", "a"], spread=EVEN)),
        0,
        "b",
        True,
    ),
    (
        "another's constraint counts too",
        cluster(A, C, pod("p", on="a", labels=WEB), pod("holder", on="c", labels=WEB, spread=EVEN)),
        "p",
        "c",
        False,
    ),
    (
        "if it speaks of the moved pod",
        cluster(A, C, pod("p", on="a", labels=DB), pod("holder", on="c", labels=WEB, spread=EVEN)),
        "p",
        "c",
        True,
    ),
]
"""What is said, the cluster, the pod that moves (its name or place), the target, and whether all rules are kept."""


@pytest.mark.parametrize(("snapshot", "name", "target", "kept"), [pytest.param(*row[1:], id=row[0]) for row in MOVES])
def test_a_move_is_safe_if_what_held_before_holds_once_the_original_has_gone(
    snapshot: ClusterSnapshot, name: str | int, target: str, kept: bool
) -> None:
    moved = snapshot.pods[name] if isinstance(name, int) else pod_named(snapshot, name)
    feasible = feasibility_of(snapshot)
    columns = feasible.whatif.columns
    lost = feasible.try_move(
        columns.pod_index[moved.namespace, moved.name], columns.node_index[target], side_by_side=True
    )
    assert (lost == "") is kept
    assert keeps_rules(World(snapshot), moved, moved.node, target) is kept
