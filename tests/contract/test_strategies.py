"""What every strategy in `strategies/` must do, found by itself: a new file there is tested here without a word.

Deterministic; proposes only pods that exist, and moves them from where they are; settles: when its plan was carried
out, planning again has nothing to say.
"""

from __future__ import annotations

import pytest

from rescheduler.model.plan import Method, Plan
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.api import Strategy
from rescheduler.planning.cycle import make_plan
from rescheduler.planning.settings import StrategySettings
from rescheduler.strategies import discover
from tests.support.applied import apply_plan
from tests.support.examples import seeds
from tests.support.generated import random_cluster, shuffle, with_waiting_pods
from tests.support.sample_settings import MANY, SETTINGS, samples

RARE = (14, 20)  # in these clusters even the strategies that seldom have something to do move pods
SEEDS = sorted({*seeds(few=8, many=80), *RARE})
# What these refuse in one cycle they may allow in the next: such a plan isn't over yet.
CYCLE_LIMITS = {"WorkloadAtOnce", "DisruptionBudget"}
POLICY = Policy(max_reschedule_pods=None, cpu_threshold=60, memory_threshold=60)


def generated(seed: int) -> ClusterSnapshot:
    """Most are crowded. Each fourth is so sparse that nodes could be emptied, and large pods wait there for room."""
    if seed % 4 == 3:
        return with_waiting_pods(random_cluster(seed, nodes=10, pods=15), seed)
    return random_cluster(seed, nodes=10, pods=70)


def planned(name: str, snapshot: ClusterSnapshot) -> Plan:
    return make_plan(snapshot, POLICY, samples([name]))


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
            snapshot = generated(seed)
            assert planned(name, snapshot) == planned(name, shuffle(snapshot, seed))

    def test_moves_only_pods_that_exist_and_from_where_they_are(self, name: str) -> None:
        for seed in SEEDS:
            snapshot = generated(seed)
            plan = planned(name, snapshot)
            where = {(pod.namespace, pod.name): pod.node for pod in snapshot.pods}
            ended = {(pod.namespace, pod.name) for pod in snapshot.pods if pod.finished}
            nodes = {node.name for node in snapshot.nodes}
            assert len({(move.namespace, move.pod) for move in plan.moves}) == len(plan.moves)
            for move in plan.moves:
                assert where[(move.namespace, move.pod)] == move.source != move.target
                removed = move.method is Method.REMOVE
                assert removed == ((move.namespace, move.pod) in ended)
                assert move.target == "" if removed else move.target in nodes
                assert move.strategy == name

    def test_settles_when_its_plan_was_carried_out(self, name: str) -> None:
        assert settled(samples([name])), "no seed gave the strategy anything to do"


@pytest.mark.parametrize("name", [name for name in MANY if MANY[name] != SETTINGS.get(name)])
def test_what_a_strategy_does_only_on_request_lasts_too(name: str) -> None:
    assert settled(samples([name], MANY))


def settled(strategy: list[Strategy[StrategySettings]]) -> int:
    """How many moves it makes; when they were carried out, it has nothing more to say."""
    moved = 0
    for seed in SEEDS:
        snapshot = generated(seed)
        plan = make_plan(snapshot, POLICY, strategy)
        moved += len(plan.moves)
        rounds = 1
        while plan.moves and CYCLE_LIMITS & {rejection.guard for rejection in plan.rejections}:
            snapshot = apply_plan(snapshot, plan)
            plan = make_plan(snapshot, POLICY, strategy)
            rounds += 1
            assert rounds < 20, f"seed {seed} never comes to rest"
        assert make_plan(apply_plan(snapshot, plan), POLICY, strategy).moves == (), f"seed {seed}"
    return moved
