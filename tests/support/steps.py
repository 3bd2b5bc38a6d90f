"""Plans walked move by move beside the plain twin: every step must be feasible, and keep rules, budgets and limits."""

from __future__ import annotations

from collections import Counter

from rescheduler.model.objects import Pod
from rescheduler.model.plan import Method, Move, Plan
from rescheduler.model.policy import Limits
from rescheduler.model.snapshot import ClusterSnapshot
from tests.support.twin import World, keeps_rules, refusals

Pods = dict[tuple[str, str], Pod]


def by_name(snapshot: ClusterSnapshot) -> Pods:
    """The pods by namespace and name, as moves name them."""
    return {(pod.namespace, pod.name): pod for pod in snapshot.pods}


def mover(pods: Pods, move: Move) -> Pod:
    return pods[move.namespace, move.pod]


def walk(snapshot: ClusterSnapshot, plan: Plan) -> None:
    """Carry the plan out in the twin's world, asking the scheduler's rules at each step."""
    world, pods = World(snapshot), by_name(snapshot)
    for move in plan.moves:
        pod = mover(pods, move)
        if move.method is Method.REMOVE:
            assert pod.finished, move
            continue  # it counts nowhere, so nothing changes for the others
        there = world.without(pod) if move.method is Method.EVICT else world
        assert refusals(there, pod, move.target) == set(), move
        assert keeps_rules(world, pod, move.source, move.target), move
        world = world.without(pod).plus(pod, move.target)


def check_budgets(snapshot: ClusterSnapshot, plan: Plan, most: int | None, limits: Limits) -> None:
    """Evictions stay within every disruption budget's headroom, moves within every limit."""
    pods = by_name(snapshot)
    evicted = [mover(pods, move) for move in plan.moves if move.method is Method.EVICT]
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
        (limits.per_node_in, Counter(m.target for m in plan.moves if m.target)),
        (limits.per_node_out, Counter(m.source for m in plan.moves)),
        (limits.per_namespace, Counter(m.namespace for m in plan.moves)),
        (limits.per_workload, Counter((m.namespace, m.workload) for m in plan.moves)),
        (most, Counter(len(plan.moves) * ["all"])),
    ):
        assert limit is None or max(counts.values(), default=0) <= limit
