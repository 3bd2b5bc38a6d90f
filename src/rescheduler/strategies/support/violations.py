"""Which pods a strategy may propose, and how violated rules are repaired.

A violated rule is repaired even if the target is then above its thresholds: such moves have `force` set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rescheduler.planning.api import PodMove, Proposal, Proposals
from rescheduler.planning.columns import Indexes
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.view import View
from rescheduler.strategies.support.settings import PodSelection

NODE_BOUND = ("DaemonSet", "Node")
"""Owners whose pods belong to their nodes."""


def pods_in_scope(view: View, pods: Indexes) -> Indexes:
    """Return those of these pods that are on nodes in scope."""
    at = view.at[pods]
    found: Indexes = pods[(at >= 0) & view.scope[at]]
    return found


def may_propose(view: View, selection: PodSelection, pod: int) -> bool:
    """Whether a strategy with these filters may propose the pod.

    Pods that are only expected on a node, that are leaving, or that belong to their node are skipped silently.
    """
    row = view.pods[pod]
    if pod in view.moved or not row.node or row.deleting or (row.owner is not None and row.owner.kind in NODE_BOUND):
        return False
    return selection.matches(row)


def may_improve(view: View, selection: PodSelection, pod: int) -> bool:
    """The same for moves that repair nothing: a pod group is not moved as a whole for the sake of one pod."""
    return may_propose(view, selection, pod) and len(view.groups.members(pod)) < 2


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
