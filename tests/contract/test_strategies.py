"""What every strategy in `strategies/` must do, found by itself: a new file there is tested here without a word.

Deterministic; proposes only pods that exist, and moves them from where they are; settles: when its plan was carried
out, planning again has nothing to say.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from rescheduler.model.plan import Plan
from rescheduler.model.policy import Limits, Policy, Thresholds
from rescheduler.model.snapshot import ClusterSnapshot, Rows
from rescheduler.planning.cycle import make_plan
from rescheduler.strategies import discover
from tests.support.applied import applied
from tests.support.generated import random_cluster

SEEDS = range(60)
# What these refuse in one cycle they may allow in the next: such a plan isn't over yet.
CYCLE_LIMITS = {"WorkloadAtOnce", "DisruptionBudget"}
POLICY = Policy(limits=Limits(total=None), thresholds=Thresholds(60, 60))


def planned(name: str, snapshot: ClusterSnapshot) -> Plan:
    strategy = discover()[name]
    return make_plan(snapshot, POLICY, [strategy(strategy.settings_type())])


def shuffled(snapshot: ClusterSnapshot, seed: int) -> ClusterSnapshot:
    """The same objects, read in another order."""
    rows = Rows()
    rng = random.Random(seed)
    for pod in rng.sample(snapshot.pods, len(snapshot.pods)):
        rows.pods[(pod.namespace, pod.name)] = pod
    for node in rng.sample(snapshot.nodes, len(snapshot.nodes)):
        rows.nodes[node.name] = node
    for budget in rng.sample(snapshot.budgets, len(snapshot.budgets)):
        rows.budgets[(budget.namespace, budget.name)] = budget
    again = rows.snapshot()
    return replace(snapshot, pods=again.pods, nodes=again.nodes, budgets=again.budgets)


@pytest.mark.parametrize("name", discover())
class TestEveryStrategy:
    def test_says_what_it_is_for(self, name: str) -> None:
        strategy = discover()[name]
        assert strategy.name == name
        assert strategy.__doc__
        assert len(strategy.__doc__) > 80
        for field in strategy.settings_type.model_fields.values():
            assert field.description

    def test_gives_the_same_plan_for_the_same_cluster_whatever_its_order(self, name: str) -> None:
        for seed in SEEDS:
            snapshot = random_cluster(seed, nodes=10, pods=70)
            assert planned(name, snapshot) == planned(name, shuffled(snapshot, seed))

    def test_moves_only_pods_that_exist_and_from_where_they_are(self, name: str) -> None:
        for seed in SEEDS:
            snapshot = random_cluster(seed, nodes=10, pods=70)
            plan = planned(name, snapshot)
            where = {(pod.namespace, pod.name): pod.node for pod in snapshot.pods}
            nodes = {node.name for node in snapshot.nodes}
            assert len({(move.namespace, move.pod) for move in plan.moves}) == len(plan.moves)
            for move in plan.moves:
                assert where[(move.namespace, move.pod)] == move.source != move.target
                assert move.target in nodes
                assert move.strategy == name

    def test_settles_when_its_plan_was_carried_out(self, name: str) -> None:
        moved = 0
        for seed in SEEDS:
            snapshot = random_cluster(seed, nodes=10, pods=70)
            plan = planned(name, snapshot)
            moved += len(plan.moves)
            rounds = 1
            while plan.moves and CYCLE_LIMITS & {rejection.guard for rejection in plan.rejections}:
                snapshot = applied(snapshot, plan)
                plan = planned(name, snapshot)
                rounds += 1
                assert rounds < 20, f"seed {seed} never comes to rest"
            assert planned(name, applied(snapshot, plan)).moves == (), f"seed {seed}"
        assert moved, "no seed gave the strategy anything to do"
