"""How the pods of each workload stand over the nodes, as they move in the what-if.

RemoveDuplicates reads it. Which pods are a workload's is found once for a snapshot; where they stand is counted when it
is asked, because few workloads ever are. It keeps no view, so that it may outlive one.
"""

from __future__ import annotations

import numpy as np

from rescheduler.model.snapshot import WorkloadKey
from rescheduler.planning.columns import Indexes, Ints, Mask
from rescheduler.planning.view import View

_NOBODY = -1
_ROOTED = ("DaemonSet", "Node")  # their pods belong to their node


class Replicas:
    """The pods of workloads; those that are being deleted don't count."""

    def __init__(self, view: View) -> None:
        self.keys: list[WorkloadKey]
        self.workload: Indexes
        """[P]: the number of each pod's workload; -1 for pods of nobody, of nodes, and those that leave."""
        self.workload, self.keys = _numbered(view)
        self._order = np.argsort(self.workload, kind="stable").astype(np.int32)
        self._starts = np.searchsorted(self.workload[self._order], np.arange(len(self.keys) + 1))
        self._hosts: dict[int, int] = {}

    def pods(self, workload: int) -> Indexes:
        """The workload's pods, wherever they are."""
        found: Indexes = self._order[self._starts[workload] : self._starts[workload + 1]]
        return found

    def crowds(self, view: View) -> list[int]:
        """The workloads of which a node in scope has more than one pod."""
        at, nodes = view.at, max(len(view.nodes), 1)
        here = np.flatnonzero((at >= 0) & (self.workload >= 0) & view.scope[at])
        pairs = self.workload[here].astype(np.int64) * nodes + at[here]
        found, counts = np.unique(pairs, return_counts=True)
        crowded: list[int] = np.unique(found[counts > 1] // nodes).tolist()
        return crowded

    def on_nodes(self, view: View, workload: int) -> Ints:
        """[N]: how many pods of the workload are on each node; none on nodes that are not in scope."""
        at = view.at[self.pods(workload)]
        found: Ints = np.bincount(at[(at >= 0) & view.scope[at]], minlength=len(view.nodes))
        return found

    def even_share(self, view: View, workload: int, on_nodes: Ints) -> int:
        """The most pods of the workload that a node has if they are as even as can be.

        Pods that it wants and has not got yet count, too: while one is replaced, the others are not too many.
        """
        pods = self.pods(workload)
        top = view.workloads.top(view.pods[int(pods[0])])
        wanted = top.replicas if top is not None and top.replicas is not None else 0
        missing = max(wanted - int((view.at[pods] >= 0).sum()), 0)
        return -(-(int(on_nodes.sum()) + missing) // max(self._could_run(view, workload), 1))

    def _could_run(self, view: View, workload: int) -> int:
        """How many open nodes in scope could run a pod of the workload, whatever room they have."""
        if workload not in self._hosts:
            pods = self.pods(workload)
            _, first = np.unique(view.columns.pod_shape[pods], return_index=True)
            reached: Mask = np.logical_or.reduce([view.reach(pod) for pod in pods[first].tolist()])
            self._hosts[workload] = int((view.open & reached).sum())
        return self._hosts[workload]


def _numbered(view: View) -> tuple[Indexes, list[WorkloadKey]]:
    """[P]: numbers of workloads in the order of their first pods; and their names."""
    numbers: dict[WorkloadKey, int] = {}
    known: dict[tuple[int, int], int] = {}  # siblings share these two objects, so that mostly nothing is compared
    found: list[int] = []
    for pod in view.pods:
        owner = pod.owner
        if owner is None or pod.deleting:
            found.append(_NOBODY)
            continue
        alike = (id(owner), id(pod.namespace))
        number = known.get(alike)
        if number is None:
            key = view.workloads.key(pod)
            number = known[alike] = _NOBODY if owner.kind in _ROOTED else numbers.setdefault(key, len(numbers))
        found.append(number)
    return np.array(found, np.int32).reshape(-1), list(numbers)
