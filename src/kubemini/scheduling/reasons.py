"""Which rule refuses a pod on which node, counted for an Unschedulable.

The masks are those of the planner's predicates; the words, their order, and whether preemption could help, are
kube-scheduler's. Everything is counted over all nodes at once: a thousand nodes refuse a pod as fast as one.
"""

from __future__ import annotations

import numpy as np

from kubemini.scheduling.unschedulable import Unschedulable
from rescheduler.model.selector import Operator
from rescheduler.model.shape import Shape
from rescheduler.planning.columns import PODS, Columns, Mask
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.matching import subjects_of
from rescheduler.planning.predicates.base import Predicate
from rescheduler.planning.predicates.volumes import VolumeBinding

_ELSEWHERE = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
_CONFLICT = "pod affinity terms conflict"
_SPREAD = "node(s) didn't match pod topology spread constraints"
_UNBOUND = "node(s) didn't find available persistent volumes to bind"
_UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
_LOST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
# The scheduler's order; the words where a rule has only these, and whether preemption might help.
_RULES = {
    "NodeUnschedulable": ("node(s) were unschedulable", False),
    "TaintToleration": ("node(s) had untolerated taint(s)", False),
    "NodeAffinity": ("node(s) didn't match Pod's node affinity/selector", False),
    "NodePorts": ("node(s) didn't have free ports for the requested pod ports", True),
    "NodeResourcesFit": ("", True),
    "VolumeRestrictions": (_IN_USE, True),
    "NodeVolumeLimits": ("node(s) exceed max volume count", True),
    "VolumeBinding": ("", False),
    "VolumeZone": ("node(s) had no available volume zone", False),
    "PodTopologySpread": ("", True),
    "PodAffinity": ("node(s) didn't match pod affinity rules", False),
    "PodAntiAffinity": ("", True),
}
TOO_SMALL = "NodeTooSmall"
"""Not a rule of its own: a lack of resources that no pod's going could end."""
FIXED = frozenset({"NodeUnschedulable", "TaintToleration", "NodeAffinity", TOO_SMALL})
"""Rules about the node alone: no pod that comes or goes changes what they say."""
STORAGE = frozenset({"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"})


class Reasons:
    """The predicates, asked for reasons."""

    def __init__(self, feasibility: Feasibility) -> None:
        self._feasibility = feasibility
        self._columns: Columns = feasibility.whatif.columns
        by_name = {predicate.name: predicate for predicate in feasibility.predicates}
        self._predicates: list[Predicate] = [by_name[name] for name in _RULES]

    def start(self, pod: int, *, preempts: bool) -> Unschedulable:
        """An empty refusal, or one that is complete because the pod itself is at fault."""
        whole = self._at_fault(pod)
        refusal = Unschedulable(len(self._columns.nodes), whole, preempts=preempts)
        if whole:
            refusal.rules = {"NodeAffinity"} if whole == _CONFLICT else {"VolumeBinding"}
        return refusal

    def count(self, refusal: Unschedulable, pod: int, left: Mask, ignored: str = "") -> None:
        """Add why these nodes refuse the pod."""
        left = left.copy()
        named = _named_nodes(self._columns.shape(pod))
        if named is not None:
            there = np.array([node.name in named for node in self._columns.nodes], np.bool_)
            self._note(refusal, "NodeAffinity", _ELSEWHERE, left & ~there)
            left &= there
        for predicate in self._predicates:
            mask = predicate.mask(pod) if predicate.name != ignored else None
            if mask is None:
                continue
            refused = left & ~mask
            if refused.any():
                self._explain(refusal, predicate, pod, refused)
                left &= mask

    def _explain(self, refusal: Unschedulable, predicate: Predicate, pod: int, refused: Mask) -> None:
        name = predicate.name
        match name:
            case "NodeResourcesFit":
                self._short(refusal, pod, refused)
            case "PodTopologySpread":
                keys = [spread.topology_key for spread in self._columns.shape(pod).spread if spread.hard]
                unlabelled = refused & np.logical_or.reduce([self._columns.domains(key) < 0 for key in keys])
                self._note(refusal, name, f"{_SPREAD} (missing required label)", unlabelled)
                self._note(refusal, name, _SPREAD, refused & ~unlabelled, preemptable=True)
            case "PodAntiAffinity":
                own = refused & self._near_to_the_shunned(pod)
                self._note(refusal, name, "node(s) didn't match pod anti-affinity rules", own, preemptable=True)
                words = "node(s) didn't satisfy existing pods anti-affinity rules"
                self._note(refusal, name, words, refused & ~own, preemptable=True)
            case "VolumeBinding":
                self._unbindable(refusal, pod, refused)
            case _:
                words, preemptable = _RULES[name]
                self._note(refusal, name, words, refused, preemptable=preemptable)

    def _note(self, refusal: Unschedulable, rule: str, words: str, where: Mask, *, preemptable: bool = False) -> None:
        count = int(where.sum())
        if count:
            refusal.rules.add(rule)
            refusal.reasons[words] += count
            refusal.preemptable += count if preemptable else 0

    def _short(self, refusal: Unschedulable, pod: int, refused: Mask) -> None:
        """Every resource that is short is named; preemption can't help where a node never had enough of one."""
        columns, free = self._columns, self._feasibility.whatif.free
        never = np.zeros(len(refused), np.bool_)
        for resource, asked in self._feasibility.fit.asked(pod):
            short = refused & (free[resource] < asked)
            count, name = int(short.sum()), columns.resources[resource]
            if count:
                refusal.reasons["Too many pods" if name == PODS else f"Insufficient {name}"] += count
            if name != PODS:
                never |= short & (columns.allocatable[resource] < asked)
        preemptable = int((refused & ~never).sum())
        refusal.preemptable += preemptable
        refusal.rules.add("NodeResourcesFit" if preemptable else TOO_SMALL)

    def _near_to_the_shunned(self, pod: int) -> Mask:
        """[N]: where those are that the pod itself keeps away from."""
        found = np.zeros(len(self._columns.nodes), np.bool_)
        for term in self._columns.shape(pod).anti_affinity:
            subjects = subjects_of(term, self._columns.pods[pod].namespace)
            if subjects is not None:
                found |= self._feasibility.matching.counts([subjects], term.topology_key).at_nodes() > 0
        return found

    def _unbindable(self, refusal: Unschedulable, pod: int, refused: Mask) -> None:
        """The words for each claim that is refused; a node that refuses two claims for one reason counts once."""
        row, snapshot = self._columns.pods[pod], self._columns.snapshot
        binding = next(each for each in self._predicates if isinstance(each, VolumeBinding))
        where: dict[str, Mask] = {}
        for name in self._columns.shape(pod).claims:
            claim = snapshot.claims[row.namespace, name]
            words = _UNBOUND if not claim.volume else _UNREACHABLE if claim.volume in snapshot.volumes else _LOST
            mask, _ = binding.allowed(row.namespace, name)
            where[words] = where.get(words, np.zeros(len(refused), np.bool_)) | (refused & ~mask)
        for words, nodes in where.items():
            self._note(refusal, "VolumeBinding", words, nodes)

    def _at_fault(self, pod: int) -> str:
        """What is wrong whatever the node; nothing in most cases."""
        shape, row, snapshot = self._columns.shape(pod), self._columns.pods[pod], self._columns.snapshot
        if _named_nodes(shape) == set():
            return _CONFLICT
        for name in shape.claims:
            claim = snapshot.claims.get((row.namespace, name))
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if claim.volume and not claim.bound and claim.volume not in snapshot.volumes:
                return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
            if claim.deleting:
                return f'persistentvolumeclaim "{name}" is being deleted'
        for name in shape.claims:
            claim = snapshot.claims[row.namespace, name]
            storage = snapshot.storage_classes.get(claim.storage_class)
            waits = storage is not None and storage.wait_for_consumer and not claim.volume
            if not waits and not (claim.volume and claim.bound):
                return "pod has unbound immediate PersistentVolumeClaims"
        return ""


def _named_nodes(shape: Shape) -> set[str] | None:
    """The nodes that every term of the required affinity names; None when some term leaves the name open."""
    names: set[str] = set()
    for term in shape.node_affinity or ():
        named = [set(field.values) for field in term.fields if field.operator is Operator.IN]
        if not named:
            return None
        names |= set.intersection(*named)
    return names if shape.node_affinity else None
