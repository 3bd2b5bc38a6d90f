"""Plans walked move by move beside the plain twin: no step may break a rule, a budget or a limit."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.model.plan import Method, Plan
from rescheduler.model.policy import Limits, Policy, Timing
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.cycle import make_plan
from rescheduler.strategies import discover
from tests.support.builders import node_called
from tests.support.examples import examples, seeds
from tests.support.generated import random_cluster, with_waiting_pods
from tests.support.planning import MAINTENANCE
from tests.support.pod_migrations import replace
from tests.support.sample_settings import samples
from tests.support.steps import check_budgets, walk

LIMITS = st.none() | st.integers(1, 3)


TOGETHER = [tuple(name for name in discover() if name != other) for other in ("LoadBalancing", "Consolidation")]
"""All that may run beside each other."""


def plan_of(snapshot: ClusterSnapshot, policy: Policy, names: tuple[str, ...] = TOGETHER[0]) -> Plan:
    return make_plan(snapshot, policy, samples(names))


def material(seed: int, nodes: int, pods: int) -> ClusterSnapshot:
    """A cluster, every other one with pods that wait for room."""
    snapshot = random_cluster(seed, nodes, pods)
    return with_waiting_pods(snapshot, seed) if seed % 2 else snapshot


@given(
    seed=st.integers(0, 10**6),
    size=st.tuples(st.integers(2, 12), st.integers(5, 80)),
    threshold=st.sampled_from([40.0, 60.0, 80.0]),
    names=st.sampled_from([*TOGETHER, *((name,) for name in discover())]),
    most=st.none() | st.integers(0, 8),
    limits=st.builds(
        Limits,
        per_node_in=LIMITS,
        per_node_out=LIMITS,
        per_namespace=LIMITS,
        per_workload=LIMITS,
    ),
)
@settings(max_examples=examples(few=25, many=250))
def test_no_step_breaks_a_rule_a_budget_or_a_limit(
    seed: int, size: tuple[int, int], threshold: float, names: tuple[str, ...], most: int | None, limits: Limits
) -> None:
    snapshot = material(seed, *size)
    plan = plan_of(
        snapshot,
        Policy(max_reschedule_pods=most, limits=limits, cpu_threshold=threshold, memory_threshold=threshold),
        names,
    )
    walk(snapshot, plan)
    check_budgets(snapshot, plan, most, limits)


@given(seed=st.integers(0, 10**9), most=st.integers(1, 3), begun=st.integers(0, 4))
def test_no_namespace_gives_more_pods_than_its_hour_has_left_but_to_empty_nodes(
    seed: int, most: int, begun: int
) -> None:
    snapshot = material(seed, nodes=8, pods=60)
    known = replace(snapshot, hourly={pod.namespace: begun for pod in snapshot.pods[::2]})
    policy = Policy(
        max_reschedule_pods=None, cpu_threshold=40, memory_threshold=40, when=Timing(moves_per_hour_per_namespace=most)
    )
    plan = plan_of(known, policy, TOGETHER[seed % 2])
    walk(known, plan)
    moved = Counter(move.namespace for move in plan.moves if move.strategy != MAINTENANCE)
    for namespace, count in moved.items():
        assert count <= max(0, most - known.hourly.get(namespace, 0))


@pytest.mark.parametrize("seed", seeds(few=2, many=8))
def test_a_larger_cluster_is_planned_without_a_wrong_step(seed: int) -> None:
    snapshot = material(seed, nodes=30, pods=250)
    plan = plan_of(
        snapshot, Policy(max_reschedule_pods=None, cpu_threshold=50, memory_threshold=50), TOGETHER[seed % 2]
    )
    walk(snapshot, plan)
    check_budgets(snapshot, plan, None, Limits())
    moved = {(move.namespace, move.pod) for move in plan.moves}
    rejected = {(rejection.namespace, rejection.pod) for rejection in plan.rejections}
    assert not moved & rejected
    for move in (each for each in plan.moves if each.method is not Method.REMOVE):
        target = node_called(snapshot, move.target)
        closed = target.unschedulable or target.control_plane or target.maintenance
        assert target.ready
        assert not closed


def test_the_material_makes_plans_worth_checking() -> None:
    """Were the generated clusters without moves of every method and strategy, the tests above would prove nothing."""
    policy = Policy(max_reschedule_pods=None, cpu_threshold=60, memory_threshold=60)
    clusters = [material(seed, 10, 15 if seed % 2 else 70) for seed in (1, 4, 7, 14, 20)]
    plans = [plan_of(snapshot, policy, (name,)) for snapshot in clusters for name in discover()]
    moves = [move for plan in plans for move in plan.moves]
    assert {move.method for move in moves} == set(Method)
    assert {move.strategy for move in moves} == set(discover())
