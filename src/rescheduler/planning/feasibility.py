"""Where a pod could be: all predicates together, as a mask over nodes, and in words for one node.

The planner asks it for every move, `explain` for every node. "Could be" means that kube-scheduler would bind the pod
there, and that none of our own rules (no control plane, nothing cordoned…) forbids it. The embedded cluster's
scheduler asks it too, with the scheduler's rule on nodes in the place of ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rescheduler.planning.columns import Columns, Ints, Mask
from rescheduler.planning.matching import Matching
from rescheduler.planning.predicates.affinity import RequiredPodAffinity, RequiredPodAntiAffinity
from rescheduler.planning.predicates.base import Predicate
from rescheduler.planning.predicates.nodes import NodeMasks, RequiredNodeAffinity, TaintToleration, node_rules
from rescheduler.planning.predicates.ports import NodePorts
from rescheduler.planning.predicates.resources import NodeResourcesFit
from rescheduler.planning.predicates.spread import PodTopologySpread
from rescheduler.planning.predicates.volumes import NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone
from rescheduler.planning.whatif import WhatIf


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """Whether a pod could be on a node; if not, which predicate refuses and why."""

    predicate: str = ""
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing refuses."""
        return not self.predicate


OK = NodeVerdict()


class Feasibility:
    """The predicates over one what-if."""

    def __init__(self, whatif: WhatIf, rules: Iterable[Predicate] | None = None) -> None:
        self.whatif = whatif
        self._columns: Columns = whatif.columns
        self.matching = matching = Matching(whatif)
        self.node_masks = NodeMasks(whatif.columns)
        self.fit = NodeResourcesFit(whatif)
        self._affinity = RequiredPodAffinity(whatif, matching)
        self.spread = PodTopologySpread(whatif, matching, self.node_masks)
        # What depends on nothing that moves: one mask per shape, since thousands of pods share it.
        self._fixed: list[Predicate] = [
            *(node_rules(whatif.columns) if rules is None else rules),
            TaintToleration(whatif.columns, self.node_masks),
            RequiredNodeAffinity(whatif.columns, self.node_masks),
        ]
        # What depends on where other pods are. Each says at once if it doesn't concern a pod.
        self._moving: list[Predicate] = [
            NodePorts(whatif),
            RequiredPodAntiAffinity(whatif, matching),
            self._affinity,
            self.spread,
            VolumeBinding(whatif.columns, self.node_masks),
            VolumeZone(whatif.columns, self.node_masks),
            VolumeRestrictions(whatif),
            NodeVolumeLimits(whatif),
        ]
        self._fixed_masks: dict[int, Mask] = {}

    @property
    def predicates(self) -> list[Predicate]:
        """All predicates, in the order in which a refusal is reported."""
        return [*self._fixed, self.fit, *self._moving]

    def mask(self, pod: int, free: Ints | None = None) -> Mask:
        """[N]: where the pod could be now; `free` [R, N] replaces what is free, to keep nodes under a ceiling."""
        mask = self.fit.fits(pod, self.whatif.free if free is None else free)
        mask &= self.node_mask(pod)
        for predicate in self._moving:
            allowed = predicate.mask(pod)
            if allowed is not None:
                mask &= allowed
        return mask

    def node_mask(self, pod: int) -> Mask:
        """[N]: where the nodes' own rules let the pod be, whoever else is there."""
        shape = int(self._columns.pod_shape[pod])
        if shape not in self._fixed_masks:
            masks = [found for p in self._fixed if (found := p.mask(pod)) is not None]
            self._fixed_masks[shape] = np.logical_and.reduce(masks)
        return self._fixed_masks[shape]

    def verdicts(self, pod: int) -> list[NodeVerdict]:
        """For each node the first predicate that refuses, with its reason."""
        found: list[NodeVerdict] = [OK] * len(self._columns.nodes)
        for predicate in reversed(self.predicates):
            mask = predicate.mask(pod)
            if mask is not None:
                for node in np.flatnonzero(~mask):
                    found[node] = NodeVerdict(predicate.name, predicate.reason(pod, int(node)))
        return found

    def refused_by(self, pod: int, node: int) -> set[str]:
        """The names of all predicates that refuse the pod on a node."""
        masks = ((predicate.name, predicate.mask(pod)) for predicate in self.predicates)
        return {name for name, mask in masks if mask is not None and not mask[node]}

    def count_refusals(self, pod: int, source: int) -> dict[str, int]:
        """How many of the nodes other than `source` each predicate is the first to refuse."""
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
        """Lay a move into the what-if; says what the rules would lose by it, and then the caller must undo it."""
        source = int(self.whatif.at[pod])
        skews = self.spread.skews(pod)
        # What holds only thanks to pods that may come or not does not hold.
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
        lost = self.spread.kept(skews) or self._affinity.kept(pod, source, target)
        if unsure and not lost:
            with self.whatif.without_expected():
                lost = self.spread.kept(bare) or self._affinity.kept(pod, source, target)
        return lost
