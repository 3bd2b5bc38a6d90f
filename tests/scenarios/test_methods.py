"""Methods: how each pod is moved, and what it means for where it may go.

A handoff or copy is judged beside the original and once that has gone; an eviction without it. Pods leave node a.
"""

from __future__ import annotations

import msgspec
import pytest

from rescheduler.model import labels
from rescheduler.model.objects import Owner, Pod, Workload
from rescheduler.model.plan import Method
from rescheduler.model.policy import Filters
from rescheduler.model.snapshot import ClusterSnapshot
from tests.support.builders import (
    Row,
    TemplateOptions,
    away,
    claim,
    cluster,
    daemonset,
    deployment,
    job,
    near,
    node,
    pdb,
    pod,
    replicaset,
    selector,
    spread,
    statefulset,
    volume,
)
from tests.support.planning import MAINTENANCE, OPTIMIZATION, moves_of, planned, rejected, rejection_of

HOW = labels.MIGRATION_METHOD
ALL = ["jobs", "single_replica", "local_storage"]


def disk(*modes: str) -> list[Row]:
    return [claim("data", "v", modes=modes), volume("v")]


def selecting(rows: list[Row], text: str) -> list[Row]:
    """The same rows, with a ReplicaSet that selects by this."""
    chosen = selector(text)
    return [
        msgspec.structs.replace(row, selector=chosen) if isinstance(row, Workload) and row.kind == "ReplicaSet" else row
        for row in rows
    ]


def unlisted(rows: list[Row]) -> list[Row]:
    """The pods alone, as in an input without workloads."""
    return [row for row in rows if isinstance(row, Pod)]


WEB = deployment("web", on=["a", "b"])
CHOSEN: list[tuple[str, list[Row], str, Method]] = [
    ("a Deployment", WEB, "auto", Method.HANDOFF),
    ("a Deployment of one", deployment("web", on=["a"]), "auto", Method.HANDOFF),
    ("evict for all", WEB, "evict", Method.EVICT),
    ("handoff for all", WEB, "handoff", Method.HANDOFF),
    ("a Deployment that says evict", deployment("web", on=["a"], annotations={HOW: "evict"}), "auto", Method.EVICT),
    ("a pod that says evict", deployment("web", on=["a"], pod_annotations={HOW: "evict"}), "auto", Method.EVICT),
    ("a Deployment that says auto", deployment("web", on=["a"], annotations={HOW: "auto"}), "evict", Method.HANDOFF),
    ("one that says handoff", deployment("web", on=["a"], annotations={HOW: "handoff"}), "evict", Method.HANDOFF),
    (
        "the pod's word before its Deployment's",
        deployment("web", on=["a"], annotations={HOW: "evict"}, pod_annotations={HOW: "handoff"}),
        "auto",
        Method.HANDOFF,
    ),
    ("Recreate", deployment("web", on=["a", "b"], recreate=True), "auto", Method.EVICT),
    ("maxSurge 0", deployment("web", on=["a", "b"], no_surge=True), "auto", Method.EVICT),
    ("not Ready", deployment("web", on=["a", "b"], ready=False), "auto", Method.EVICT),
    ("a shared volume", deployment("web", on=["a"], claims=["data"]) + disk("ReadWriteMany"), "auto", Method.HANDOFF),
    ("a volume to read", deployment("web", on=["a"], claims=["data"]) + disk("ReadOnlyMany"), "auto", Method.HANDOFF),
    (
        "shared or not, as one likes",
        deployment("web", on=["a"], claims=["data"]) + disk("ReadWriteOnce", "ReadWriteMany"),
        "auto",
        Method.HANDOFF,
    ),
    (
        "a volume to read, or for one node",
        deployment("web", on=["a"], claims=["data"]) + disk("ReadWriteOnce", "ReadOnlyMany"),
        "auto",
        Method.EVICT,
    ),
    (
        "a volume of one node",
        deployment("web", on=["a"], claims=["data"]) + disk("ReadWriteOnce"),
        "auto",
        Method.EVICT,
    ),
    (
        "a volume of one pod",
        deployment("web", on=["a"], claims=["data"]) + disk("ReadWriteOncePod"),
        "auto",
        Method.EVICT,
    ),
    ("a ReplicaSet of nobody's", replicaset("web", on=["a"]), "auto", Method.HANDOFF),
    (
        "whose only label a budget needs",
        [*replicaset("web", on=["a"]), pdb("web", allowed=1)],
        "auto",
        Method.EVICT,
    ),
    (
        "that has another label to withhold",
        [*selecting(replicaset("web", on=["a"], labels={"x": "y"}), "app=web,x"), pdb("web", allowed=1)],
        "auto",
        Method.HANDOFF,
    ),
    ("that selects by absence only", selecting(replicaset("web", on=["a"]), "!other"), "auto", Method.EVICT),
    ("a hash, with a budget on the rest", [*WEB, pdb("web", allowed=1)], "auto", Method.HANDOFF),
    ("a ReplicaSet that is not listed", unlisted(WEB), "auto", Method.HANDOFF),
    ("one without hash that is not listed", unlisted(replicaset("web", on=["a", "b"])), "auto", Method.EVICT),
    ("a StatefulSet", statefulset("db", on=["a", "b"]), "auto", Method.EVICT),
    ("a StatefulSet that says auto", statefulset("db", on=["a"], annotations={HOW: "auto"}), "handoff", Method.EVICT),
    ("a Job", job("sum", on=["a"]), "auto", Method.EVICT),
    ("somebody else's controller", [pod("p", on="a", owner=Owner("Widget.example.com", "w"))], "auto", Method.EVICT),
    ("somebody else's ReplicaSet", [pod("p", on="a", owner=Owner("ReplicaSet.x.io", "w"))], "auto", Method.EVICT),
    ("no controller", [pod("p", on="a")], "auto", Method.COPY),
    ("no controller, evict for all", [pod("p", on="a")], "evict", Method.COPY),
    ("no controller, says evict", [pod("p", on="a", annotations={HOW: "evict"})], "auto", Method.COPY),
]


@pytest.mark.parametrize(("rows", "method", "expected"), [pytest.param(*row[1:], id=row[0]) for row in CHOSEN])
def test_the_gentlest_method_that_fits_is_chosen(rows: list[Row], method: str, expected: Method) -> None:
    snapshot = cluster(node("a", maintenance=True), node("b"), rows)
    (move,) = planned(snapshot, MAINTENANCE, method=method, allow=ALL, filters=Filters(controllers=("*",))).moves
    assert move.method is expected


def test_a_pod_of_nobody_is_not_copied_while_its_volume_can_be_on_one_node_only() -> None:
    rows = [pod("p", on="a", claims=["data"]), *disk("ReadWriteOnce")]
    plan = planned(cluster(node("a", maintenance=True), node("b"), rows), MAINTENANCE)
    assert plan.moves == ()
    assert "data" in rejection_of(plan, "p").reason


def test_a_pod_of_nobody_is_not_copied_while_its_volume_is_for_one_pod() -> None:
    rows = [pod("p", on="a", claims=["data"]), *disk("ReadWriteOncePod")]
    plan = planned(cluster(node("a", maintenance=True), node("b"), rows), MAINTENANCE)
    assert plan.moves == ()


A, B, C = node("a", zone="z1", maintenance=True), node("b", zone="z1"), node("c", zone="z2")
ITSELF = {"app": "web"}
RIVAL = pod("busy", on="c", cpu=1)  # so that b is the better target wherever both will do


def even(*others: str) -> list[Row]:
    """Pods that count for web's spread and aren't web's."""
    return [pod(f"o{n}", on=place, labels=ITSELF) for n, place in enumerate(others)]


JUDGED: list[tuple[str, list[Row], TemplateOptions, str | None, str | None]] = [
    ("nothing to mind", [A, B, C, RIVAL], {}, "b", "b"),
    ("away from itself by host", [A, B], {"anti_affinity": [away(ITSELF)]}, "b", "b"),
    ("away from itself by zone, one zone", [A, B], {"anti_affinity": [away(ITSELF, "zone")]}, None, "b"),
    ("away from itself by zone, two", [A, B, C, RIVAL], {"anti_affinity": [away(ITSELF, "zone")]}, "c", "b"),
    ("a host port", [A, B], {"host_ports": [8080]}, "b", "b"),
    ("a host port that is taken", [A, B, pod("o", on="b", host_ports=[8080])], {"host_ports": [8080]}, None, None),
    ("near itself by zone, the same", [A, B], {"affinity": [near(ITSELF)]}, "b", "b"),
    ("near itself by zone, another", [A, C], {"affinity": [near(ITSELF)]}, None, "c"),
    ("near itself by host", [A, B], {"affinity": [near(ITSELF, "hostname")]}, None, "b"),
    ("spread, within its zone", [A, B, C, *even("c")], {"spread": [spread(1, "zone", ITSELF)]}, "b", "b"),
    ("spread, one more at arrival", [A, B, C, *even("b", "c")], {"spread": [spread(1, "zone", ITSELF)]}, "c", "b"),
    ("spread, even at arrival, not after", [A, C, *even("c")], {"spread": [spread(1, "zone", ITSELF)]}, None, None),
    ("spread, looser", [A, C, *even("c")], {"spread": [spread(2, "zone", ITSELF)]}, "c", "c"),
    ("spread by host to itself", [A, B], {"spread": [spread(1, "hostname", ITSELF)]}, "b", "b"),
]


@pytest.mark.parametrize(("rows", "options", "handoff", "evict"), [pytest.param(*row[1:], id=row[0]) for row in JUDGED])
def test_a_handoff_is_judged_beside_the_original_and_an_eviction_without_it(
    rows: list[Row], options: TemplateOptions, handoff: str | None, evict: str | None
) -> None:
    snapshot = cluster(rows, deployment("web", on=["a"], **options))
    for method, target in (("handoff", handoff), ("evict", evict)):
        plan = planned(snapshot, MAINTENANCE, method=method, allow=ALL)
        assert [move.target for move in plan.moves] == ([] if target is None else [target]), method


@pytest.mark.parametrize(
    ("others", "targets", "goes"),
    [
        pytest.param([], "c", False, id="the last one must not leave"),
        pytest.param([], "b", True, id="within the zone it may"),
        pytest.param([pod("db2", on="b", labels={"app": "db"})], "c", True, id="nor is it held where there is another"),
        pytest.param([pod("db2", on="c", labels={"app": "db"})], "c", False, id="another elsewhere is no help"),
    ],
)
@pytest.mark.parametrize("method", ["handoff", "evict"])
def test_the_company_that_another_pod_requires_does_not_leave_it(
    others: list[Row], targets: str, goes: bool, method: str
) -> None:
    """The friend on b is in the zone of a; only the node in question is schedulable."""
    nodes = [A, node("b", zone="z1", cordoned=targets != "b"), node("c", zone="z2", cordoned=targets != "c")]
    friend = pod("friend", on="b", affinity=[near({"app": "db"})])
    plan = planned(cluster(nodes, friend, others, deployment("db", on=["a"])), MAINTENANCE, method=method, allow=ALL)
    assert bool(plan.moves) is goes
    if not goes:
        assert "other pods' required affinity needs it where it is" in plan.rejections[0].reason


def test_why_an_eviction_has_no_target_is_judged_without_the_original_too() -> None:
    """The pod keeps away from its own kind in the zone, but there is no other: b is merely too full for it."""
    nodes = [node("a", zone="z1"), node("b", zone="z1")]
    alone = statefulset("db", replicas=2, on=["a"], cpu=2, anti_affinity=[away({"app": "db"}, "zone")])
    rows = [*alone, *daemonset("agent", on=["a", "b"], cpu="1500m")]
    plan = planned(cluster(nodes, rows), OPTIMIZATION, allow=["single_replica"])
    assert rejected(plan)["db-0"] == "NoTarget"
    assert "PodAntiAffinity" not in rejection_of(plan, "db-0").reason
    assert "threshold" in rejection_of(plan, "db-0").reason


def test_an_older_pin_of_ours_does_not_bind_the_replacement() -> None:
    """A pod that we placed carries a node selector of ours; its workload's template has none."""
    rows: list[Row] = deployment(
        "web", on=["a"], labels={labels.MIGRATION_ID: "m-1", labels.MIGRATION_STATUS: "completed"}
    )
    pinned = [
        pod(row.name, on="a", labels=row.labels, owner=row.owner, node_selector={"hostname": "a"})
        if isinstance(row, Pod)
        else row
        for row in rows
    ]
    snapshot: ClusterSnapshot = cluster(A, B, pinned)
    assert [*moves_of(planned(snapshot, MAINTENANCE)).values()] == ["b"]
