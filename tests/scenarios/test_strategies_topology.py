"""Topology: a group comes together in one zone where it fits, all of it or nothing, and stays there."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from rescheduler.model import labels
from rescheduler.model.plan import Plan
from rescheduler.model.policy import POD_GROUP
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.strategies.topology import TopologySettings
from tests.support.builders import Row, cluster, daemonset, deployment, node, pod, spread, statefulset
from tests.support.planning import PolicyOptions, carry_out, moves_of, planned, rejection_of
from tests.support.policies import plan_by

TOPOLOGY = "Topology"
JOB = {TOPOLOGY: {"groupLabel": "job"}}
NODES = [node(f"{zone}{n}", cpu=4, zone=zone) for zone in "abc" for n in range(2)]


def job(name: str, *on: str, cpu: int | str = 1, priority: int = 0) -> list[Row]:
    return [pod(f"{name}-{n}", on=at, cpu=cpu, labels={"job": name}, priority=priority) for n, at in enumerate(on)]


def gathered(snapshot: ClusterSnapshot, **options: object) -> Plan:
    chosen: PolicyOptions = {"settings": JOB, **options}  # type: ignore[typeddict-item]  # the tests name what there is
    return planned(snapshot, TOPOLOGY, **chosen)


def full(*names: str) -> list[Row]:
    """Pods that leave no room on these nodes."""
    return [pod(f"full-{name}", on=name, cpu=3) for name in names]


TOGETHER: list[tuple[str, list[Row], dict[str, str]]] = [
    ("one zone already", job("t", "a0", "a1", "a1"), {}),
    ("a single pod", job("t", "a0"), {}),
    ("one strays", job("t", "a0", "a1", "b0"), {"t-2": "a"}),
    ("the larger part stays", job("t", "a0", "b0", "b1"), {"t-0": "b"}),
    ("of equal parts the zone with more room", [*job("t", "a0", "b0"), *full("a1")], {"t-0": "b"}),
    ("and if these are equal, too, the first by name", job("t", "b0", "a0"), {"t-0": "a"}),
    (
        "where it is there is no room",
        [*job("t", "a0", "a0", "b0"), *full("a1"), pod("x", on="a0", cpu=1)],
        {"t-0": "b", "t-1": "b"},
    ),
    ("three zones", job("t", "a0", "b0", "c0"), {"t-1": "a", "t-2": "a"}),
    ("two groups by themselves", [*job("t", "a0", "b0"), *job("u", "b1", "b1", "c0")], {"t-1": "a", "u-2": "b"}),
]


@pytest.mark.parametrize(("rows", "moves"), [pytest.param(*row[1:], id=row[0]) for row in TOGETHER])
def test_a_group_comes_together_with_the_fewest_moves_and_stays_so(rows: list[Row], moves: dict[str, str]) -> None:
    snapshot = cluster(NODES, rows)
    plan = gathered(snapshot)
    assert {name: target[0] for name, target in moves_of(plan).items()} == moves
    assert gathered(carry_out(snapshot, plan)).moves == ()


def test_all_moves_of_a_group_are_one_proposal_and_say_why() -> None:
    plan = gathered(cluster(NODES, job("t", "a0", "a1", "b0", "c0")))
    assert [move.proposal for move in plan.moves] == [0, 0]
    assert plan.moves[0].reason.startswith(
        "group t (job) comes together in a (topology.kubernetes.io/zone), which has 2 of its 4 pods; a"
    )


def test_those_that_move_do_not_crowd_on_one_node() -> None:
    plan = gathered(cluster(NODES, job("t", "a0", "a1", "b0", "b1")))
    assert sorted(moves_of(plan).values()) == ["a0", "a1"]


KEPT = {"job": "t", labels.RESCHEDULING: "disabled"}
APART: list[tuple[str, list[Row], str, str]] = [
    ("no zone has room for all", [*job("t", "a0", "b0", cpu=3), *full("a1", "b1", "c0")], "NoTarget", "a: 0/5 other"),
    (
        "one of them may not move, nor the others follow it",
        [*job("t", "a0"), pod("t-kept", on="b0", labels=KEPT), *full("b1"), pod("x", on="b0", cpu="2500m")],
        "NoTarget",
        "b: 0/5 other nodes",
    ),
    (
        "two of them may not move",
        [pod(f"t-{at}", on=at, labels=KEPT) for at in ("a0", "b0")],
        "ReschedulingDisabled",
        f"a: label {labels.RESCHEDULING} is disabled",
    ),
]


@pytest.mark.parametrize(("rows", "guard", "reason"), [pytest.param(*row[1:], id=row[0]) for row in APART])
def test_a_group_that_fits_nowhere_is_left_alone_and_told_of(rows: list[Row], guard: str, reason: str) -> None:
    plan = gathered(cluster(NODES, rows))
    assert plan.moves == ()
    (told,) = plan.rejections
    assert told.guard == guard
    said = "group t (job) cannot come together in any topology.kubernetes.io/zone, such as "
    assert told.reason.startswith(said + reason)


def test_a_group_goes_to_the_one_that_may_not_move() -> None:
    kept = pod("t-kept", on="c0", cpu=1, labels={"job": "t", labels.RESCHEDULING: "disabled"})
    plan = gathered(cluster(NODES, job("t", "a0", "a1"), kept))
    assert {target[0] for target in moves_of(plan).values()} == {"c"}


def test_a_limit_that_is_too_small_for_the_whole_group_holds_all_of_it() -> None:
    snapshot = cluster(NODES, job("t", "a0", "b0", "c0"))
    plan = gathered(snapshot, max_moves=1)
    assert plan.moves == ()
    assert rejection_of(plan, "t-1").guard == "MaxReschedulePods"
    assert len(gathered(snapshot, max_moves=2).moves) == 2


def test_groups_of_one_name_in_two_namespaces_have_nothing_to_do_with_each_other() -> None:
    there = [pod("t", on="a0", labels={"job": "t"}), pod("t", on="b0", labels={"job": "t"}, namespace="shop")]
    assert gathered(cluster(NODES, there)).moves == ()


def test_daemons_pods_that_leave_and_pods_that_wait_do_not_count() -> None:
    rows = [
        *job("t", "a0", "a1"),
        *daemonset("agent", on=["b0"], labels={"job": "t"}),
        pod("leaving", on="c0", labels={"job": "t"}, deleting=True),
        pod("waiting", labels={"job": "t"}),
    ]
    plan = gathered(cluster(NODES, rows))
    assert (plan.moves, plan.rejections) == ((), ())


def test_racks_as_well_as_zones_and_the_filters_of_pods() -> None:
    racks = [node(f"r{n}", labels={"rack": f"{n // 2}"}) for n in range(4)]
    snapshot = cluster(racks, job("t", "r0", "r1", "r2"))
    by_rack = {TOPOLOGY: {"groupLabel": "job", "topologyKey": "rack"}}
    assert list(moves_of(gathered(snapshot, settings=by_rack))) == ["t-2"]
    elsewhere = {TOPOLOGY: {"groupLabel": "job", "topologyKey": "rack", "namespaces": ["shop"]}}
    assert gathered(snapshot, settings=elsewhere).moves == ()


def test_without_a_label_there_are_no_groups_and_a_label_must_be_one() -> None:
    assert planned(cluster(NODES, job("t", "a0", "b0")), TOPOLOGY).moves == ()
    for wrong in ({"groupLabel": "not a label"}, {"topologyKey": ""}):
        with pytest.raises(ValidationError, match="is not a label key"):
            TopologySettings.model_validate(wrong)


def test_no_other_strategy_takes_a_group_apart_that_is_together() -> None:
    """Balancing would send a pod to the empty zone; with the group in mind it takes the node beside."""
    nodes = [node("a0", cpu=10, zone="a"), node("a1", cpu=10, zone="a"), node("b0", cpu=20, zone="b")]
    snapshot = cluster(nodes, job("t", *["a0"] * 6), deployment("busy", on=["a1"], cpu=1))
    free = planned(snapshot, "LoadBalancing")
    assert "b0" in moves_of(free).values()
    kept = planned(snapshot, "LoadBalancing", TOPOLOGY, settings=JOB)
    assert {target for name, target in moves_of(kept).items() if name.startswith("t-")} == {"a1"}


def test_a_spread_constraint_is_stronger_than_the_wish_to_be_together() -> None:
    rule = [spread(1, "zone", {"job": "t"})]
    rows = statefulset("t", on=["a0", "b0", "c0"], labels={"job": "t"}, spread=rule)
    assert gathered(cluster(NODES, rows)).moves == ()


def test_a_pod_group_is_moved_as_a_whole_into_the_zone() -> None:
    """Wherever it goes, all its pods move, since a pod group moves all together: so the zone with most room is best."""
    rows = [pod(f"t-{at}", on=at, cpu=1, labels={POD_GROUP: "t"}) for at in ("a0", "a1", "b0")]
    snapshot = cluster(NODES, rows)
    by_group = {TOPOLOGY: {"groupLabel": POD_GROUP}}
    plan = gathered(snapshot, settings=by_group)
    assert {name: target[0] for name, target in moves_of(plan).items()} == {"t-a0": "c", "t-a1": "c", "t-b0": "c"}
    assert gathered(carry_out(snapshot, plan), settings=by_group).moves == ()


def test_in_node_pools_only_pods_on_nodes_of_its_pools_are_moved() -> None:
    config = """\
enabledStrategies: []
pools:
  - {name: mine, nodeSelector: mine=yes, enabledStrategies: [Topology], strategies: {Topology: {groupLabel: job}}}
"""
    mine = [node(f"m{zone}", cpu=4, zone=zone, labels={"mine": "yes"}) for zone in "ab"]
    others = cluster(NODES, mine, job("t", "a0", "b0"))
    assert plan_by(others, config).moves == ()
    both = plan_by(cluster(NODES, mine, job("t", "a0", "mb")), config)
    assert [(move.pod, move.target in ("a0", "a1", "ma")) for move in both.moves] == [("t-1", True)]
