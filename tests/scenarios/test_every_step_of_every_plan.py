"""Plans walked move by move beside the plain twin: no step may break a rule, a budget or a limit."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.model.plan import Method, Plan
from rescheduler.model.policy import Limits, Policy, Thresholds
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.cycle import make_plan
from rescheduler.strategies import discover
from tests.support.builders import node_called
from tests.support.generated import random_cluster
from tests.support.twin import World, keeps_rules, refusals

LIMITS = st.none() | st.integers(1, 3)


def plan_of(snapshot: ClusterSnapshot, policy: Policy) -> Plan:
    return make_plan(snapshot, policy, [strategy(strategy.settings_type()) for strategy in discover().values()])


def walk(snapshot: ClusterSnapshot, plan: Plan) -> None:
    """Carry the plan out in the twin's world, asking the scheduler's rules at each step."""
    world = World(snapshot)
    for move in plan.moves:
        pod = next(p for p in snapshot.pods if (p.namespace, p.name) == (move.namespace, move.pod))
        there = world.without(pod) if move.method is Method.EVICT else world
        assert refusals(there, pod, move.target) == set(), move
        assert keeps_rules(world, pod, move.source, move.target), move
        world = world.without(pod).plus(pod, move.target)


def check_budgets(snapshot: ClusterSnapshot, plan: Plan, limits: Limits) -> None:
    """Evictions stay within every disruption budget's headroom, moves within every limit."""
    pods = {(pod.namespace, pod.name): pod for pod in snapshot.pods}
    evicted = [pods[(m.namespace, m.pod)] for m in plan.moves if m.method is Method.EVICT]
    for budget in snapshot.budgets:
        selected = [
            p
            for p in evicted
            if p.namespace == budget.namespace and budget.selector and budget.selector.matches(p.labels)
        ]
        healthy = [p for p in selected if p.ready or not budget.always_evict_unhealthy]
        if budget.allowed is not None:
            assert len(healthy) <= budget.allowed, budget
    for limit, counts in (
        (limits.per_node_in, Counter(m.target for m in plan.moves)),
        (limits.per_node_out, Counter(m.source for m in plan.moves)),
        (limits.per_namespace, Counter(m.namespace for m in plan.moves)),
        (limits.per_workload, Counter((m.namespace, m.workload) for m in plan.moves)),
        (limits.total, Counter(len(plan.moves) * ["all"])),
    ):
        assert limit is None or max(counts.values(), default=0) <= limit


@given(
    seed=st.integers(0, 10**6),
    size=st.tuples(st.integers(2, 12), st.integers(5, 80)),
    threshold=st.sampled_from([40.0, 60.0, 80.0]),
    limits=st.builds(
        Limits,
        total=st.none() | st.integers(0, 8),
        per_node_in=LIMITS,
        per_node_out=LIMITS,
        per_namespace=LIMITS,
        per_workload=LIMITS,
    ),
)
@settings(max_examples=250)
def test_no_step_breaks_a_rule_a_budget_or_a_limit(
    seed: int, size: tuple[int, int], threshold: float, limits: Limits
) -> None:
    snapshot = random_cluster(seed, *size)
    plan = plan_of(snapshot, Policy(limits=limits, thresholds=Thresholds(threshold, threshold)))
    walk(snapshot, plan)
    check_budgets(snapshot, plan, limits)


@pytest.mark.parametrize("seed", range(8))
def test_a_larger_cluster_is_planned_without_a_wrong_step(seed: int) -> None:
    snapshot = random_cluster(seed, nodes=30, pods=250)
    plan = plan_of(snapshot, Policy(limits=Limits(total=None), thresholds=Thresholds(50, 50)))
    walk(snapshot, plan)
    check_budgets(snapshot, plan, Limits(total=None))
    moved = {(move.namespace, move.pod) for move in plan.moves}
    rejected = {(rejection.namespace, rejection.pod) for rejection in plan.rejections}
    assert not moved & rejected
    for move in plan.moves:
        target = node_called(snapshot, move.target)
        closed = target.unschedulable or target.control_plane or target.maintenance
        assert target.ready
        assert not closed


def test_the_material_makes_plans_worth_checking() -> None:
    """Were the generated clusters without moves of every method, the tests above would prove nothing."""
    methods: Counter[Method] = Counter()
    strategies: Counter[str] = Counter()
    for seed in range(40):
        plan = plan_of(random_cluster(seed, 10, 70), Policy(limits=Limits(total=None), thresholds=Thresholds(60, 60)))
        methods.update(move.method for move in plan.moves)
        strategies.update(move.strategy for move in plan.moves)
    assert set(methods) == set(Method)
    assert set(strategies) == set(discover())
