"""kube-scheduler's InterPodAffinity score: near to those that a pod likes and that like it, away from the others.

Each preferred term counts with its weight, those of the pods that are there as well as the pod's own; a required
affinity of a pod that is there counts as a wish of weight 1. Terms that concern nobody cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kubemini.scheduling.wishes import Wishes
from rescheduler.model.shape import PodTerm, Shape
from rescheduler.planning.carriers import Carrier, CarrierCounts, carriers
from rescheduler.planning.columns import Ints, Mask
from rescheduler.planning.matching import DomainCounts, Matching, RuleIndex, Subjects, subjects_of
from rescheduler.planning.whatif import WhatIf

_REQUIRED = 1
"""What the required affinity of a pod that is there counts for; hardPodAffinityWeight in the configuration."""


class _Wish(NamedTuple):
    """Somebody in the cluster would like, or not like, certain pods near to him."""

    subjects: Subjects
    key: str
    weight: int


class Company:
    """Counts of those that pods like and that like them."""

    def __init__(self, whatif: WhatIf, matching: Matching, wishes: Mapping[Shape, Wishes]) -> None:
        self._whatif = whatif
        self._columns = whatif.columns
        self._matching = matching
        self._wishes = wishes
        self._own: dict[tuple[int, str], list[tuple[int, DomainCounts]]] = {}
        self._carried: dict[_Wish, DomainCounts] = {}
        self._liked_by: dict[int, list[tuple[int, DomainCounts]]] = {}

    def score(self, pod: int, left: Mask) -> Ints | None:
        """[N]: the sum of weights in each node's domains, stretched from 0 to 100 over the nodes that are left."""
        counted = [*self._of_its_own(pod), *self._of_others(pod)]
        if not counted:
            return None
        total = np.zeros(len(self._columns.nodes), np.int64)
        for weight, counts in counted:
            total += weight * counts.at_nodes()
        least, most = int(total[left].min()), int(total[left].max())
        if least == most:
            return None
        found: Ints = ((total - least) / (most - least) * 100).astype(np.int64)
        return found

    def _of_its_own(self, pod: int) -> list[tuple[int, DomainCounts]]:
        key = (int(self._columns.pod_shape[pod]), self._columns.pods[pod].namespace)
        if key not in self._own:
            terms = self._wishes[self._columns.shape(pod)].company
            found = ((weight, term.topology_key, subjects_of(term, key[1])) for weight, term in terms)
            self._own[key] = [(w, self._matching.counts([s], topology)) for w, topology, s in found if s is not None]
        return self._own[key]

    def _of_others(self, pod: int) -> list[tuple[int, DomainCounts]]:
        group = int(self._columns.pod_group[pod])
        if group not in self._liked_by:
            found = self._index.meaning(*self._columns.groups[group])
            self._liked_by[group] = [(wish.weight, self._carried[wish]) for wish in found]
        return self._liked_by[group]

    def grown(self, new: Iterable[Carrier]) -> None:
        """The columns have taken in more pods, which may have wishes too."""
        if "_index" in self.__dict__:  # else it will be built with them
            for carrier in new:
                self._follow(carrier, self._index)

    @cached_property
    def _index(self) -> RuleIndex[_Wish]:
        """Every wish in the cluster, found by the pods that it is about."""
        index: RuleIndex[_Wish] = RuleIndex(self._matching)
        for carrier in carriers(self._columns, lambda shape: bool(self._terms(shape))):
            self._follow(carrier, index)
        return index

    @cached_property
    def _following(self) -> CarrierCounts:
        return CarrierCounts(self._whatif)

    def _follow(self, carrier: Carrier, index: RuleIndex[_Wish]) -> None:
        for weight, term in self._terms(carrier.shape):
            subjects = subjects_of(term, carrier.namespace)
            if subjects is None:
                continue
            wish = _Wish(subjects, term.topology_key, weight)
            if wish not in self._carried:
                self._carried[wish] = DomainCounts(self._columns, wish.key)
                index.add(frozenset({subjects}), wish)
                self._liked_by.clear()
            self._following.count(carrier, self._carried[wish])

    def _terms(self, shape: Shape) -> list[tuple[int, PodTerm]]:
        """What pods of this shape wish of others, once they are there."""
        return [*self._wishes[shape].company, *((_REQUIRED, term) for term in shape.affinity)]
