"""Required pod affinity, as kube-scheduler's InterPodAffinity computes it.

A rescheduler also has to ask what the scheduler does not: whether a pod that leaves takes away what another pod's
required affinity depends on. It must not break the rules that others were placed by.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from rescheduler.model.shape import PodTerm
from rescheduler.planning.columns import Mask
from rescheduler.planning.matching import DomainCounts, RuleIndex, RuleOwnerCounts, Subjects, rule_owners, subjects_of
from rescheduler.planning.predicates.base import Predicate, PredicateContext


class Companions(NamedTuple):
    """All required affinity terms of a pod: the scheduler counts only pods that match every one of them."""

    subjects: frozenset[Subjects]
    keys: tuple[str, ...]


class RequiredPodAffinity(Predicate):
    """The pods that it must be near are in the domain; or it is the first of its kind."""

    name = "PodAffinity"
    order = 120
    caption = "Not near the pods it needs"

    def __init__(self, context: PredicateContext) -> None:
        super().__init__(context)
        self._needed: dict[int, list[Companions]] = {}
        self._dependants: dict[Companions, list[DomainCounts]] = {}
        self._selfish: dict[Companions, list[DomainCounts]] = {}

    def _companions(self, terms: tuple[PodTerm, ...], namespace: str) -> Companions | None:
        """Resolve terms; None if a term matches no pod at all: such a rule is never met."""
        subjects = [subjects_of(term, namespace) for term in terms]
        if any(one is None for one in subjects):
            return None
        keys = tuple(sorted({term.topology_key for term in terms}))
        return Companions(frozenset(one for one in subjects if one is not None), keys)

    def _matches_itself(self, companions: Companions, pod: int) -> bool:
        group = self._columns.groups[self._columns.pod_group[pod]]
        return all(self._matching.matches(subjects, *group) for subjects in companions.subjects)

    def _first_of_its_kind(self, companions: Companions, pod: int, beside: int = 0) -> bool:
        """Whether no pods (but `beside` ones) match the terms, and the pod itself matches them."""
        found = (self._matching.counts(companions.subjects, key) for key in companions.keys)
        return all(int(c.counts[:-1].sum()) <= beside for c in found) and self._matches_itself(companions, pod)

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
        """Whether the pod must be near others, or others near it."""
        return bool(self._columns.shape(pod).affinity or self._needing(pod))

    def broken_by(self, pod: int, source: int, target: int) -> str:
        """Find what an applied move broke; empty if nothing."""
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
        itself = 1 if self._matches_itself(companions, pod) else 0
        found = [self._matching.counts(companions.subjects, key) for key in companions.keys]
        if all(c.domain[node] >= 0 and c.counts[c.domain[node]] > itself for c in found):
            return True
        return itself == 1 and self._first_of_its_kind(companions, pod, beside=1)

    def _needing(self, pod: int) -> list[Companions]:
        """Find the rules in the cluster that this pod helps to meet."""
        group = int(self._columns.pod_group[pod])
        if group not in self._needed:
            self._needed[group] = self._index.rules_for(*self._columns.groups[group])
        return self._needed[group]

    @cached_property
    def _index(self) -> RuleIndex[Companions]:
        """Index all required affinity in the cluster, and count its owners: those that match themselves separately."""
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
            itself = self._matches_itself(companions, int(carrier.pods[0]))
            for counts in (self._selfish if itself else self._dependants)[companions]:
                following.count(carrier, counts)
        return index

    def _left_alone(
        self, needing: Companions, carried: list[DomainCounts], source: int, target: int, alone: int
    ) -> bool:
        """Whether a rule owner is where the pod left, without any other matching pod."""
        for key, where in zip(needing.keys, carried, strict=True):
            domain = self._columns.domains(key)
            left = int(domain[source])
            if left < 0 or left == domain[target] or where.counts[left] == 0:
                continue
            present = self._matching.counts(needing.subjects, key)
            if present.counts[left] <= alone and not (alone and int(present.counts[:-1].sum()) <= 1):
                return True
        return False
