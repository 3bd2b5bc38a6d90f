"""How violated rules are repaired.

A violated rule is repaired even if the target is then above its thresholds: such moves have `force` set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rescheduler.planning.api import PodMove, Proposal, Proposals
from rescheduler.planning.columns import Indexes
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.view import View


def pods_in_scope(view: View, pods: Indexes) -> Indexes:
    """Return those of these pods that are on nodes in scope."""
    at = view.at[pods]
    found: Indexes = pods[(at >= 0) & view.scope[at]]
    return found


def sort_pods(view: View, pods: Iterable[int]) -> list[int]:
    """Sort by priority, then eviction cost, then the largest first, while there is most room."""
    return sorted(pods, key=lambda pod: (view.pods[pod].rank, -view.share(pod, int(view.at[pod])).max(), pod))


def propose_until_stuck(view: View, reasons: Mapping[int, str]) -> Proposals:
    """Propose each of these pods by itself; retry those without a target as long as other moves free room."""
    left, moved = [PodMove(pod, reasons[pod], force=True) for pod in sort_pods(view, reasons)], True
    while left and moved:
        moved, waiting = False, []
        for pod_move in left:
            result = yield Proposal((pod_move,))
            if result.accepted:
                moved = True
            elif result.exhausted:
                return
            elif result.refused_by(PlanGuard.NO_TARGET):
                waiting.append(pod_move)
        left = waiting
