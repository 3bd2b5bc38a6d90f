"""What the strategies about troubled pods have in common: which pods they are about, and where these had better not go.

TooManyRestarts, PodLifeTime and FailedPods ask it. A pod that its workload's annotation `scheduling-retries` entrusts
to recovery is none of theirs, so that the two never fight over it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from rescheduler.model.objects import Pod
from rescheduler.model.snapshot import WorkloadKey
from rescheduler.planning.columns import Floats, Mask
from rescheduler.planning.view import View
from rescheduler.strategies.support.settings import PodSelection

_LAST = 1e6  # more than any use of a node can cost


def find_ended(view: View, choice: PodSelection) -> list[int]:
    """The pods that have ended on nodes in scope, are meant, and are not removed yet: the oldest first."""
    known = view.columns.node_index
    here = {name for name, at in known.items() if view.scope[at]}
    found = [
        index
        for index, pod in enumerate(view.pods)
        if pod.phase not in ("Running", "Pending") and pod.finished and index not in view.moved
        if pod.node and (pod.node in here or pod.node not in known) and not pod.deleting and choice.accepts(pod)
    ]
    return sorted(found, key=lambda index: (view.pods[index].created or 0.0, index))


def states_of(pod: Pod, *, parts: Iterable[str] = ("",)) -> set[str]:
    """The phase of a pod, its reason, and why its containers do not run or how they ended."""
    wanted = frozenset(parts)
    found = {pod.phase, pod.trouble.reason, *(each.reason for each in pod.trouble.states if each.part in wanted)}
    return found - {""}


def exit_codes_of(pod: Pod, *, parts: Iterable[str] = ("",)) -> set[int]:
    """The exit codes of containers that have ended and do not run again."""
    wanted = frozenset(parts)
    return {each.code for each in pod.trouble.states if each.code is not None and each.part in wanted}


def parts_of(*, init: bool, ephemeral: bool = False) -> tuple[str, ...]:
    """Which containers of a pod are looked at."""
    return ("", *(["init"] if init else []), *(["ephemeral"] if ephemeral else []))


def is_moved(view: View, pod: int) -> bool:
    """Whether the plan has moved it: then there is a new pod in its place, of no age and without a restart."""
    return bool(view.at[pod] != view.columns.pod_at[pod])


def other_nodes(view: View, pod: int) -> Mask | None:
    """[N]: all nodes but the one that the plan moves the pod away from: back there it would be the same pod."""
    if not is_moved(view, pod):
        return None
    mask = np.ones(len(view.nodes), np.bool_)
    mask[view.columns.pod_at[pod]] = False
    return mask


def past_sources(view: View, pod: int, strategy: str) -> set[int]:
    """The nodes that a strategy has taken pods of the same workload away from, for as long as that is remembered."""
    memories, known = view.columns.snapshot.memories, view.columns.node_index
    memory = memories.get(view.workloads.key(view.pods[pod])) if memories else None
    sources = {move.source for move in memory.moves if move.strategy == strategy} if memory is not None else set()
    return {known[name] for name in sources if name in known}


class TroubledNodes:
    """Where a troubled pod had better not go: to nodes on which pods of its workload are in trouble, too.

    Nor to those that a strategy, if one is named, has taken them away from before.
    """

    def __init__(self, view: View, troubled: Iterable[int] = (), strategy: str = "") -> None:
        self._view = view
        self._strategy = strategy
        self._nodes: dict[WorkloadKey, set[int]] = defaultdict(set)
        ailing = (index for index, pod in enumerate(view.pods) if pod.ailment is not None)
        for index in (*ailing, *troubled):
            pod = view.pods[index]
            node = view.columns.node_index.get(pod.node)
            if node is not None and not is_moved(view, index):
                self._nodes[view.workloads.key(pod)].add(node)

    def cost(self, pod: int) -> Floats | None:
        """[N]: the planner's own ranking, with these nodes last; None where it needs no change."""
        key = self._view.workloads.key(self._view.pods[pod])
        nodes = self._nodes.get(key, set()) | past_sources(self._view, pod, self._strategy)
        if not nodes:
            return None
        cost: Floats = np.array(self._view.cost(pod))
        cost[list(nodes)] += _LAST
        return cost
