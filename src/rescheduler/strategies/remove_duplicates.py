from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator

import numpy as np

from rescheduler.model.snapshot import WorkloadKey
from rescheduler.planning.api import Proposal, ProposalResult, Proposals, Strategy
from rescheduler.planning.columns import Indexes, Ints, Mask
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.view import View
from rescheduler.planning.workloads import NODE_BOUND
from rescheduler.strategies.support.settings import PodFilters, PodSelection

# More than the use of a node can cost: the fewest siblings decide, use only among nodes with equally many.
_PER_SIBLING = 1e6


class RemoveDuplicatesSettings(PodFilters):
    """Which workloads; by default all but DaemonSets."""


class RemoveDuplicates(Strategy[RemoveDuplicatesSettings]):
    """Moves replicas of a workload off nodes that have more of them than an even share.

    When a node fails, its pods crowd on the others, and stay there when it is back; when one of those fails next, the
    workload loses more pods than necessary. The even share is the number of pods that the workload has or wants,
    divided by the number of nodes that could run them (open nodes whose taints and labels permit it), rounded up. From
    nodes above it pods go to the nodes with the fewest, and only if there are then fewer than there were on the node
    that they leave; targets stay under their thresholds. So no move is ever worth undoing. Each node pool is handled
    separately. Pods of pod groups stay.

    No other strategy then moves a pod to a node that would have more than an even share, unless it has no more than the
    node that the pod leaves.
    """

    order = 230

    def propose(self, view: View) -> Proposals:
        """Handle one workload after the other, lower priority and eviction cost first."""
        replicas, selection = self.keep(view, lambda: WorkloadReplicas(view)), PodSelection(self.settings, view)
        crowds = [(view.pods[int(replicas.pods(each)[0])].rank, each) for each in replicas.crowds(view)]
        for _, workload in sorted(crowds):
            exhausted = yield from _spread(view, replicas, selection, workload)
            if exhausted:
                return

    def accepts(self, view: View, pod: int) -> Mask | None:
        """Return nodes on which the pod would not exceed the even share of its workload."""
        replicas = self.keep(view, lambda: WorkloadReplicas(view))
        workload, node = int(replicas.workload[pod]), int(view.at[pod])
        if workload < 0 or node < 0 or not PodSelection(self.settings, view).matches(view.pods[pod]):
            return None
        on_node = replicas.on_nodes(view, workload)
        found: Mask = on_node < max(replicas.even_share(view, workload, on_node), int(on_node[node]))
        return found


def _spread(
    view: View, replicas: WorkloadReplicas, selection: PodSelection, workload: int
) -> Generator[Proposal, ProposalResult, bool]:
    """Move pods off the most crowded node, one at a time; return whether the plan is full.

    If two pods of one shape found no target, from two nodes, no node takes another one: the rest is skipped.
    """
    kind, _, name = replicas.keys[workload]
    share = replicas.even_share(view, workload, replicas.on_nodes(view, workload))
    members = [pod for pod in replicas.pods(workload).tolist() if selection.may_improve(pod)]
    pods = np.array(sorted(members, key=lambda pod: (view.pods[pod].rank, pod)), np.int32)
    left = (view.at[pods] >= 0) & view.scope[view.at[pods]]
    refused: defaultdict[int, set[int]] = defaultdict(set)
    while left.any():
        on_node = replicas.on_nodes(view, workload)
        crowd = np.where(left, on_node[view.at[pods]], 0)
        first = int(crowd.argmax())
        if crowd[first] <= share:
            return False
        left[first] = False
        pod, node = int(pods[first]), int(view.at[pods[first]])
        shape = int(view.columns.pod_shape[pod])
        if node in refused[shape] or len(refused[shape]) > 1:
            continue
        cost = view.cost(pod) + on_node * _PER_SIBLING
        cost[~view.open | (on_node + 1 >= on_node[node])] = np.inf
        why = f"{on_node[node]} of the {on_node.sum()} pods of {kind}/{name}, and {share} would be an even share"
        result = yield Proposal.one(pod, f"{view.nodes[node].name} has {why}", cost)
        if result.is_final:
            return True
        if result.refused_by(PlanGuard.NO_TARGET):
            refused[shape].add(node)
    return False


_NONE = -1


class WorkloadReplicas:
    """The pods of workloads, except those that are being deleted."""

    def __init__(self, view: View) -> None:
        self.keys: list[WorkloadKey]
        self.workload: Indexes
        """[P]: the number of each pod's workload; -1 for pods without owners, of nodes, and those that leave."""
        self.workload, self.keys = _number_workloads(view)
        self._order = np.argsort(self.workload, kind="stable").astype(np.int32)
        self._starts = np.searchsorted(self.workload[self._order], np.arange(len(self.keys) + 1))
        self._hosts: dict[int, int] = {}

    def pods(self, workload: int) -> Indexes:
        """Return the workload's pods on any node."""
        found: Indexes = self._order[self._starts[workload] : self._starts[workload + 1]]
        return found

    def crowds(self, view: View) -> list[int]:
        """Return the workloads that have more than one pod on a node in scope."""
        at, nodes = view.at, max(len(view.nodes), 1)
        here = np.flatnonzero((at >= 0) & (self.workload >= 0) & view.scope[at])
        pairs = self.workload[here].astype(np.int64) * nodes + at[here]
        found, counts = np.unique(pairs, return_counts=True)
        crowded: list[int] = np.unique(found[counts > 1] // nodes).tolist()
        return crowded

    def on_nodes(self, view: View, workload: int) -> Ints:
        """[N]: the number of pods of the workload on each node in scope."""
        at = view.at[self.pods(workload)]
        found: Ints = np.bincount(at[(at >= 0) & view.scope[at]], minlength=len(view.nodes))
        return found

    def even_share(self, view: View, workload: int, on_nodes: Ints) -> int:
        """Return the most pods of the workload on one node if they are spread as evenly as possible.

        Missing replicas count too: while one pod is replaced, the others are not too many.
        """
        pods = self.pods(workload)
        top = view.workloads.top(view.pods[int(pods[0])])
        wanted = top.replicas if top is not None and top.replicas is not None else 0
        missing = max(wanted - int((view.at[pods] >= 0).sum()), 0)
        return -(-(int(on_nodes.sum()) + missing) // max(self._could_run(view, workload), 1))

    def _could_run(self, view: View, workload: int) -> int:
        """Return how many open nodes in scope could run a pod of the workload, with or without room."""
        if workload not in self._hosts:
            pods = self.pods(workload)
            _, first = np.unique(view.columns.pod_shape[pods], return_index=True)
            reached: Mask = np.logical_or.reduce([view.node_mask(pod) for pod in pods[first].tolist()])
            self._hosts[workload] = int((view.open & reached).sum())
        return self._hosts[workload]


def _number_workloads(view: View) -> tuple[Indexes, list[WorkloadKey]]:
    """[P]: the number of each pod's workload, in the order of their first pods; and the workloads' keys."""
    numbers: dict[WorkloadKey, int] = {}
    known: dict[tuple[int, int], int] = {}  # siblings share these two objects, so that mostly nothing is compared
    found: list[int] = []
    for pod in view.pods:
        owner = pod.owner
        if owner is None or pod.deleting:
            found.append(_NONE)
            continue
        alike = (id(owner), id(pod.namespace))
        number = known.get(alike)
        if number is None:
            key = view.workloads.key(pod)
            number = known[alike] = _NONE if owner.kind in NODE_BOUND else numbers.setdefault(key, len(numbers))
        found.append(number)
    return np.array(found, np.int32).reshape(-1), list(numbers)
