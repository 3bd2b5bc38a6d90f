"""The planner's what-if of the cluster, asked where a pod could be, where best, and why nowhere.

It holds the pods that were known when it was built. Pods that the scheduler places afterwards are placed in it too;
after any other change that counts the scheduler builds a new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from kubemini.scheduler.cache import CachedPod
from kubemini.scheduler.scores import Scores
from kubemini.store import Key
from rescheduler.model.shape import Taint
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import PODS, Columns, Ints, Mask
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.predicates.base import Predicate
from rescheduler.planning.whatif import WhatIf

_CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_FIT = "NodeResourcesFit"
_MESSAGES = {
    "NodeUnschedulable": "node(s) were unschedulable",
    "TaintToleration": "node(s) had untolerated taint(s)",
    "NodeAffinity": "node(s) didn't match Pod's node affinity/selector",
}
"""Other reasons have the name of their rule."""


class NodeUnschedulable(Predicate):
    """The node is not cordoned, or the pod tolerates that."""

    name = "NodeUnschedulable"
    order = 10
    caption = "Cordoned"
    node_only = True

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._open = np.array([not node.unschedulable for node in columns.nodes], np.bool_)

    def mask(self, pod: int) -> Mask | None:
        return None if self._columns.shape(pod).tolerates(_CORDONED) else self._open

    def reason(self, pod: int, node: int) -> str:
        return "the node is cordoned"


class View:
    """The cluster at one moment, with the pods that were placed since."""

    def __init__(self, snapshot: ClusterSnapshot, pods: Mapping[Key, CachedPod], assumed: Mapping[Key, str]) -> None:
        self._columns = Columns(snapshot)
        self._whatif = WhatIf(self._columns)
        self._feasibility = Feasibility(self._whatif, [NodeUnschedulable(self._columns)])
        self._scores = Scores(self._feasibility)
        self._pods = self._columns.pod_index
        self.nodes = [node.name for node in self._columns.nodes]
        self._nominated = {
            key: (pod.row.priority, self._columns.node_index[pod.nominated])
            for key, pod in pods.items()
            if pod.nominated in self._columns.node_index and not pod.row.finished
        }
        for key, node in assumed.items():
            self.place(key, node)

    def __contains__(self, key: Key) -> bool:
        return key in self._pods

    def place(self, key: Key, node: str) -> None:
        """Count a pod on a node from now on."""
        self._nominated.pop(key, None)
        if key in self._pods and node in self._columns.node_index:
            self._whatif.place(self._pods[key], self._columns.node_index[node])

    def feasible(self, key: Key, priority: int) -> list[str]:
        """The nodes that let a pod in: with the pods that are nominated to nodes there, and without them."""
        mask = self._feasibility.mask(self._pods[key])
        with self._beside_nominated(key, priority) as others:
            if others:
                mask &= self._feasibility.mask(self._pods[key])
        return [self.nodes[node] for node in np.flatnonzero(mask)]

    def best(self, key: Key, feasible: list[str], extra: Mapping[str, int]) -> str:
        """The best of the feasible nodes; `extra` is added to their scores."""
        mask = self._mask(feasible)
        total: Ints = self._scores.score(self._pods[key], mask)
        for name, score in extra.items():
            if name in self._columns.node_index:
                total[self._columns.node_index[name]] += score
        return self.nodes[self._scores.best(total, mask)]

    def reasons(self, key: Key, priority: int) -> Counter[str]:
        """Why how many nodes refuse a pod, in the words of kube-scheduler."""
        pod = self._pods[key]
        reasons: Counter[str] = Counter()
        with self._beside_nominated(key, priority):
            for name, count in self._feasibility.count_refusals(pod, source=-1).items():
                if name != _FIT:
                    reasons[_MESSAGES.get(name, f"node(s) refused by {name}")] += count
            free, reach = self._whatif.free, self._feasibility.node_mask(pod)
            for resource, asked in self._feasibility.fit.requests(pod):
                name = self._columns.resources[resource]
                short = int((reach & (free[resource] < asked)).sum())
                if short:
                    reasons["Too many pods" if name == PODS else f"Insufficient {name}"] += short
        return reasons

    @contextmanager
    def _beside_nominated(self, key: Key, priority: int) -> Iterator[bool]:
        """As if other nominated pods of at least this priority were on their nodes; whether there are any."""
        others = [(other, node) for other, (rank, node) in self._nominated.items() if other != key and rank >= priority]
        with self._whatif.trial():
            for other, node in others:
                self._whatif.place(self._pods[other], node)
            yield bool(others)

    def _mask(self, nodes: list[str]) -> Mask:
        mask = np.zeros(len(self.nodes), np.bool_)
        mask[[self._columns.node_index[name] for name in nodes]] = True
        return mask
