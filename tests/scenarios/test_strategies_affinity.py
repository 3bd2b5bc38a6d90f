"""NodeAffinity: required rules that a node no longer meets are put right; preferences are followed on request."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from rescheduler.model.labels import MIGRATION_ID
from rescheduler.model.objects import Pod
from rescheduler.model.snapshot import ClusterSnapshot
from tests.support.builders import (
    Row,
    cluster,
    daemonset,
    deployment,
    node,
    node_named,
    pod,
    pod_named,
    shape_of,
)
from tests.support.examples import examples
from tests.support.generated import clusters
from tests.support.planning import (
    BALANCING,
    MAINTENANCE,
    PolicyOptions,
    carry_out,
    moves_of,
    planned,
    rejected,
    rejection_of,
)

AFFINITY = "NodeAffinity"
PREFERRED: PolicyOptions = {"settings": {AFFINITY: {"includePreferred": True}}}
GROUP = {"scheduling.x-k8s.io/pod-group": "g"}
SSD, HDD, BARE = node("s", labels={"disk": "ssd"}), node("h", labels={"disk": "hdd"}), node("n")

BROKEN: list[tuple[str, list[Row], dict[str, str]]] = [
    ("a selector that is met", [SSD, HDD, pod("p", on="s", node_selector={"disk": "ssd"})], {}),
    ("a selector that is not", [SSD, HDD, pod("p", on="h", node_selector={"disk": "ssd"})], {"p": "s"}),
    ("an affinity that is not", [SSD, HDD, pod("p", on="h", node_affinity=["disk in (ssd,nvme)"])], {"p": "s"}),
    ("by the node's name", [SSD, HDD, pod("p", on="h", node_affinity=[node_named("s")])], {"p": "s"}),
    ("a preference is no rule", [SSD, HDD, pod("p", on="h", preferred_nodes=[(9, "disk=ssd")])], {}),
    ("nowhere to go", [HDD, BARE, pod("p", on="n", node_selector={"disk": "ssd"})], {}),
    ("one that leaves anyway", [SSD, HDD, pod("p", on="h", node_selector={"disk": "ssd"}, deleting=True)], {}),
    ("one that is only expected", [SSD, HDD, pod("p", nominated="h", node_selector={"disk": "ssd"})], {}),
    ("a daemon", [SSD, HDD, *daemonset("d", on=["h"], node_selector={"disk": "ssd"})], {}),
]


@pytest.mark.parametrize(("rows", "moves"), [pytest.param(*row[1:], id=row[0]) for row in BROKEN])
def test_pods_stand_where_their_required_rules_are_met(rows: list[Row], moves: dict[str, str]) -> None:
    snapshot = cluster(rows)
    plan = planned(snapshot, AFFINITY)
    assert moves_of(plan) == moves
    assert planned(carry_out(snapshot, plan), AFFINITY).moves == ()


def test_a_broken_rule_is_put_right_even_above_the_thresholds_but_not_without_need() -> None:
    rows: list[Row] = [node("t", labels={"disk": "ssd"}), pod("busy", on="s", cpu="3500m"), pod("half", on="t", cpu=2)]
    rows += [pod(f"p{n}", on="h", cpu="500m", node_selector={"disk": "ssd"}) for n in range(4)]
    moves = moves_of(planned(cluster(SSD, HDD, rows), AFFINITY))
    assert moves == {"p0": "t", "p1": "t", "p2": "t", "p3": "s"}  # t is within its threshold up to p1


def test_what_found_no_room_is_tried_again_when_another_has_left() -> None:
    """Both stand where the other belongs, and the node of one is full until the other has left."""
    small = [node("s", labels={"disk": "ssd"}, pods=1), node("h", labels={"disk": "hdd"}, pods=2)]
    rows = [pod("a", on="s", node_selector={"disk": "hdd"}), pod("b", on="h", node_selector={"disk": "ssd"})]
    assert moves_of(planned(cluster(small, rows), AFFINITY)) == {"a": "h", "b": "s"}
    rows = [pod("b", on="s", node_selector={"disk": "hdd"}), pod("a", on="h", node_selector={"disk": "ssd"})]
    assert moves_of(planned(cluster(small, rows), AFFINITY)) == {"b": "h", "a": "s"}


def test_lower_priority_goes_first_and_then_the_largest() -> None:
    rows = [
        pod("high", on="h", priority=9, cpu=1, node_selector={"disk": "ssd"}),
        pod("small", on="h", cpu="100m", node_selector={"disk": "ssd"}),
        pod("large", on="h", cpu=1, node_selector={"disk": "ssd"}),
    ]
    assert [*moves_of(planned(cluster(SSD, HDD, rows), AFFINITY))] == ["large", "small", "high"]


def test_what_cannot_go_is_told_with_its_reason() -> None:
    plan = planned(cluster(HDD, BARE, pod("p", on="n", node_selector={"disk": "ssd"})), AFFINITY)
    assert rejection_of(plan, "p").reason == "0/1 other nodes: 1 NodeAffinity"
    assert rejection_of(plan, "p").strategy == AFFINITY


def test_a_pin_of_ours_is_no_rule_of_the_pod() -> None:
    """A replacement was pinned to a node that has since lost the label that the pin goes by."""
    rows = deployment("w", on=["s"])
    pinned = shape_of({"node_affinity": ["disk=nvme"]})
    labels = {MIGRATION_ID: "m"}
    rows = [
        msgspec.structs.replace(row, shape=pinned, labels={**row.labels, **labels}) if isinstance(row, Pod) else row
        for row in rows
    ]
    nvme = node("v", labels={"disk": "nvme"})
    assert planned(cluster(SSD, nvme, rows), AFFINITY).moves == ()


REASONS: list[tuple[Row, str]] = [
    (pod("p", on="n", node_selector={"disk": "ssd"}), "n does not meet its node selector disk=ssd"),
    (
        pod("p", on="n", node_affinity=["disk in (nvme,ssd)", "disk=ssd,cores>3"]),
        "n does not meet its required node affinity disk in (nvme,ssd) or cores>3,disk=ssd",
    ),
    (pod("p", on="n", node_affinity=[node_named("s")]), "n does not meet its required node affinity metadata.name=s"),
]


@pytest.mark.parametrize(("row", "said"), REASONS)
def test_the_reason_names_the_rule_and_the_node(row: Row, said: str) -> None:
    assert planned(cluster(SSD, BARE, row), AFFINITY).moves[0].reason.startswith(f"{said}; ")


FILTERS: list[tuple[dict[str, object], list[str]]] = [
    ({}, ["p", "q"]),
    ({"namespaces": ["shop"]}, ["q"]),
    ({"podSelector": "app"}, ["p"]),
    ({"excludedOwnerKinds": ["Pod"]}, []),
]


@pytest.mark.parametrize(("said", "moved"), FILTERS)
def test_only_what_the_settings_mean_is_moved(said: dict[str, object], moved: list[str]) -> None:
    ssd = {"disk": "ssd"}
    rows = [
        pod("p", on="h", node_selector=ssd, labels={"app": "p"}),
        pod("q", on="h", node_selector=ssd, namespace="shop"),
    ]
    assert sorted(moves_of(planned(cluster(SSD, HDD, rows), AFFINITY, settings={AFFINITY: said}))) == moved


LIKES: list[tuple[str, list[Row], dict[str, str]]] = [
    ("where it would be", [SSD, HDD, pod("p", on="s", preferred_nodes=[(9, "disk=ssd")])], {}),
    ("where it would not", [SSD, HDD, pod("p", on="h", preferred_nodes=[(9, "disk=ssd")])], {"p": "s"}),
    (
        "the heavier of two",
        [SSD, HDD, BARE, pod("p", on="n", preferred_nodes=[(2, "disk=hdd"), (1, "disk=ssd"), (2, "disk=ssd")])],
        {"p": "s"},
    ),
    (
        "a pod group stays",
        [SSD, HDD, *(pod(name, on="h", labels=GROUP, preferred_nodes=[(9, "disk=ssd")]) for name in "pq")],
        {},
    ),
    ("as heavy elsewhere", [SSD, HDD, pod("p", on="h", preferred_nodes=[(9, "disk")])], {}),
    ("a term that means nothing", [SSD, HDD, pod("p", on="h", preferred_nodes=[(9, "")])], {}),
    (
        "use does not outweigh it",
        [
            SSD,
            HDD,
            BARE,
            pod("busy", on="s", cpu=3),
            pod("p", on="n", preferred_nodes=[(2, "disk=ssd"), (1, "disk=hdd")]),
        ],
        {"p": "s"},
    ),
    (
        "not above the thresholds",
        [
            SSD,
            HDD,
            BARE,
            pod("busy", on="s", cpu="3500m"),
            pod("p", on="n", preferred_nodes=[(2, "disk=ssd"), (1, "disk=hdd")]),
        ],
        {"p": "h"},
    ),
]


@pytest.mark.parametrize(("rows", "moves"), [pytest.param(*row[1:], id=row[0]) for row in LIKES])
def test_on_request_pods_go_where_their_preferences_weigh_more(rows: list[Row], moves: dict[str, str]) -> None:
    snapshot = cluster(rows)
    plan = planned(snapshot, AFFINITY, **PREFERRED)
    assert moves_of(plan) == moves
    assert planned(carry_out(snapshot, plan), AFFINITY, **PREFERRED).moves == ()
    assert planned(snapshot, AFFINITY).moves == ()


def test_the_reason_of_a_preference_names_the_weights() -> None:
    plan = planned(
        cluster(SSD, HDD, pod("p", on="h", preferred_nodes=[(9, "disk=ssd"), (1, "disk")])), AFFINITY, **PREFERRED
    )
    assert plan.moves[0].reason.startswith("h weighs 1 of 10 in its preferred node affinity; ")


def test_where_two_find_no_target_their_like_is_not_asked_for() -> None:
    full = node("s", labels={"disk": "ssd"}, pods=0)
    like = [pod(f"p{n}", on="hnn"[n % 3], preferred_nodes=[(1, "disk=ssd")]) for n in range(30)]
    plan = planned(cluster(full, HDD, BARE, like), AFFINITY, **PREFERRED)
    assert plan.moves == ()
    assert {*rejected(plan).values()} == {"NoTarget"}
    assert len(plan.rejections) < 10


class TestOtherStrategies:
    PODS = tuple(pod(f"p{n}", on="s", cpu="500m", preferred_nodes=[(1, "disk=ssd")]) for n in range(6))

    def test_go_against_preferences_if_nobody_objects(self) -> None:
        assert planned(cluster(SSD, HDD, self.PODS), BALANCING, AFFINITY).moves

    def test_do_not_move_pods_to_nodes_that_weigh_less(self) -> None:
        assert planned(cluster(SSD, HDD, self.PODS), BALANCING, AFFINITY, **PREFERRED).moves == ()

    def test_do_so_all_the_same_where_they_must(self) -> None:
        emptied = node("s", labels={"disk": "ssd"}, maintenance=True)
        plan = planned(cluster(emptied, HDD, self.PODS), MAINTENANCE, AFFINITY, **PREFERRED)
        assert {*moves_of(plan).values()} == {"h"}


def weight(snapshot: ClusterSnapshot, row: Pod, name: str) -> int:
    place = next(each for each in snapshot.nodes if each.name == name)
    return sum(number for number, term in row.shape.preferred_nodes if term.matches(place.labels, place.name))


@given(clusters(min_pods=4))
@settings(max_examples=examples(few=10, many=100))
def test_every_preferred_move_weighs_more(snapshot: ClusterSnapshot) -> None:
    options: PolicyOptions = {**PREFERRED, "allow": ["jobs", "single_replica"], "min_pod_age": 0}
    for move in planned(snapshot, AFFINITY, **options).moves:
        row = pod_named(snapshot, move.pod, move.namespace)
        if "preferred" in move.reason:
            assert weight(snapshot, row, move.target) > weight(snapshot, row, move.source)
