"""What the strategies about misplaced pods have in common: which pods they propose, and in which order.

NodeAffinity, NodeTaints and PodAntiAffinity find pods that stand where a rule forbids it. That has to be put right even
where a target is then above its thresholds, so they insist.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rescheduler.planning.columns import Indexes
from rescheduler.planning.pod_filters import Choice
from rescheduler.planning.strategy import Proposal, Proposals, Wish
from rescheduler.planning.view import View

_ROOTED = ("DaemonSet", "Node")
"""Owners whose pods belong to their node: whether they stay there is for these alone to say."""


def standing(view: View, pods: Indexes) -> Indexes:
    """Those of these pods that are on nodes in scope."""
    at = view.at[pods]
    found: Indexes = pods[(at >= 0) & view.scope[at]]
    return found


def proposable(view: View, choice: Choice, pod: int) -> bool:
    """Whether a strategy with these filters has anything to say about the pod.

    Pods that are only expected on a node, that leave it anyway, or that belong to it are left out without a word.
    """
    row = view.pods[pod]
    if pod in view.moved or not row.node or row.deleting or (row.owner is not None and row.owner.kind in _ROOTED):
        return False
    return choice.meets(row)


def movable_by_choice(view: View, choice: Choice, pod: int) -> bool:
    """The same for moves that only make something better: a whole pod group is not moved for the sake of one of it."""
    return proposable(view, choice, pod) and len(view.groups.members(pod)) < 2


def in_order(view: View, pods: Iterable[int]) -> list[int]:
    """Lower priority first, then lower eviction cost, then the largest, while there is most room."""
    return sorted(pods, key=lambda pod: (view.pods[pod].rank, -view.share(pod, int(view.at[pod])).max(), pod))


def put_right(wishes: Sequence[Wish]) -> Proposals:
    """Propose each by itself; what found no target is tried again as long as others make room by leaving."""
    left, moved = list(wishes), True
    while left and moved:
        moved, waiting = False, []
        for wish in left:
            decision = yield Proposal((wish,))
            if decision.taken:
                moved = True
            elif decision.exhausted:
                return
            elif decision.rejection is not None and decision.rejection.guard == "NoTarget":
                waiting.append(wish)
        left = waiting
