"""Where a pod could be: all predicates together, as a mask over nodes, and in words for one node.

The planner asks it for every move, `explain` for every node. "Could be" means that kube-scheduler would bind the pod
there, and that none of our own rules (no control plane, nothing cordoned…) forbids it. The scheduler of the embedded
cluster uses it too, with rules on nodes of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np

from rescheduler.planning.columns import Columns, Ints, Mask
from rescheduler.planning.matching import Matching
from rescheduler.planning.predicates import discover
from rescheduler.planning.predicates.base import Predicate, PredicateContext
from rescheduler.planning.predicates.node_resources_fit import NodeResourcesFit
from rescheduler.planning.predicates.pod_affinity import RequiredPodAffinity
from rescheduler.planning.predicates.pod_topology_spread import PodTopologySpread
from rescheduler.planning.predicates.support.node_masks import NodeMasks
from rescheduler.planning.whatif import WhatIf

Kind = TypeVar("Kind", bound=Predicate)


class Feasibility:
    """The predicates over one what-if."""

    def __init__(self, whatif: WhatIf, rules: Iterable[Predicate] | None = None) -> None:
        """`rules` replace our own rules, which kube-scheduler does not have."""
        self.whatif = whatif
        self._columns: Columns = whatif.columns
        self.matching = Matching(whatif)
        self.node_masks = NodeMasks(whatif.columns)
        context = PredicateContext(whatif, self.matching, self.node_masks)
        kinds = [kind for kind in discover() if rules is None or kind.of_scheduler]
        found = [*(rules or ()), *(kind(context) for kind in kinds)]
        self.predicates = sorted(found, key=lambda each: (each.order, each.name))
        """All predicates, in the order in which a refusal is reported."""
        self.fit = self._the(NodeResourcesFit)
        self.spread = self._the(PodTopologySpread)
        self._affinity = self._the(RequiredPodAffinity)
        # One mask per shape is enough for the first kind: thousands of pods share a shape.
        self._of_nodes = [each for each in self.predicates if each.node_only]
        # The others depend on other pods or on volumes. Each returns None at once if it doesn't concern a pod.
        self._others = [each for each in self.predicates if not each.node_only and each is not self.fit]
        self._masks_of_shapes: dict[int, Mask] = {}

    def _the(self, kind: type[Kind]) -> Kind:
        return next(each for each in self.predicates if isinstance(each, kind))

    def mask(self, pod: int, free: Ints | None = None) -> Mask:
        """[N]: where the pod could be now; `free` [R, N] replaces what is free, to keep nodes under a ceiling."""
        mask = self.fit.fits(pod, self.whatif.free if free is None else free)
        mask &= self.node_mask(pod)
        for predicate in self._others:
            allowed = predicate.mask(pod)
            if allowed is not None:
                mask &= allowed
        return mask

    def node_mask(self, pod: int) -> Mask:
        """[N]: where the rules about nodes let the pod be, whatever other pods are there."""
        shape = int(self._columns.pod_shape[pod])
        if shape not in self._masks_of_shapes:
            masks = [found for p in self._of_nodes if (found := p.mask(pod)) is not None]
            self._masks_of_shapes[shape] = np.logical_and.reduce(masks)
        return self._masks_of_shapes[shape]

    def verdicts(self, pod: int) -> list[tuple[str, str]]:
        """For each node, find the first predicate that refuses, with its reason; both are empty if none does."""
        found = [("", "")] * len(self._columns.nodes)
        for predicate in reversed(self.predicates):
            mask = predicate.mask(pod)
            if mask is not None:
                for node in np.flatnonzero(~mask):
                    found[node] = (predicate.name, predicate.reason(pod, int(node)))
        return found

    def refused_by(self, pod: int, node: int) -> set[str]:
        """Name all predicates that refuse the pod on a node."""
        masks = ((predicate.name, predicate.mask(pod)) for predicate in self.predicates)
        return {name for name, mask in masks if mask is not None and not mask[node]}

    def count_refusals(self, pod: int, source: int) -> dict[str, int]:
        """Count, for each predicate, the nodes other than `source` that it is the first to refuse."""
        left = np.arange(len(self._columns.nodes)) != source
        found: dict[str, int] = {}
        for predicate in self.predicates:
            mask = predicate.mask(pod)
            count = 0 if mask is None else int((left & ~mask).sum())
            if mask is not None and count:
                found[predicate.name] = count
                left &= mask
        return found

    def try_move(self, pod: int, target: int, *, side_by_side: bool) -> str:
        """Lay a move into the what-if. Returns which rule it would break, if any; then the caller must undo it."""
        source = int(self.whatif.at[pod])
        skews = self.spread.skews(pod)
        # A rule that holds only with pods that may never come does not hold.
        unsure = bool(self.whatif.expected) and (bool(skews) or self._affinity.concerns(pod))
        if unsure:
            with self.whatif.without_expected():
                bare = self.spread.skews(pod)
        if side_by_side:
            self.whatif.place(pod, target)
            self.whatif.remove(pod, source)
        else:
            self.whatif.remove(pod, source)
            self.whatif.place(pod, target)
        lost = self.spread.broken_by(skews) or self._affinity.broken_by(pod, source, target)
        if unsure and not lost:
            with self.whatif.without_expected():
                lost = self.spread.broken_by(bare) or self._affinity.broken_by(pod, source, target)
        return lost
