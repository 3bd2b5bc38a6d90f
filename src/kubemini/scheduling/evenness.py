"""kube-scheduler's PodTopologySpread score: domains with fewer of the pods that a soft constraint counts.

A pod without constraints of its own has the system's: it is spread over nodes and zones among the pods that its
ReplicaSet, StatefulSet and Services select. That is why the replicas of a plain Deployment don't end up on one node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kubemini.scheduling.siblings import Siblings
from rescheduler.model.shape import Spread
from rescheduler.planning.columns import Columns, Floats, Ints, Mask
from rescheduler.planning.matching import DomainCounts, Matching
from rescheduler.planning.predicates.nodes import NodeMasks
from rescheduler.planning.predicates.spread import spread_subjects

HOSTNAME = "kubernetes.io/hostname"
_SYSTEM = ((HOSTNAME, 3), ("topology.kubernetes.io/zone", 5))
"""The keys and the skew of the constraints of pods that have none."""


class _Soft(NamedTuple):
    max_skew: int
    counts: DomainCounts
    by_node: bool


class _Constraints(NamedTuple):
    soft: list[_Soft]
    has_all: Mask
    """[N]: nodes with all the labels; where a pod has constraints of its own, the others score nothing."""


class Evenness:
    """Soft spread."""

    def __init__(self, columns: Columns, matching: Matching, masks: NodeMasks, siblings: Siblings) -> None:
        self._columns = columns
        self._matching = matching
        self._masks = masks
        self._siblings = siblings
        self._known: dict[tuple[int, int, str], _Constraints] = {}

    def forget(self) -> None:
        """Services have changed, and with them who belongs together."""
        self._known.clear()

    def score(self, pod: int, left: Mask) -> Ints | None:
        """[N]: the fewer there are in a node's domains, the nearer to 100."""
        constraints = self._constraints(pod)
        if not constraints.soft:
            return None
        scored = left & constraints.has_all
        if not scored.any():
            return None
        total = np.zeros(len(self._columns.nodes), np.float64)
        for soft in constraints.soft:
            total += self._score(soft, scored)
        rounded: Ints = np.floor(total + 0.5).astype(np.int64)
        least, most = int(rounded[scored].min()), int(rounded[scored].max())
        found = 100 * (most + least - rounded) // most if most else np.full(len(rounded), 100, np.int64)
        return np.where(scored, found, 0)

    def _score(self, soft: _Soft, scored: Mask) -> Floats:
        """Count · ln(domains + 2) + maxSkew - 1: small topologies weigh as much as large ones."""
        domain = soft.counts.domain
        domains = int(scored.sum()) if soft.by_node else len(np.unique(domain[scored]))
        weighed = soft.counts.at_nodes() * np.log(domains + 2) + (soft.max_skew - 1)
        found: Floats = np.where(domain >= 0, weighed, 0.0)
        return found

    def _constraints(self, pod: int) -> _Constraints:
        row = self._columns.pods[pod]
        owner = row.owner.uid if row.owner is not None else ""
        key = (int(self._columns.pod_shape[pod]), int(self._columns.pod_group[pod]), owner)
        if key not in self._known:
            self._known[key] = self._reckon(pod)
        return self._known[key]

    def _reckon(self, pod: int) -> _Constraints:
        row, shape = self._columns.pods[pod], self._columns.shape(pod)
        everywhere = np.ones(len(self._columns.nodes), np.bool_)
        spreads = [spread for spread in shape.spread if not spread.hard]
        has_all = everywhere
        if spreads:
            has_all = np.logical_and.reduce([self._columns.domains(s.topology_key) >= 0 for s in spreads])
        elif not shape.spread and (selector := self._siblings.selector(row)) is not None:
            spreads = [Spread(skew, key, selector, hard=False) for key, skew in _SYSTEM]
        soft = []
        for spread in spreads:
            by_node = spread.topology_key == HOSTNAME
            eligible = everywhere if by_node else has_all & self._eligible(pod, spread)
            subjects = spread_subjects(spread, row.namespace, row.labels)
            counts = self._matching.spread_counts(subjects, spread.topology_key, eligible)
            soft.append(_Soft(spread.max_skew, counts, by_node))
        return _Constraints(soft, has_all)

    def _eligible(self, pod: int, spread: Spread) -> Mask:
        shape = self._columns.shape(pod)
        selected = self._masks.selected(shape) if spread.honor_affinity else None
        eligible = np.ones(len(self._columns.nodes), np.bool_) if selected is None else selected
        return eligible & self._masks.tolerated(shape) if spread.honor_taints else eligible
