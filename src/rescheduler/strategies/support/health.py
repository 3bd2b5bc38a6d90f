"""What the strategies for pods in trouble share: which pods they handle, and which nodes are bad targets.

TooManyRestarts, PodLifeTime and FailedPods use it. They skip pods whose workload has the annotation
`scheduling-retries`, so that they never conflict with recovery.
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


def find_ended(view: View, selection: PodSelection) -> list[int]:
    """Return selected pods that have ended on nodes in scope and are not removed yet: the oldest first."""
    known = view.columns.node_index
    here = {name for name, at in known.items() if view.scope[at]}
    found = [
        index
        for index, pod in enumerate(view.pods)
        if pod.phase not in ("Running", "Pending") and pod.finished and index not in view.moved
        if pod.node and (pod.node in here or pod.node not in known) and not pod.deleting and selection.accepts(pod)
    ]
    return sorted(found, key=lambda index: (view.pods[index].created or 0.0, index))


def read_states(pod: Pod, *, init: bool, ephemeral: bool = False) -> tuple[set[str], set[int]]:
    """Return a pod's states and the exit codes of its containers, of these kinds too, that are not running again.

    States are its phase and reason, and why its containers wait or ended.
    """
    parts = {"", "init" if init else "", "ephemeral" if ephemeral else ""}
    found = [each for each in pod.trouble.states if each.part in parts]
    states = {pod.phase, pod.trouble.reason, *(each.reason for each in found)} - {""}
    return states, {each.code for each in found if each.code is not None}


def is_moved(view: View, pod: int) -> bool:
    """Whether the plan has moved the pod: its replacement has no age and no restarts."""
    return bool(view.at[pod] != view.columns.pod_at[pod])


def other_nodes(view: View, pod: int) -> Mask | None:
    """[N]: all nodes but the source of the pod's move in the plan: moving back would undo it."""
    if not is_moved(view, pod):
        return None
    mask = np.ones(len(view.nodes), np.bool_)
    mask[view.columns.pod_at[pod]] = False
    return mask


def past_sources(view: View, pod: int, strategy: str) -> set[int]:
    """Return the nodes that a strategy moved pods of the same workload away from, as far as that is recorded."""
    memories, known = view.columns.snapshot.memories, view.columns.node_index
    memory = memories.get(view.workloads.key(view.pods[pod])) if memories else None
    sources = {move.source for move in memory.moves if move.strategy == strategy} if memory is not None else set()
    return {known[name] for name in sources if name in known}


class TroubledNodes:
    """Nodes on which pods of the same workload are in trouble: bad targets for a pod in trouble.

    So are the nodes that the given strategy moved them away from before.
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
        """[N]: the planner's own costs, with these nodes last; None if there are none."""
        key = self._view.workloads.key(self._view.pods[pod])
        nodes = self._nodes.get(key, set()) | past_sources(self._view, pod, self._strategy)
        if not nodes:
            return None
        cost: Floats = np.array(self._view.cost(pod))
        cost[list(nodes)] += _LAST
        return cost
