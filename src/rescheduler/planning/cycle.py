"""One cycle: from a snapshot to a plan that lasts.

Strategies are greedy and a pod moves once a plan, so now and then the next cycle would move a pod on, or back. Such
cycles are planned here and now, in a rehearsal in which pods may move again; the plan then goes straight to where the
rehearsal ended, and the next cycle has nothing to undo. Mostly the rehearsal changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.planner import Planner
from rescheduler.planning.settings import Settings
from rescheduler.planning.strategy import Proposal, Strategy

# How many cycles are planned ahead to see whether the plan lasts.
_AHEAD = 4


def plan_cycle(
    snapshot: ClusterSnapshot, policy: Policy, strategies: Sequence[Strategy[Settings]]
) -> tuple[Planner, Plan]:
    """The cycle's plan, and the planner in whose what-if it is laid."""
    planner = Planner(snapshot, policy)
    plan = planner.plan(strategies)
    if not _has_second_thoughts(planner, plan, strategies):
        return planner, plan
    settled = Planner(snapshot, policy)
    settled.rejections.update(planner.rejections)
    settled.not_for_gain = planner.not_for_gain
    if _replay(settled, planner):
        return settled, settled.outcome()
    # No order of moves leads to where the rehearsal ended. The first plan stands: it is feasible, if not for ever.
    planner = Planner(snapshot, policy)
    return planner, planner.plan(strategies)


def make_plan(snapshot: ClusterSnapshot, policy: Policy, strategies: Sequence[Strategy[Settings]]) -> Plan:
    """The cycle's plan."""
    return plan_cycle(snapshot, policy, strategies)[1]


def _has_second_thoughts(planner: Planner, plan: Plan, strategies: Sequence[Strategy[Settings]]) -> bool:
    """Plan the next cycles in the same what-if; whether they changed anything.

    Moves that stand or fall together are not taken apart, and a plan that its limit cut short isn't over yet.
    """
    together = any(count > 1 for count in Counter(move.proposal for move in plan.moves).values())
    if not plan.moves or planner.exhausted or together:
        return False
    first = planner.whatif.at.copy()
    for _ in range(_AHEAD):
        before = planner.whatif.at.copy()
        planner.view.moved.intersection_update(planner.removed)  # what is gone does not come back
        planner.consult(strategies)
        if (planner.whatif.at == before).all():
            break
    return bool((planner.whatif.at != first).any())


def _replay(planner: Planner, rehearsal: Planner) -> bool:
    """Plan a move for each pod that ended elsewhere, in an order in which each is feasible; False if there is none."""
    for strategy, wish in rehearsal.removed.values():
        planner.decide(strategy, Proposal((wish,)))
    ended = rehearsal.whatif.at
    wanted = (pod for pod in rehearsal.reasons if pod not in rehearsal.removed)
    left = [pod for pod in wanted if ended[pod] != planner.columns.pod_at[pod]]
    while left:
        waiting: list[int] = []
        for pod in left:
            strategy, why = rehearsal.reasons[pod]
            cost = np.full(len(planner.columns.nodes), np.inf)
            cost[ended[pod]] = 0.0
            if not planner.decide(strategy, Proposal.one(pod, why, cost, insist=True)).taken:
                waiting.append(pod)
        if len(waiting) == len(left):
            return False
        left = waiting
    return True
