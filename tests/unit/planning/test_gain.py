"""The gain of a move: the definition, worked examples, and that a prediction comes true where nothing else happens."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.gain import MoveSide, RealisedGains, gain_of
from tests.support.builders import cluster, deployment, node, pod
from tests.support.planning import BALANCING, MAINTENANCE, OPTIMIZATION, carry_out, planned

amounts = st.tuples(st.integers(0, 10**6), st.integers(0, 10**12)).map(np.array)
wholes = st.tuples(st.integers(1, 10**6), st.integers(1, 10**12)).map(np.array)
sides = st.builds(MoveSide, amounts, amounts, wholes)


def side(used: float, pod_share: float, memory: float = 0.0) -> MoveSide:
    """A node of 100 CPUs and 100 bytes: amounts are per cent."""
    return side_of((round(used * 1000), round(memory)), (round(pod_share * 1000), 0), (100_000, 100))


def side_of(*amounts: tuple[int, int]) -> MoveSide:
    return MoveSide(*map(np.array, amounts))


@pytest.mark.parametrize(
    ("source", "target", "points"),
    [
        (side(70, 20), side(30, 20), 20.0),
        (side(70, 20), side(60, 20), 10.0),
        (side(20, 20), side(30, 20), -10.0),
        (side(70, 20), side(70, 20), 0.0),
        (side(70, 20, memory=95), side(30, 20), 0.0),
        (side(70, 20), side(30, 20, memory=85), 5.0),
    ],
    ids=["as promised", "target is busy, too", "the wrong way", "to and fro", "memory decides", "the target's memory"],
)
def test_the_gain_is_what_the_busier_node_gets_rid_of(source: MoveSide, target: MoveSide, points: float) -> None:
    assert gain_of(source, target) == points


@given(sides, sides)
def test_going_back_costs_what_going_has_gained(one: MoveSide, other: MoveSide) -> None:
    assert gain_of(one, other) == -gain_of(other, one)


@given(sides, sides)
def test_no_move_gains_more_than_the_pods_share_of_its_source(source: MoveSide, target: MoveSide) -> None:
    share = max(each * 100.0 / whole for each, whole in zip(source.pod, source.capacity, strict=True))
    assert gain_of(source, target) <= share + 0.01


def test_a_node_without_capacity_is_no_error() -> None:
    assert gain_of(side_of((0, 0), (100, 0), (0, 0)), side_of((0, 0), (100, 0), (1000, 1))) > 0


def hot(pods: int, targets: int) -> ClusterSnapshot:
    return cluster(
        node("a", cpu=10),
        *(node(f"b{index}", cpu=8 + index) for index in range(targets)),
        deployment("web", on=["a"] * pods, cpu=1),
    )


@given(st.integers(3, 10), st.integers(1, 4), st.sampled_from([OPTIMIZATION, BALANCING]))
def test_what_a_plan_of_one_move_predicts_comes_true_if_nothing_else_happens(
    pods: int, targets: int, strategy: str
) -> None:
    snapshot = hot(pods, targets)
    plan = planned(snapshot, strategy, max_moves=1)
    then = carry_out(snapshot, plan)
    for move in plan.moves:
        moved = next(each for each in then.pods if each.name == move.pod)
        assert move.gain is not None
        assert move.gain > 0
        assert RealisedGains(then, Policy(), {move.source, move.target}).gain(moved, move.source) == move.gain


def test_the_moves_before_it_count_in_a_prediction() -> None:
    """Of a node at 100% the first pod takes 10 points off; when both nodes are level, one more would gain nothing."""
    plan = planned(hot(10, 1), BALANCING, imbalance=1, cpu=100)
    assert [move.gain for move in plan.moves][:2] == [10.0, 10.0]
    assert plan.moves[-1].gain is not None
    assert 0 < plan.moves[-1].gain <= 10.0


def test_a_move_off_a_node_under_maintenance_may_cost_something() -> None:
    snapshot = cluster(
        node("a", cpu=10, maintenance=True), node("b", cpu=10), pod("p", on="a", cpu=1), pod("q", on="b", cpu=5)
    )
    (move,) = planned(snapshot, MAINTENANCE).moves
    assert move.gain == -10.0


def test_what_a_pod_holds_leaves_and_what_it_asks_arrives() -> None:
    snapshot = cluster(node("a", cpu=10), node("b", cpu=10), pod("p", on="a", cpu=2, held={"cpu": 6}))
    (move,) = planned(snapshot, OPTIMIZATION, cpu=50).moves
    assert move.gain == 40.0


def test_pods_that_have_ended_weigh_nothing_and_nominated_ones_do() -> None:
    snapshot = cluster(
        node("a", cpu=10),
        node("b", cpu=10),
        pod("p", on="b", cpu=2),
        pod("done", on="b", cpu=9, phase="Succeeded"),
        pod("coming", nominated="a", cpu=3),
    )
    moved = next(each for each in snapshot.pods if each.name == "p")
    assert RealisedGains(snapshot, Policy(), {"a", "b"}).gain(moved, "a") == 20.0
    assert RealisedGains(snapshot, Policy(), {"a", "b"}).gain(msgspec.structs.replace(moved, node="gone"), "a") is None
    assert RealisedGains(snapshot, Policy(), {"a", "b"}).gain(moved, "gone") is None
