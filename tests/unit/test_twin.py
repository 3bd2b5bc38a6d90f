"""The twin itself, nailed to the scheduler's rules one sentence at a time: nodes, and pods beside pods.

Each row: what is said, the cluster, the pod that would come, the node, and all predicates that refuse it.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescheduler.model.objects import Pod
from rescheduler.model.shape import HostPort, Shape, Toleration
from rescheduler.model.snapshot import ClusterSnapshot
from tests.support.builders import away, cluster, namespace, near, node, node_named, pod, pod_named
from tests.support.examples import examples
from tests.support.generated import clusters, pods_of, random_cluster
from tests.support.twin import World, refusals

Case = tuple[str, ClusterSnapshot, Pod, str, set[str]]
WEB, DB = {"app": "web"}, {"app": "db"}

A = node("a", zone="z1")
B = node("b", zone="z1")
C = node("c", zone="z2")
BARE = node("bare")
C_IN_ROW = node("c", zone="z2", labels={"row": "1"})
ASKS_ZERO = msgspec.structs.replace(pod("n"), shape=Shape(requests=(("cpu", 0),)))

ON_ONE_NODE: list[Case] = [
    ("an empty node takes a pod", cluster(A), pod("new", cpu="4"), "a", set()),
    ("a cordon holds", cluster(node("a", cordoned=True)), pod("n", tolerations=["*"]), "a", {"NodeUnschedulable"}),
    (
        "each of our own rules is named",
        cluster(node("a", ready=False, control_plane=True, maintenance=True, deleting=True, problem="odd")),
        pod("new"),
        "a",
        {"NodeNotReady", "ControlPlane", "Maintenance", "NodeDeleting", "NodeProblem"},
    ),
    ("a taint refuses", cluster(node("a", taints=["k=v:NoSchedule"])), pod("new"), "a", {"TaintToleration"}),
    ("so does NoExecute", cluster(node("a", taints=["k:NoExecute"])), pod("new"), "a", {"TaintToleration"}),
    ("a preference does not", cluster(node("a", taints=["k:PreferNoSchedule"])), pod("new"), "a", set()),
    (
        "a toleration of another value does not help",
        cluster(node("a", taints=["k=v:NoSchedule"])),
        pod("new", tolerations=["k=w:NoSchedule"]),
        "a",
        {"TaintToleration"},
    ),
    (
        "an operator of nothing is Equal",
        cluster(node("a", taints=["k=v:NoSchedule"])),
        pod("new", tolerations=[Toleration("k", "", "v", "")]),
        "a",
        set(),
    ),
    ("a selected label must be there", cluster(A), pod("n", node_selector={"zone": "z2"}), "a", {"NodeAffinity"}),
    ("one of two terms is enough", cluster(A), pod("n", node_affinity=["zone=z2", "zone=z1"]), "a", set()),
    ("NotIn holds for an absent key", cluster(BARE), pod("n", node_affinity=["zone notin (z1)"]), "bare", set()),
    ("In does not", cluster(BARE), pod("n", node_affinity=["zone in (z1)"]), "bare", {"NodeAffinity"}),
    ("an empty list matches nothing", cluster(A), pod("n", node_affinity=[]), "a", {"NodeAffinity"}),
    ("Gt counts", cluster(node("a", labels={"cores": "10"})), pod("n", node_affinity=["cores>9"]), "a", set()),
    ("names are fields", cluster(A, B), pod("n", node_affinity=[node_named("b")]), "a", {"NodeAffinity"}),
    ("held room is gone", cluster(A, pod("x", on="a", cpu=3)), pod("n", cpu=2), "a", {"NodeResourcesFit"}),
    ("all that is left may be had", cluster(A, pod("x", on="a", cpu=3)), pod("n", cpu=1), "a", set()),
    (
        "what a pod holds counts, not what it would ask",
        cluster(A, pod("x", on="a", cpu=3, held={"cpu": 1})),
        pod("new", cpu=3),
        "a",
        set(),
    ),
    ("an overfull node takes a pod of no requests", cluster(A, pod("x", on="a", cpu=9)), pod("n"), "a", set()),
    ("or of a request of 0", cluster(A, pod("x", on="a", cpu=9)), ASKS_ZERO, "a", set()),
    ("an unlisted resource is 0", cluster(A), pod("n", resources={"x.io/gpu": 1}), "a", {"NodeResourcesFit"}),
    ("pods are counted", cluster(node("a", pods=1), pod("x", on="a")), pod("n"), "a", {"NodeResourcesFit"}),
    ("up to the number", cluster(node("a", pods=2), pod("x", on="a")), pod("n"), "a", set()),
    ("no pods listed, no pods held", cluster(node("a", pods=None)), pod("n"), "a", {"NodeResourcesFit"}),
    ("a finished pod holds nothing", cluster(A, pod("x", on="a", cpu=4, phase="Failed")), pod("n", cpu=4), "a", set()),
    (
        "a nominated pod holds its room",
        cluster(A, pod("x", nominated="a", cpu=4)),
        pod("new", cpu=1),
        "a",
        {"NodeResourcesFit"},
    ),
    (
        "a port is taken once",
        cluster(A, pod("x", on="a", host_ports=[80])),
        pod("n", host_ports=[80]),
        "a",
        {"NodePorts"},
    ),
    (
        "TCP and UDP are apart",
        cluster(A, pod("x", on="a", host_ports=[80])),
        pod("n", host_ports=["UDP:80"]),
        "a",
        set(),
    ),
    (
        "addresses are apart",
        cluster(A, pod("x", on="a", host_ports=["TCP:10.0.0.1:80"])),
        pod("n", host_ports=["TCP:10.0.0.2:80"]),
        "a",
        set(),
    ),
    (
        "the same address is not",
        cluster(A, pod("x", on="a", host_ports=["TCP:10.0.0.1:80"])),
        pod("n", host_ports=["TCP:10.0.0.1:80"]),
        "a",
        {"NodePorts"},
    ),
    (
        "no address is all of them, no protocol is TCP",
        cluster(A, pod("x", on="a", host_ports=["TCP:10.0.0.1:80"])),
        pod("n", host_ports=[HostPort("", "", 80)]),
        "a",
        {"NodePorts"},
    ),
    (
        "all addresses include each",
        cluster(A, pod("x", on="a", host_ports=["TCP:10.0.0.1:80"])),
        pod("n", host_ports=[80]),
        "a",
        {"NodePorts"},
    ),
]

SHUNS_WEB = pod("loner", on="a", labels=DB, anti_affinity=[away(WEB, "zone")])
BETWEEN_PODS: list[Case] = [
    ("near is in the zone", cluster(A, B, pod("x", on="a", labels=WEB)), pod("n", affinity=[near(WEB)]), "b", set()),
    (
        "and not beyond",
        cluster(A, C, pod("x", on="a", labels=WEB)),
        pod("n", affinity=[near(WEB)]),
        "c",
        {"PodAffinity"},
    ),
    ("the first of its kind is free to choose", cluster(A, C), pod("n", labels=WEB, affinity=[near(WEB)]), "c", set()),
    (
        "but not where the key is missing",
        cluster(A, BARE),
        pod("n", labels=WEB, affinity=[near(WEB)]),
        "bare",
        {"PodAffinity"},
    ),
    ("nor for what it is not itself", cluster(A), pod("n", labels=DB, affinity=[near(WEB)]), "a", {"PodAffinity"}),
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
        "every term must hold",
        cluster(A, C_IN_ROW, pod("x", on="c", labels=WEB)),
        pod("n", affinity=[near(WEB, "row"), near(WEB)]),
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
        "a term is about its own namespace",
        cluster(A, pod("x", on="a", namespace="shop", labels=WEB)),
        pod("n", anti_affinity=[away(WEB)]),
        "a",
        set(),
    ),
    (
        "or about those it names",
        cluster(A, pod("x", on="a", namespace="shop", labels=WEB)),
        pod("n", anti_affinity=[away(WEB, namespaces=["shop"])]),
        "a",
        {"PodAntiAffinity"},
    ),
    (
        "named ones leave its own out",
        cluster(A, pod("x", on="a", labels=WEB)),
        pod("n", anti_affinity=[away(WEB, namespaces=["shop"])]),
        "a",
        set(),
    ),
    (
        "or about those it selects",
        cluster(A, namespace("shop", {"team": "s"}), pod("x", on="a", namespace="shop", labels=WEB)),
        pod("n", anti_affinity=[away(WEB, namespace_selector={"team": "s"})]),
        "a",
        {"PodAntiAffinity"},
    ),
    (
        "and no others",
        cluster(A, namespace("shop", {"team": "t"}), pod("x", on="a", namespace="shop", labels=WEB)),
        pod("n", anti_affinity=[away(WEB, namespace_selector={"team": "s"})]),
        "a",
        set(),
    ),
    (
        "a namespace that nobody listed has its name as a label",
        cluster(A, pod("x", on="a", namespace="shop", labels=WEB)),
        pod("n", anti_affinity=[away(WEB, namespace_selector={"kubernetes.io/metadata.name": "shop"})]),
        "a",
        {"PodAntiAffinity"},
    ),
    ("one that is there shuns the new one", cluster(A, B, SHUNS_WEB), pod("n", labels=WEB), "b", {"PodAntiAffinity"}),
    ("but not in another domain", cluster(A, C, SHUNS_WEB), pod("n", labels=WEB), "c", set()),
    ("a node without the key is in no domain", cluster(A, BARE, SHUNS_WEB), pod("n", labels=WEB), "bare", set()),
]


@pytest.mark.parametrize(
    ("snapshot", "new", "where", "expected"),
    [pytest.param(*row[1:], id=row[0]) for row in (*ON_ONE_NODE, *BETWEEN_PODS)],
)
def test_the_twin_refuses_what_the_scheduler_refuses(
    snapshot: ClusterSnapshot, new: Pod, where: str, expected: set[str]
) -> None:
    assert refusals(World(snapshot), new, where) == expected


def test_a_handoff_is_judged_beside_its_original_and_an_eviction_without_it() -> None:
    snapshot = cluster(A, B, pod("web", on="a", cpu=3, labels=WEB, anti_affinity=[away(WEB, "zone")]))
    web, world = pod_named(snapshot, "web"), World(snapshot)
    assert refusals(world, web, "b") == {"PodAntiAffinity"}
    assert refusals(world.without(web), web, "b") == set()


def test_a_moved_pod_holds_on_its_new_node_what_it_asks_for() -> None:
    snapshot = cluster(A, B, pod("web", on="a", cpu=3, held={"cpu": 1}))
    web = pod_named(snapshot, "web")
    moved = World(snapshot, [(web, "b")])
    assert refusals(moved, pod("new", cpu=2), "b") == {"NodeResourcesFit"}


@settings(max_examples=examples(few=10, many=50), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_fewer_pods_never_take_room_ports_or_peace(data: st.DataObject) -> None:
    snapshot = data.draw(clusters(min_pods=1))
    new = data.draw(pods_of(snapshot))
    world = World(snapshot)
    emptier = world.without(data.draw(pods_of(snapshot)))
    steady = {"NodeResourcesFit", "NodePorts", "PodAntiAffinity", "VolumeRestrictions"}
    for where in snapshot.nodes:
        assert refusals(emptier, new, where.name) & steady <= refusals(world, new, where.name)


def test_a_rolled_cluster_is_the_same_for_the_same_seed() -> None:
    one, again = random_cluster(7, 20, 100), random_cluster(7, 20, 100)
    assert (one.nodes, [(p.full_name, p.node, p.uid) for p in one.pods]) == (
        again.nodes,
        [(p.full_name, p.node, p.uid) for p in again.pods],
    )
    assert (len(one.nodes), len(one.pods)) == (20, 100)
