"""Required pod anti-affinity in both directions, as kube-scheduler's InterPodAffinity computes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property

import numpy as np

from rescheduler.model.shape import PodTerm
from rescheduler.planning.columns import Mask
from rescheduler.planning.matching import (
    DomainCounts,
    RuleIndex,
    RuleOwnerCounts,
    RuleOwners,
    Subjects,
    rule_owners,
    subjects_of,
)
from rescheduler.planning.predicates.base import Predicate, PredicateContext


class RequiredPodAntiAffinity(Predicate):
    """No pod that it must avoid is in the domain, and no pod there must avoid it."""

    name = "PodAntiAffinity"
    order = 110
    caption = "Keeps away from a pod there"

    def __init__(self, context: PredicateContext) -> None:
        super().__init__(context)
        self._carried: dict[tuple[Subjects, str], DomainCounts] = {}
        self._avoiding: Callable[[int], list[DomainCounts]] = cache(self._counts_of_avoiding)
        self._avoided: Callable[[int, str], list[tuple[PodTerm, DomainCounts]]] = cache(self._counts_of_avoided)

    @cached_property
    def _index(self) -> RuleIndex[tuple[Subjects, str]]:
        """Index all anti-affinity terms in the cluster by the pods that they keep away."""
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

    def _counts_of_avoiding(self, group: int) -> list[DomainCounts]:
        """Count the pods that must avoid those of a group."""
        return [self._carried[rule] for rule in self._index.rules_for(*self._columns.groups[group])]

    def _counts_of_avoided(self, shape: int, namespace: str) -> list[tuple[PodTerm, DomainCounts]]:
        """Count the pods that those of a shape must avoid."""
        resolved = ((term, subjects_of(term, namespace)) for term in self._columns.shapes[shape].anti_affinity)
        return [(t, self._matching.counts([s], t.topology_key)) for t, s in resolved if s is not None]

    def _avoided_by(self, pod: int) -> list[tuple[PodTerm, DomainCounts]]:
        return self._avoided(int(self._columns.pod_shape[pod]), self._columns.pods[pod].namespace)

    def mask(self, pod: int) -> Mask | None:
        avoiding = self._avoiding(int(self._columns.pod_group[pod]))
        found = [*avoiding, *(counts for _, counts in self._avoided_by(pod))]
        if not found:
            return None
        refused = np.zeros(len(self._columns.nodes), np.bool_)
        for counts in found:
            refused |= counts.at_nodes() > 0
        return ~refused

    def reason(self, pod: int, node: int) -> str:
        for term, counts in self._avoided_by(pod):
            if counts.at_nodes()[node]:
                return f"its anti-affinity to pods with {term.selector} in the same {term.topology_key}"
        return "a pod there has an anti-affinity to it"
