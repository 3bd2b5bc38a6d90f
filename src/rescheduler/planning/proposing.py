"""How strategies propose pods that have nothing to do with each other: one by one, and few of them in vain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rescheduler.planning.strategy import Proposal, Proposals, Wish
from rescheduler.planning.view import View


def each_by_itself(view: View, wishes: Iterable[Wish]) -> Proposals:
    """Propose these one by one, until the plan is full.

    Where two pods of one look find no target from two nodes, no node takes their like: the others are not asked for.
    """
    refused: defaultdict[tuple[int, int, str], set[int]] = defaultdict(set)
    for wish in wishes:
        pod, node = view.pods[wish.pod], int(view.at[wish.pod])
        look = (id(pod.shape), id(pod.labels), pod.namespace)
        if len(refused[look]) > 1:
            continue
        decision = yield Proposal((wish,))
        if decision.taken:
            refused.clear()  # it has left room behind
        elif decision.exhausted:
            return
        elif decision.rejection is not None and decision.rejection.guard == "NoTarget":
            refused[look].add(node)
