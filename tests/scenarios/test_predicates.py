"""Predicates through the planner: x would be the best target but refuses for exactly one reason.

So the pod goes to the busier y, or where there is none is rejected with a tally that names the predicate; and where
that one thing is different, it goes to x.
"""

from __future__ import annotations

from typing import Unpack

import pytest

from rescheduler.model.objects import Node, Pod
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy
from rescheduler.planning.planner import Planner
from tests.support.builders import (
    PodOptions,
    Row,
    away,
    claim,
    cluster,
    csinode,
    near,
    node,
    node_named,
    pod,
    spread,
    statefulset,
    storage_class,
    toleration,
    volume,
)
from tests.support.planning import MAINTENANCE, moves_of, planned, rejection_of

AMD, ARM = {"kubernetes.io/arch": "amd64"}, {"kubernetes.io/arch": "arm64"}
A = node("a", maintenance=True, zone="za", labels={"region": "ra", **AMD})
GPU = "example.com/gpu"
WEB, DB = {"app": "web"}, {"app": "db"}
Y: list[Row] = [
    node(
        "y",
        cpu=16,
        memory="32Gi",
        zone="zy",
        labels={"disk": "ssd", "cores": "8", **AMD},
        resources={GPU: 4, "ephemeral-storage": "9Gi"},
    ),
    pod("busy", on="y", cpu=8, labels=DB),
]
X = node("x")


def me(**options: Unpack[PodOptions]) -> Pod:
    return pod("p", on="a", **options)


def wants(term: str) -> Pod:
    return me(node_affinity=[term])


def zoned(**options: Unpack[PodOptions]) -> list[Row]:
    """The pod, and two neighbours of its kind on x."""
    mine: PodOptions = {**options, "labels": WEB}
    return [
        me(**mine),
        node("x", zone="zx"),
        *(pod(name, on="x", labels=WEB) for name in ("o1", "o2")),
    ]


def stored(*more: Row, to: str = "v") -> list[Row]:
    return [me(claims=["c"]), claim("c", to, storage_class="fast", modes=["ReadWriteMany"]), *more]


def x_node(cpu: float = 4, **labels: str) -> Node:
    return node("x", cpu=cpu, labels=labels)


CASES: list[tuple[str, str, list[Row], list[Row]]] = [
    ("control plane", "ControlPlane", [me(), node("x", control_plane=True)], [me(), X]),
    ("not Ready", "NodeNotReady", [me(), node("x", ready=False)], [me(), X]),
    ("cordoned", "NodeUnschedulable", [me(), node("x", cordoned=True)], [me(), X]),
    ("maintenance", "Maintenance", [me(), node("x", maintenance=True)], [me(), X]),
    ("being deleted", "NodeDeleting", [me(), node("x", deleting=True)], [me(), X]),
    (
        "the cluster autoscaler removes it",
        "NodeBeingRemoved",
        [me(), node("x", taints=["DeletionCandidateOfClusterAutoscaler=1:PreferNoSchedule"])],
        [me(), node("x", taints=["other=1:PreferNoSchedule"])],
    ),
    (
        "Karpenter removes it, and the pod tolerates all",
        "NodeBeingRemoved",
        [me(tolerations=["*"]), node("x", taints=["karpenter.sh/disrupted:NoSchedule"])],
        [me(tolerations=["*"]), node("x", taints=["karpenter.sh/reserved:NoSchedule"])],
    ),
    (
        "another architecture",
        "NodePlatform",
        [me(), node("x", labels=ARM)],
        [me(), node("x", labels=AMD)],
    ),
    (
        "another architecture, and the pod asks for something else",
        "NodePlatform",
        [me(node_affinity=["!old"]), node("x", labels=ARM)],
        [me(node_affinity=["kubernetes.io/arch in (amd64,arm64)"]), node("x", labels=ARM)],
    ),
    ("unreadable", "NodeProblem", [me(), node("x", problem="f: Node x: junk")], [me(), X]),
    ("a taint", "TaintToleration", [me(), node("x", taints=["k=v:NoSchedule"])], [me(), X]),
    (
        "a taint of another value",
        "TaintToleration",
        [me(tolerations=["k=w:NoSchedule"]), node("x", taints=["k=v:NoSchedule"])],
        [me(tolerations=["k=v:NoSchedule"]), node("x", taints=["k=v:NoSchedule"])],
    ),
    (
        "a taint of another effect",
        "TaintToleration",
        [me(tolerations=["k:NoSchedule"]), node("x", taints=["k:NoExecute"])],
        [me(tolerations=["k"]), node("x", taints=["k:NoExecute"])],
    ),
    (
        "one taint of two",
        "TaintToleration",
        [me(tolerations=["k"]), node("x", taints=["k:NoSchedule", "m:NoSchedule"])],
        [me(tolerations=["*"]), node("x", taints=["k:NoSchedule", "m:NoSchedule"])],
    ),
    (
        "a taint that is too high",
        "TaintToleration",
        [me(tolerations=[toleration("k")._replace(operator="Lt", value="5")]), node("x", taints=["k=5:NoSchedule"])],
        [me(tolerations=[toleration("k")._replace(operator="Lt", value="6")]), node("x", taints=["k=5:NoSchedule"])],
    ),
    (
        "a node selector",
        "NodeAffinity",
        [me(node_selector={"disk": "ssd"}), X],
        [me(node_selector={"disk": "ssd"}), x_node(disk="ssd")],
    ),
    (
        "In",
        "NodeAffinity",
        [wants("disk in (ssd,nvme)"), x_node(disk="hdd")],
        [wants("disk in (ssd,nvme)"), x_node(disk="nvme")],
    ),
    ("NotIn", "NodeAffinity", [wants("disk notin (hdd)"), x_node(disk="hdd")], [wants("disk notin (hdd)"), X]),
    ("Exists", "NodeAffinity", [wants("disk"), X], [wants("disk"), x_node(disk="")]),
    ("DoesNotExist", "NodeAffinity", [wants("!old"), x_node(old="")], [wants("!old"), X]),
    ("Gt, equal", "NodeAffinity", [wants("cores>4"), x_node(cores="4")], [wants("cores>4"), x_node(cores="5")]),
    ("Gt, as numbers", "NodeAffinity", [wants("cores>7"), x_node(cores="-10")], [wants("cores>7"), x_node(cores="10")]),
    ("Gt, no number", "NodeAffinity", [wants("cores>4"), x_node(cores="many")], [wants("cores>4"), x_node(cores="9")]),
    ("Lt, absent", "NodeAffinity", [wants("cores<9"), X], [wants("cores<9"), x_node(cores="-1")]),
    (
        "a term of two halves",
        "NodeAffinity",
        [wants("disk=ssd,cores>4"), x_node(disk="ssd")],
        [me(node_affinity=["disk=ssd,cores>4", "!cores"]), x_node(disk="ssd")],
    ),
    (
        "a node's name",
        "NodeAffinity",
        [me(node_affinity=[node_named("y")]), X],
        [me(node_affinity=[node_named("x")]), X],
    ),
    ("cpu", "NodeResourcesFit", [me(cpu="4100m"), X], [me(cpu="3200m"), X]),
    ("memory", "NodeResourcesFit", [me(memory="9Gi"), X], [me(memory="6Gi"), X]),
    (
        "cpu that is held",
        "NodeResourcesFit",
        [me(cpu=2), X, pod("o", on="x", cpu=1, held={"cpu": 3})],
        [me(cpu=2), X, pod("o", on="x", cpu=1)],
    ),
    (
        "cpu that is promised",
        "NodeResourcesFit",
        [me(cpu=2), X, pod("o", nominated="x", cpu=3)],
        [me(cpu=2), X, pod("o", cpu=3)],
    ),
    (
        "an extended resource",
        "NodeResourcesFit",
        [me(resources={GPU: 1}), X],
        [me(resources={GPU: 1}), node("x", resources={GPU: 1})],
    ),
    (
        "an extended resource in use",
        "NodeResourcesFit",
        [me(resources={GPU: 1}), node("x", resources={GPU: 1}), pod("o", on="x", resources={GPU: 1})],
        [me(resources={GPU: 1}), node("x", resources={GPU: 2}), pod("o", on="x", resources={GPU: 1})],
    ),
    (
        "ephemeral storage",
        "NodeResourcesFit",
        [me(resources={"ephemeral-storage": "2Gi"}), node("x", resources={"ephemeral-storage": "1Gi"})],
        [me(resources={"ephemeral-storage": "1Gi"}), node("x", resources={"ephemeral-storage": "1Gi"})],
    ),
    (
        "the pod count",
        "NodeResourcesFit",
        [me(), node("x", pods=1), pod("o", on="x")],
        [me(), node("x", pods=1), pod("o", on="x", phase="Succeeded")],
    ),
    ("no pod count", "NodeResourcesFit", [me(), node("x", pods=None)], [me(), X]),
    (
        "a host port",
        "NodePorts",
        [me(host_ports=[80]), X, pod("o", on="x", host_ports=["TCP:10.0.0.1:80"])],
        [me(host_ports=[80]), X, pod("o", on="x", host_ports=["UDP:80", 81])],
    ),
    (
        "a host port of one address",
        "NodePorts",
        [me(host_ports=["TCP:10.0.0.1:80"]), X, pod("o", on="x", host_ports=["TCP:10.0.0.1:80"])],
        [me(host_ports=["TCP:10.0.0.1:80"]), X, pod("o", on="x", host_ports=["TCP:10.0.0.2:80"])],
    ),
    (
        "affinity",
        "PodAffinity",
        [me(affinity=[near(DB, "hostname")]), X],
        [me(affinity=[near(DB, "hostname")]), X, pod("o", on="x", labels=DB)],
    ),
    (
        "affinity in another namespace",
        "PodAffinity",
        [me(affinity=[near(DB, "hostname")]), X, pod("o", on="x", labels=DB, namespace="shop")],
        [me(affinity=[near(DB, "hostname", namespaces=["shop"])]), X, pod("o", on="x", labels=DB, namespace="shop")],
    ),
    (
        "anti-affinity of its own",
        "PodAntiAffinity",
        [me(anti_affinity=[away(WEB)]), X, pod("o", on="x", labels=WEB)],
        [me(anti_affinity=[away(WEB)]), X, pod("o", on="x")],
    ),
    (
        "anti-affinity of another",
        "PodAntiAffinity",
        [me(labels=WEB), X, pod("o", on="x", anti_affinity=[away(WEB)])],
        [me(labels=DB), X, pod("o", on="x", anti_affinity=[away(WEB)])],
    ),
    (
        "anti-affinity in its zone",
        "PodAntiAffinity",
        zoned(anti_affinity=[away(WEB, "zone")]),
        zoned(anti_affinity=[away(DB, "zone")]),
    ),
    ("spread", "PodTopologySpread", zoned(spread=[spread(1, "zone", WEB)]), zoned(spread=[spread(3, "zone", WEB)])),
    (
        "spread without the label",
        "PodTopologySpread",
        [me(labels=WEB, spread=[spread(1, "zone", WEB)]), X],
        [me(labels=WEB, spread=[spread(1, "zone", WEB, hard=False)]), X],
    ),
    (
        "a volume that doesn't reach",
        "VolumeBinding",
        stored(X, volume("v", node_affinity=["zone in (za,zy)"])),
        stored(node("x", zone="zx"), volume("v", node_affinity=["zone in (zx)"])),
    ),
    (
        "a volume to be made elsewhere",
        "VolumeBinding",
        stored(X, storage_class("fast", topologies=["zone=zy"]), to=""),
        stored(X, storage_class("fast"), to=""),
    ),
    (
        "a volume of another zone",
        "VolumeZone",
        stored(node("x", zone="zx"), volume("v", labels={"zone": "za__zy"})),
        stored(node("x", zone="zx"), volume("v", labels={"zone": "zx__za"})),
    ),
    (
        "too many volumes",
        "NodeVolumeLimits",
        stored(X, volume("v"), csinode("x", 0)),
        stored(X, volume("v"), csinode("x", 1)),
    ),
    (
        "one volume too many",
        "NodeVolumeLimits",
        stored(X, volume("v"), csinode("x", 1), volume("w"), claim("d", "w"), pod("o", on="x", claims=["d"])),
        stored(X, volume("v"), csinode("x", 1), pod("o", on="x", claims=["c"])),
    ),
]


@pytest.mark.parametrize(("predicate", "refused", "allowed"), [pytest.param(*row[1:], id=row[0]) for row in CASES])
def test_a_node_that_refuses_is_passed_over_for_a_busier_one_and_tallied_where_no_node_is_left(
    predicate: str, refused: list[Row], allowed: list[Row]
) -> None:
    assert moves_of(planned(cluster(A, allowed, Y), MAINTENANCE)) == {"p": "x"}
    assert moves_of(planned(cluster(A, refused, Y), MAINTENANCE)) == {"p": "y"}
    snapshot = cluster(A, refused)
    plan: Plan = planned(snapshot, MAINTENANCE)
    rejection = rejection_of(plan, "p")
    assert (rejection.guard, rejection.reason) == ("NoTarget", f"0/1 other nodes: 1 {predicate}")
    planner = Planner(snapshot, Policy())
    verdicts = planner.feasibility.verdicts(planner.columns.pod_index["default", "p"])
    refused_by, reason = verdicts[planner.columns.node_index["x"]]
    assert refused_by == predicate
    assert len(reason) > 5


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        pytest.param([claim("c", "v", modes=["ReadWriteMany"])], "VolumeBinding", id="no such volume"),
        pytest.param([claim("c", storage_class="fast", modes=["ReadWriteMany"])], "VolumeBinding", id="no such class"),
        pytest.param(
            [claim("c", storage_class="s", modes=["ReadWriteMany"]), storage_class("s", wait=False)],
            "VolumeBinding",
            id="not bound yet",
        ),
    ],
)
def test_a_claim_that_no_node_can_serve_keeps_its_pod(rows: list[Row], words: str) -> None:
    plan = planned(cluster(A, X, me(claims=["c"]), rows), MAINTENANCE)
    assert f"1 {words}" in rejection_of(plan, "p").reason


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        pytest.param(
            [claim("c", "v", modes=["ReadWriteOncePod"]), volume("v"), pod("other", on="b", claims=["c"])],
            "VolumeRestrictions",
            id="one pod only, and another has it",
        ),
        pytest.param([], "VolumeBinding", id="no such claim"),
    ],
)
def test_a_claim_that_no_node_can_serve_keeps_a_pod_that_would_be_evicted(rows: list[Row], words: str) -> None:
    """The original is gone when an eviction is judged, so its own use of the claim is no hindrance."""
    replicas = statefulset("db", on=["a", "b"], claims=["c"])
    plan = planned(cluster(A, node("b"), X, replicas, rows), MAINTENANCE)
    rejection = rejection_of(plan, "db-0")
    assert rejection.guard == "NoTarget"
    assert f"2 {words}" in rejection.reason


def test_a_claim_for_one_pod_follows_the_only_pod_that_has_it() -> None:
    rows: list[Row] = [
        claim("c", "v", modes=["ReadWriteOncePod"]),
        volume("v"),
        *statefulset("db", on=["a"], claims=["c"]),
    ]
    assert moves_of(planned(cluster(A, X, rows), MAINTENANCE, allow=["single_replica"])) == {"db-0": "x"}


def test_every_predicate_has_a_case() -> None:
    planner = Planner(cluster(A), Policy())
    assert {p.name for p in planner.feasibility.predicates} == {row[1] for row in CASES} | {"VolumeRestrictions"}
