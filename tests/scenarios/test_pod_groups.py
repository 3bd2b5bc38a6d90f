"""Pod groups move together or not at all, whichever strategy wants one of their pods elsewhere."""

from __future__ import annotations

import random
from collections import defaultdict

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.labels import RESCHEDULING
from rescheduler.model.plan import Method
from rescheduler.model.policy import POD_GROUP, Limits, Policy, Timing
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.api import PodMove, Proposal
from rescheduler.planning.cycle import make_plan
from rescheduler.planning.planner import Planner
from rescheduler.strategies import discover
from tests.support.builders import Row, cluster, deployment, node, pod, statefulset
from tests.support.examples import seeds
from tests.support.generated import random_cluster
from tests.support.planning import MAINTENANCE, OPTIMIZATION, moves_of, planned, rejection_of
from tests.support.pod_migrations import replace
from tests.support.sample_settings import samples

A, B, C = node("a", maintenance=True), node("b"), node("c")
GANG = {POD_GROUP: "gang"}
POLICY = Policy(max_reschedule_pods=None, cpu_threshold=60, memory_threshold=60)
SEEDS = seeds(few=4, many=25)


def gang(*on: str, cpu: int | str = 1) -> list[Row]:
    return [pod(f"g{n}", on=at, cpu=cpu, labels=GANG) for n, at in enumerate(on)]


def grouped(seed: int) -> ClusterSnapshot:
    """A cluster rich in rules, in which half of the workloads are in groups of their own."""
    snapshot = random_cluster(seed, nodes=10, pods=50)
    roll = random.Random(seed)
    chosen: dict[object, bool] = defaultdict(lambda: roll.random() < 0.5)
    pods = []
    for each in snapshot.pods:
        workload = each.owner.name if each.owner else each.name.rpartition("-")[0]
        labels = {**each.labels, POD_GROUP: workload} if chosen[workload] else each.labels
        pods.append(msgspec.structs.replace(each, labels=labels))
    return replace(snapshot, pods=tuple(pods))


def groups_of(snapshot: ClusterSnapshot) -> dict[tuple[str, str], set[str]]:
    """The pods of each group that are on a node and have not ended."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    known = {each.name for each in snapshot.nodes}
    for each in snapshot.pods:
        if POD_GROUP in each.labels and each.node in known and not each.finished:
            found[each.namespace, each.labels[POD_GROUP]].add(each.name)
    return found


@pytest.mark.parametrize("name", discover())
def test_every_strategy_moves_a_group_in_one_proposal_or_leaves_it(name: str) -> None:
    for seed in SEEDS:
        snapshot = grouped(seed)
        plan = make_plan(snapshot, POLICY, samples([name]))
        proposals = {(m.namespace, m.pod): m.proposal for m in plan.moves if m.method is not Method.REMOVE}
        for (namespace, _), pods in groups_of(snapshot).items():
            together = {proposals.get((namespace, each)) for each in pods}
            assert len(together) == 1, f"seed {seed}: {pods}"


def test_who_is_not_wanted_elsewhere_comes_along_and_says_why() -> None:
    plan = planned(cluster(A, B, C, gang("a", "b", "c")), MAINTENANCE)
    assert set(moves_of(plan)) == {"g0", "g1", "g2"}
    assert len({move.proposal for move in plan.moves}) == 1
    assert plan.moves[1].reason.startswith("pod group gang moves together: a is under maintenance; ")
    assert plan.moves[0].reason.startswith("a is under maintenance; ")


HOLDING: list[tuple[str, Row, str, str]] = [
    ("opted out", pod("held", on="b", labels=GANG | {RESCHEDULING: "disabled"}), "ReschedulingDisabled", "label"),
    ("too young", pod("held", on="b", labels=GANG, age=5), "MinPodAge", "it is younger than minPodAge (60s)"),
    ("being deleted", pod("held", on="b", labels=GANG, deleting=True), "Deleting", "it is being deleted"),
    ("too large", pod("held", on="b", cpu=3, labels=GANG), "NoTarget", "0/2 other nodes"),
]


@pytest.mark.parametrize(("held", "guard", "why"), [pytest.param(*row[1:], id=row[0]) for row in HOLDING])
def test_one_member_that_may_not_move_holds_all(held: Row, guard: str, why: str) -> None:
    snapshot = cluster(A, B, node("c", cpu=2), gang("a", "a"), held)
    plan = planned(snapshot, MAINTENANCE)
    assert plan.moves == ()
    for name in ("g0", "g1"):
        told = rejection_of(plan, name)
        assert (told.guard, told.strategy) == (guard, MAINTENANCE)
        assert told.reason.startswith(f"pod group gang moves together or not at all, and default/held: {why}")


def test_members_that_wait_or_have_ended_neither_move_nor_hold() -> None:
    rest = [
        pod("waiting", labels=GANG),
        pod("expected", labels=GANG, nominated="b"),
        pod("ended", on="b", labels=GANG, phase="Succeeded"),
    ]
    assert set(moves_of(planned(cluster(A, B, C, gang("a"), rest), MAINTENANCE))) == {"g0"}


def test_the_limit_of_a_cycle_must_have_room_for_the_whole_group() -> None:
    snapshot = cluster(A, B, C, gang("a", "b", "c"), pod("alone", on="a", cpu=1))
    for most, moved in ((2, {"alone"}), (3, {"alone"}), (4, {"alone", "g0", "g1", "g2"})):
        assert set(moves_of(planned(snapshot, MAINTENANCE, max_moves=most))) == moved
    told = rejection_of(planned(snapshot, MAINTENANCE, max_moves=2), "g0")
    assert told.guard == "MaxReschedulePods"
    assert told.reason == "3 pods move together or not at all, and maxReschedulePods is 2"


def test_a_group_of_more_than_may_go_within_an_hour_stays_and_stands_in_nobodys_way() -> None:
    nodes = [node("a"), node("b"), node("c", cpu=8)]
    snapshot = cluster(nodes, gang("a", "b", cpu=2), deployment("full", on=["a"], cpu="1500m"))
    plan = planned(snapshot, OPTIMIZATION, when=Timing(moves_per_hour=1))
    assert [name.split("-")[0] for name in moves_of(plan)] == ["full"]
    drained = planned(cluster(A, B, C, gang("a", "b")), MAINTENANCE, when=Timing(moves_per_hour=1))
    assert set(moves_of(drained)) == {"g0", "g1"}  # somebody has asked for it: it does not count for the hour


def test_a_limit_of_the_hour_that_keeps_a_group_is_named() -> None:
    nodes = [node("a"), node("b"), node("c", cpu=8)]
    snapshot = cluster(nodes, gang("a", "b", cpu=2), deployment("full", on=["a"], cpu="1500m", priority=9))
    told = rejection_of(planned(snapshot, OPTIMIZATION, when=Timing(moves_per_hour=1)), "g0")
    assert told.guard == "MovesPerHour"
    assert told.reason == "2 pods move together or not at all, and when.movesPerHour is 1"


def test_no_workload_of_a_group_loses_more_than_half_of_its_replicas_at_once() -> None:
    """Evictions of one workload take turns, so that all its replicas can never be evicted together."""
    rows = statefulset("db", on=["a", "b"], cpu=1, labels=GANG)
    plan = planned(cluster(A, B, C, rows), MAINTENANCE)
    assert plan.moves == ()
    assert rejection_of(plan, "db-0").guard == "WorkloadAtOnce"


def test_a_label_of_the_operators_choice_makes_groups_too_and_namespaces_part_them() -> None:
    rows = [
        pod("x", on="a", labels={"team": "t"}),
        pod("y", on="b", labels={"team": "t"}),
        pod("z", on="b", labels={"team": "t"}, namespace="shop"),
    ]
    snapshot = cluster(A, B, C, rows)
    policy = Policy(pod_group_labels=(POD_GROUP, "team"))
    kind = discover()[MAINTENANCE]
    moved = moves_of(make_plan(snapshot, policy, [kind(kind.settings_type())]))
    assert set(moved) == {"x", "y"}
    assert set(moves_of(planned(snapshot, MAINTENANCE))) == {"x"}


def test_a_node_over_its_threshold_sheds_a_group_as_a_whole() -> None:
    nodes = [node("a"), node("b"), node("c", cpu=8)]
    snapshot = cluster(nodes, gang("a", "b", cpu=2), deployment("full", on=["a"], cpu="1500m", priority=9))
    plan = planned(snapshot, OPTIMIZATION)
    assert set(moves_of(plan)) == {"g0", "g1"}
    assert plan.after.hot_nodes == 0


def test_balancing_leaves_groups_where_they_are() -> None:
    """What a whole group does to the other nodes could be worth undoing in the next cycle, and so for ever."""
    rows = [*gang(*["b"] * 3), *deployment("web", on=["b"] * 3, cpu=1)]
    plan = planned(cluster(node("b", cpu=10), node("c", cpu=10), rows), "LoadBalancing")
    assert plan.moves
    assert not [name for name in moves_of(plan) if name.startswith("g")]


def test_a_pod_that_has_ended_is_removed_without_its_group() -> None:
    rows = [*gang("b", "c"), *deployment("failed", on=["b"], labels=GANG, phase="Failed")]
    plan = planned(cluster(B, C, rows), "FailedPods")
    assert [(move.pod.split("-")[0], move.method) for move in plan.moves] == [("failed", Method.REMOVE)]


def fingerprint(planner: Planner) -> list[object]:
    """All that a proposal could leave behind."""
    whatif = planner.whatif
    budgets = [planner.objection(index) for index in range(len(planner.columns.pods))]
    places = [
        planner.feasible_targets(index).tobytes() for index in range(len(planner.columns.pods)) if whatif.at[index] >= 0
    ]
    return [
        whatif.used.tobytes(),
        whatif.free.tobytes(),
        whatif.at.tobytes(),
        [sorted(whatif.pods_on(index)) for index in range(len(planner.columns.nodes))],
        [planner.view.cost(index).tobytes() for index in range(len(planner.columns.pods))],
        budgets,
        places,
        planner.exhausted,
        sorted(planner.moved),
    ]


@given(st.integers(0, 10_000), st.data())
def test_a_group_that_is_refused_leaves_no_trace(seed: int, data: st.DataObject) -> None:
    snapshot = grouped(seed)
    limits = Limits(per_node_in=2, per_node_out=3, per_namespace=5, per_workload=3)
    planner = Planner(snapshot, replace(POLICY, max_reschedule_pods=6, limits=limits))
    standing = np.flatnonzero(planner.whatif.at >= 0).tolist()
    for _ in range(3):
        wanted = data.draw(st.lists(st.sampled_from(standing), min_size=1, max_size=3, unique=True))
        before = fingerprint(planner)
        decision = planner.decide("any", Proposal(tuple(PodMove(each, "because", force=True) for each in wanted)))
        if not decision.accepted:
            assert fingerprint(planner) == before
