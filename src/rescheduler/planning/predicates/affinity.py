"""Required pod affinity and anti-affinity, in both directions, as kube-scheduler's InterPodAffinity reckons them.

Besides "may it be placed here" this module answers "may it leave": whether a pod that goes takes away what another
pod's required affinity stands on. The scheduler doesn't ask that; a rescheduler must not break the rules that others
were placed by.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from rescheduler.model.shape import PodTerm
from rescheduler.planning.columns import Mask
from rescheduler.planning.matching import (
    DomainCounts,
    Matching,
    RuleIndex,
    RuleOwnerCounts,
    RuleOwners,
    Subjects,
    rule_owners,
    subjects_of,
)
from rescheduler.planning.whatif import WhatIf


class RequiredPodAntiAffinity:
    """No pod that it keeps away from is in the domain, and none there keeps away from it."""

    name = "PodAntiAffinity"

    def __init__(self, whatif: WhatIf, matching: Matching) -> None:
        self._whatif = whatif
        self._columns = whatif.columns
        self._matching = matching
        self._carried: dict[tuple[Subjects, str], DomainCounts] = {}
        self._against: dict[int, list[DomainCounts]] = {}
        self._shunned: dict[tuple[int, str], list[tuple[PodTerm, DomainCounts]]] = {}

    @cached_property
    def _index(self) -> RuleIndex[tuple[Subjects, str]]:
        """Every anti-affinity term in the cluster, found by the pods that it keeps away."""
        index: RuleIndex[tuple[Subjects, str]] = RuleIndex(self._matching)
        for carrier in rule_owners(self._columns, lambda shape: bool(shape.anti_affinity)):
            self._follow(carrier, index)
        return index

    @cached_property
    def _following(self) -> RuleOwnerCounts:
        return RuleOwnerCounts(self._whatif)

    def _follow(self, carrier: RuleOwners, index: RuleIndex[tuple[Subjects, str]]) -> None:
        for term in dict.fromkeys(carrier.shape.anti_affinity):
            subjects = subjects_of(term, carrier.namespace)
            if subjects is None:
                continue
            rule = (subjects, term.topology_key)
            if rule not in self._carried:
                self._carried[rule] = DomainCounts(self._columns, term.topology_key)
                index.add(frozenset({subjects}), rule)
            self._following.count(carrier, self._carried[rule])

    def _kept_away_by(self, pod: int) -> list[DomainCounts]:
        """Where pods stand that keep away from this one."""
        group = int(self._columns.pod_group[pod])
        if group not in self._against:
            rules = self._index.rules_for(*self._columns.groups[group])
            self._against[group] = [self._carried[rule] for rule in rules]
        return self._against[group]

    def _keeps_away_from(self, pod: int) -> list[tuple[PodTerm, DomainCounts]]:
        """Where the pods stand that this one keeps away from."""
        key = (int(self._columns.pod_shape[pod]), self._columns.pods[pod].namespace)
        if key not in self._shunned:
            found = ((term, subjects_of(term, key[1])) for term in self._columns.shape(pod).anti_affinity)
            shunned = [(t, self._matching.counts([s], t.topology_key)) for t, s in found if s is not None]
            self._shunned[key] = shunned
        return self._shunned[key]

    def mask(self, pod: int) -> Mask | None:
        crowds = [*self._kept_away_by(pod), *(counts for _, counts in self._keeps_away_from(pod))]
        if not crowds:
            return None
        refused = np.zeros(len(self._columns.nodes), np.bool_)
        for counts in crowds:
            refused |= counts.at_nodes() > 0
        return ~refused

    def reason(self, pod: int, node: int) -> str:
        for term, counts in self._keeps_away_from(pod):
            if counts.at_nodes()[node]:
                return f"its anti-affinity to pods with {term.selector} in the same {term.topology_key}"
        return "a pod there has an anti-affinity to it"


class Companions(NamedTuple):
    """All required affinity terms of a pod: the scheduler counts a pod only if it is meant by every one of them."""

    subjects: frozenset[Subjects]
    keys: tuple[str, ...]


class RequiredPodAffinity:
    """The pods that it must be near to are in the domain; or it is the first of its kind."""

    name = "PodAffinity"

    def __init__(self, whatif: WhatIf, matching: Matching) -> None:
        self._whatif = whatif
        self._columns = whatif.columns
        self._matching = matching
        self._needed: dict[int, list[Companions]] = {}
        self._dependants: dict[Companions, list[DomainCounts]] = {}
        self._selfish: dict[Companions, list[DomainCounts]] = {}

    def _companions(self, terms: tuple[PodTerm, ...], namespace: str) -> Companions | None:
        """None when a term means no pod at all: such a rule is never met."""
        subjects = [subjects_of(term, namespace) for term in terms]
        if any(one is None for one in subjects):
            return None
        keys = tuple(sorted({term.topology_key for term in terms}))
        return Companions(frozenset(one for one in subjects if one is not None), keys)

    def _means_itself(self, companions: Companions, pod: int) -> bool:
        group = self._columns.groups[self._columns.pod_group[pod]]
        return all(self._matching.matches(subjects, *group) for subjects in companions.subjects)

    def _first_of_its_kind(self, companions: Companions, pod: int, beside: int = 0) -> bool:
        """Whether nobody (but `beside` pods) is there to be near to, and the pod itself is of the kind."""
        found = (self._matching.counts(companions.subjects, key) for key in companions.keys)
        return all(int(c.counts[:-1].sum()) <= beside for c in found) and self._means_itself(companions, pod)

    def mask(self, pod: int) -> Mask | None:
        terms = self._columns.shape(pod).affinity
        if not terms:
            return None
        return self._whatif.certain_mask(lambda: self._met(pod, terms))

    def _met(self, pod: int, terms: tuple[PodTerm, ...]) -> Mask:
        companions = self._companions(terms, self._columns.pods[pod].namespace)
        labelled: Mask = np.logical_and.reduce([self._columns.domains(t.topology_key) >= 0 for t in terms])
        if companions is None:
            return np.zeros(len(self._columns.nodes), np.bool_)
        if self._first_of_its_kind(companions, pod):
            return labelled
        near = [self._matching.counts(companions.subjects, key).at_nodes() > 0 for key in companions.keys]
        met: Mask = np.logical_and.reduce([labelled, *near])
        return met

    def reason(self, pod: int, node: int) -> str:
        terms = self._columns.shape(pod).affinity
        term = next((t for t in terms if t.topology_key not in self._columns.nodes[node].labels), terms[0])
        return f"its affinity to pods with {term.selector} in the same {term.topology_key}"

    def concerns(self, pod: int) -> bool:
        """Whether the pod must be near to others, or others to it."""
        return bool(self._columns.shape(pod).affinity or self._needing(pod))

    def kept(self, pod: int, source: int, target: int) -> str:
        """After a move was laid into the what-if: what it broke, or nothing."""
        terms = self._columns.shape(pod).affinity
        companions = self._companions(terms, self._columns.pods[pod].namespace)
        if terms and (companions is None or not self._near_others(companions, pod, target)):
            return "without the original, its own required pod affinity would not be met there"
        for needing in self._needing(pod):
            for counts, alone in ((self._dependants[needing], 0), (self._selfish[needing], 1)):
                if self._left_alone(needing, counts, source, target, alone):
                    return "other pods' required affinity needs it where it is"
        return ""

    def _near_others(self, companions: Companions, pod: int, node: int) -> bool:
        itself = 1 if self._means_itself(companions, pod) else 0
        found = [self._matching.counts(companions.subjects, key) for key in companions.keys]
        if all(c.domain[node] >= 0 and c.counts[c.domain[node]] > itself for c in found):
            return True
        return itself == 1 and self._first_of_its_kind(companions, pod, beside=1)

    def _needing(self, pod: int) -> list[Companions]:
        """The rules in the cluster that this pod helps to meet."""
        group = int(self._columns.pod_group[pod])
        if group not in self._needed:
            self._needed[group] = self._index.rules_for(*self._columns.groups[group])
        return self._needed[group]

    @cached_property
    def _index(self) -> RuleIndex[Companions]:
        """Every required affinity in the cluster, with where its carriers stand: those that mean themselves apart."""
        index: RuleIndex[Companions] = RuleIndex(self._matching)
        following = RuleOwnerCounts(self._whatif)
        for carrier in rule_owners(self._columns, lambda shape: bool(shape.affinity)):
            companions = self._companions(carrier.shape.affinity, carrier.namespace)
            if companions is None:
                continue
            if companions not in self._dependants:
                index.add(companions.subjects, companions)
                for kind in (self._dependants, self._selfish):
                    kind[companions] = [DomainCounts(self._columns, key) for key in companions.keys]
            itself = self._means_itself(companions, int(carrier.pods[0]))
            for counts in (self._selfish if itself else self._dependants)[companions]:
                following.count(carrier, counts)
        return index

    def _left_alone(
        self, needing: Companions, carried: list[DomainCounts], source: int, target: int, alone: int
    ) -> bool:
        """Whether a carrier stands where the pod left, with nobody to be near to any more but itself."""
        for key, where in zip(needing.keys, carried, strict=True):
            domain = self._columns.domains(key)
            left = int(domain[source])
            if left < 0 or left == domain[target] or where.counts[left] == 0:
                continue
            present = self._matching.counts(needing.subjects, key)
            if present.counts[left] <= alone and not (alone and int(present.counts[:-1].sum()) <= 1):
                return True
        return False
