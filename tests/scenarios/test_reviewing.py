"""A plan that was just made is never given up by the review of what waits for approval."""

from __future__ import annotations

import pytest

from rescheduler.model.policy import Policy
from rescheduler.planning.cycle import make_plan
from rescheduler.runtime.planning_loop import find_refusals, make_migration
from rescheduler.strategies import discover
from tests.support.examples import seeds
from tests.support.generated import random_cluster

POLICY = Policy(max_reschedule_pods=10, min_pod_age=0.0, cool_down=0.0)


@pytest.mark.parametrize("seed", seeds(few=5, many=40))
def test_nothing_of_a_fresh_plan_is_refused(seed: int) -> None:
    snapshot = random_cluster(seed, nodes=12, pods=80)
    plan = make_plan(snapshot, POLICY, [strategy(strategy.settings_type()) for strategy in discover().values()])
    assert find_refusals(snapshot, POLICY, [make_migration(move, 1, "now") for move in plan.moves]) == {}
