"""NodeTaints: pods do not stay beneath taints that they don't tolerate; a cordon alone empties no node."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from pydantic import ValidationError

from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.strategies.node_taints import NodeTaintsSettings
from tests.support.builders import Row, cluster, daemonset, node, node_called, pod, pod_named
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

TAINTS = "NodeTaints"
SOFT: PolicyOptions = {"settings": {TAINTS: {"includePreferNoSchedule": True}}}
GROUP = {"scheduling.x-k8s.io/pod-group": "g"}
B = node("b")


def tainted(*taints: str, name: str = "a") -> Row:
    return node(name, taints=taints)


LIFECYCLE = ("unschedulable", "not-ready", "unreachable", "network-unavailable", "memory-pressure", "disk-pressure")

STAY_OR_GO: list[tuple[str, list[Row], dict[str, str]]] = [
    ("no taint", [tainted(), B, pod("p", on="a")], {}),
    ("NoSchedule", [tainted("x:NoSchedule"), B, pod("p", on="a")], {"p": "b"}),
    ("NoExecute", [tainted("x=y:NoExecute"), B, pod("p", on="a")], {"p": "b"}),
    ("PreferNoSchedule", [tainted("x:PreferNoSchedule"), B, pod("p", on="a")], {}),
    ("tolerated", [tainted("x=y:NoSchedule"), B, pod("p", on="a", tolerations=["x=y:NoSchedule"])], {}),
    ("nowhere to go", [tainted("x:NoSchedule"), tainted("y:NoSchedule", name="b"), pod("p", on="a")], {}),
    (
        "a pod group goes as one",
        [tainted("x:NoSchedule"), B, node("c"), pod("p", on="a", labels=GROUP), pod("q", on="b", labels=GROUP)],
        {"p": "b", "q": "c"},
    ),
    ("a daemon", [tainted("x:NoSchedule"), B, *daemonset("d", on=["a"])], {}),
    ("one that leaves anyway", [tainted("x:NoSchedule"), B, pod("p", on="a", deleting=True)], {}),
    ("one that is only expected", [tainted("x:NoSchedule"), B, pod("p", nominated="a")], {}),
    *((what, [tainted(f"node.kubernetes.io/{what}:NoSchedule"), B, pod("p", on="a")], {}) for what in LIFECYCLE),
    (
        "cordoned, and tainted besides",
        [tainted("node.kubernetes.io/unschedulable:NoSchedule", "x:NoSchedule"), B, pod("p", on="a")],
        {"p": "b"},
    ),
]


@pytest.mark.parametrize(("rows", "moves"), [pytest.param(*row[1:], id=row[0]) for row in STAY_OR_GO])
def test_pods_leave_nodes_whose_taints_they_do_not_tolerate(rows: list[Row], moves: dict[str, str]) -> None:
    snapshot = cluster(rows)
    plan = planned(snapshot, TAINTS)
    assert moves_of(plan) == moves
    assert planned(carry_out(snapshot, plan), TAINTS).moves == ()


LISTS: list[tuple[dict[str, object], list[str]]] = [
    ({}, ["x", "xy", "z"]),
    ({"includedTaints": ["x"]}, ["x", "xy"]),
    ({"includedTaints": ["x=y"]}, ["xy"]),
    ({"includedTaints": ["node.kubernetes.io/unschedulable"]}, ["cordoned"]),
    ({"excludedTaints": ["x"]}, ["cordoned", "z"]),
    ({"excludedTaints": ["x=y", "node.kubernetes.io/unschedulable"]}, ["x", "z"]),
    ({"excludedTaints": []}, ["cordoned", "x", "xy", "z"]),
    ({"podSelector": "app=z"}, ["z"]),
]


@pytest.mark.parametrize(("said", "moved"), LISTS)
def test_lists_say_which_taints_count(said: dict[str, object], moved: list[str]) -> None:
    taints = {"x": "x:NoSchedule", "xy": "x=y:NoSchedule", "z": "z:NoExecute"}
    taints["cordoned"] = "node.kubernetes.io/unschedulable:NoSchedule"
    rows = [
        each
        for name, taint in taints.items()
        for each in (tainted(taint, name=name), pod(name, on=name, labels={"app": name}))
    ]
    assert sorted(moves_of(planned(cluster(rows, B), TAINTS, settings={TAINTS: said}))) == moved


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"includedTaints": ["x:NoSchedule"]}, "an effect is not part of it"),
    ({"excludedTaints": ["x="]}, "write `x` for every value of it"),
    ({"excludedTaints": [""]}, "is not a taint such as `key` or `key=value`"),
    ({"includedTaints": ["x"], "excludedTaints": ["y"]}, "give one of the two"),
]


@pytest.mark.parametrize(("said", "why"), REFUSED)
def test_an_entry_that_is_no_taint_is_refused_with_the_cure(said: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        NodeTaintsSettings.model_validate(said)


def test_settings_can_be_written_and_read_again() -> None:
    for said in ({}, {"includedTaints": ["x"]}, {"excludedTaints": ["x=y"]}):
        found = NodeTaintsSettings.model_validate(said)
        assert NodeTaintsSettings.model_validate(found.model_dump(by_alias=True)) == found


def test_a_taint_is_obeyed_even_above_the_thresholds() -> None:
    rows = [pod("busy", on="b", cpu="3500m"), pod("p", on="a", cpu="500m")]
    assert moves_of(planned(cluster(tainted("x:NoSchedule"), B, rows), TAINTS)) == {"p": "b"}


def test_the_reason_names_the_taint_and_the_node() -> None:
    plan = planned(cluster(tainted("x=y:NoSchedule"), B, pod("p", on="a")), TAINTS)
    assert plan.moves[0].reason.startswith("a has the taint x=y:NoSchedule, which it does not tolerate; ")


def test_what_cannot_go_is_told_with_its_reason() -> None:
    plan = planned(cluster(tainted("x:NoSchedule"), pod("p", on="a")), TAINTS)
    assert rejection_of(plan, "p").reason == "there is no other node"


SOFTLY: list[tuple[str, list[Row], dict[str, str]]] = [
    ("to a node without", [tainted("x:PreferNoSchedule"), B, pod("p", on="a")], {"p": "b"}),
    ("tolerated", [tainted("x:PreferNoSchedule"), B, pod("p", on="a", tolerations=["x"])], {}),
    (
        "a pod group stays",
        [tainted("x:PreferNoSchedule"), B, *(pod(name, on="a", labels=GROUP) for name in "pq")],
        {},
    ),
    (
        "not to one that is no better",
        [tainted("x:PreferNoSchedule"), tainted("y:PreferNoSchedule", name="b"), pod("p", on="a")],
        {},
    ),
    (
        "not above the thresholds",
        [tainted("x:PreferNoSchedule"), B, pod("busy", on="b", cpu="3500m"), pod("p", on="a", cpu="500m")],
        {},
    ),
    (
        "to one that it tolerates",
        [tainted("x:PreferNoSchedule"), tainted("y:PreferNoSchedule", name="b"), pod("p", on="a", tolerations=["y"])],
        {"p": "b"},
    ),
    (
        "what must go goes where it had better not, if need be",
        [tainted("x:NoSchedule"), tainted("y:PreferNoSchedule", name="b"), pod("p", on="a")],
        {"p": "b"},
    ),
]


@pytest.mark.parametrize(("rows", "moves"), [pytest.param(*row[1:], id=row[0]) for row in SOFTLY])
def test_on_request_pods_leave_nodes_that_would_rather_not_have_them(rows: list[Row], moves: dict[str, str]) -> None:
    snapshot = cluster(rows)
    plan = planned(snapshot, TAINTS, **SOFT)
    assert moves_of(plan) == moves
    assert planned(carry_out(snapshot, plan), TAINTS, **SOFT).moves == ()


def test_where_two_find_no_target_their_like_is_not_asked_for() -> None:
    closed = [tainted("x:PreferNoSchedule"), tainted("x:PreferNoSchedule", name="c"), node("b", pods=0)]
    plan = planned(cluster(closed, [pod(f"p{n}", on="ac"[n % 2]) for n in range(20)]), TAINTS, **SOFT)
    assert {*rejected(plan).values()} == {"NoTarget"}
    assert len(plan.rejections) == 2


class TestOtherStrategies:
    ROWS = (B, tainted("x:PreferNoSchedule"), *(pod(f"p{n}", on="b", cpu="500m") for n in range(6)))

    def test_use_such_nodes_if_nobody_objects(self) -> None:
        assert planned(cluster(self.ROWS), BALANCING, TAINTS).moves

    def test_do_not_bring_pods_there_when_it_counts(self) -> None:
        assert planned(cluster(self.ROWS), BALANCING, TAINTS, **SOFT).moves == ()

    def test_do_so_all_the_same_where_they_must(self) -> None:
        emptied = node("b", maintenance=True)
        assert planned(cluster(emptied, self.ROWS[1:]), MAINTENANCE, TAINTS, **SOFT).moves

    def test_balance_among_such_nodes_as_before(self) -> None:
        two = [tainted("x:PreferNoSchedule"), tainted("x:PreferNoSchedule", name="c")]
        rows = [pod(f"p{n}", on="a", cpu="500m") for n in range(6)]
        assert {*moves_of(planned(cluster(two, rows), BALANCING, TAINTS, **SOFT)).values()} == {"c"}


@given(clusters(min_pods=4))
@settings(max_examples=examples(few=10, many=100))
def test_every_move_is_from_a_taint_that_is_not_tolerated_to_a_node_without_such(snapshot: ClusterSnapshot) -> None:
    options: PolicyOptions = {**SOFT, "allow": ["jobs", "single_replica"], "min_pod_age": 0}
    for move in planned(snapshot, TAINTS, **options).moves:
        shape = pod_named(snapshot, move.pod, move.namespace).shape
        source, target = (
            {taint.effect for taint in node_called(snapshot, name).taints if not shape.tolerates(taint)}
            for name in (move.source, move.target)
        )
        assert source
        assert not target & {"NoSchedule", "NoExecute"}
        assert source & {"NoSchedule", "NoExecute"} or not target
