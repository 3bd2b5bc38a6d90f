"""Topology spread constraints, as kube-scheduler's PodTopologySpread computes them.

A constraint counts, per domain, the pods that its selector matches on the nodes that its owner could use; the domain
that would take one more may be at most maxSkew above the emptiest. Hard ones are a predicate: as with affinity, a move
must also not break a constraint that counts the moved pod when the original has gone. Soft ones serve the strategy
TopologySpread only, and cost nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from rescheduler.model.selector import Labels, Operator, Requirement, Selector, selector_of
from rescheduler.model.shape import Shape, SpreadConstraint
from rescheduler.planning.columns import Columns, Indexes, Mask
from rescheduler.planning.matching import DomainCounts, Pair, RuleIndex, RuleOwners, Subjects, rule_owners
from rescheduler.planning.predicates.base import PredicateContext

NO_PODS = Selector((Requirement("", Operator.EXISTS),))
"""No label has an empty key."""


class Constraint:
    """A constraint with its owner's labels, namespace and node rules filled in, and its counts."""

    __slots__ = ("counts", "key", "max_skew", "min_domains", "present", "subjects")

    def __init__(self, spread: SpreadConstraint, subjects: Subjects, counts: DomainCounts, present: Indexes) -> None:
        self.key = spread.topology_key
        self.max_skew = spread.max_skew
        self.min_domains = spread.min_domains
        self.subjects = subjects
        self.counts = counts
        self.present = present  # the numbers of the domains that have an eligible node

    def least(self) -> int:
        """Return the global minimum: 0 while there are fewer domains than minDomains."""
        if len(self.present) < max(self.min_domains, 1):
            return 0
        return int(self.counts.counts[self.present].min())

    def skew(self) -> int:
        """Return how far the fullest domain is above the emptiest."""
        return int(self.counts.counts[:-1].max(initial=0)) - self.least()

    def domain_of(self, node: int) -> int:
        """Return the number of the domain in which pods on a node count; -1 for none."""
        counts = self.counts
        return int(counts.domain[node]) if node >= 0 and (counts.eligible is None or counts.eligible[node]) else -1

    def skew_after(self, source: int) -> Indexes:
        """[N]: the skew if a pod that counts moved from one node to each node."""
        eligible, domain = self.counts.eligible, self.counts.domain
        counts = self.counts.counts.copy()
        if source >= 0 and (eligible is None or eligible[source]):
            counts[domain[source]] -= 1
        top = int(counts[:-1].max(initial=0))
        least: Indexes = np.zeros_like(counts)
        if len(self.present) >= max(self.min_domains, 1):
            low, *next_low = np.partition(counts[self.present], min(1, len(self.present) - 1))[:2].tolist()
            least[:] = low
            if (
                not next_low or next_low[0] > low
            ):  # only one domain is the emptiest: a pod that goes there changes the minimum
                least[self.present[counts[self.present] == low]] = min([low + 1, *next_low])
            unmoved = top - low
        else:
            unmoved = top
        after = (np.maximum(top, counts + 1) - least)[domain]
        return after if eligible is None else np.where(eligible, after, unmoved).astype(np.int32)

    def room(self, *, counts_itself: bool) -> Mask:
        """[N]: where one more pod keeps within maxSkew; nodes without the key have none."""
        after = self.counts.at_nodes() + (1 if counts_itself else 0)
        found: Mask = (self.counts.domain >= 0) & (after - self.least() <= self.max_skew)
        return found


class _Identity(NamedTuple):
    spread: SpreadConstraint
    subjects: Subjects
    eligible: bytes


class Constraints:
    """All hard constraints of the cluster, or all soft ones: those that a pod has, and those that count it."""

    def __init__(self, context: PredicateContext, *, hard: bool) -> None:
        self._columns: Columns = context.whatif.columns
        self._matching = context.matching
        self._masks = context.node_masks
        self._hard = hard
        self._known: dict[_Identity, Constraint] = {}
        self.constraints_of: Callable[[Pair], list[tuple[Constraint, bool]]] = cache(self._find_own)
        """Lists those of pods of a shape and group, and whether each counts its owner itself."""
        self._counting: Callable[[int], list[Constraint]] = cache(self._find_counting)

    def of(self, shape: Shape, namespace: str, labels: Labels) -> list[Constraint]:
        """List those of a pod with this shape and these labels; those that match no pod count 0."""
        found = self._among(shape)
        keys = [self._columns.domains(spread.topology_key) >= 0 for spread in found]
        return [self._constraint(spread, shape, (namespace, labels), np.logical_and.reduce(keys)) for spread in found]

    def _among(self, shape: Shape) -> list[SpreadConstraint]:
        return [spread for spread in shape.spread if spread.hard is self._hard]

    def _constraint(
        self, spread: SpreadConstraint, shape: Shape, group: tuple[str, Labels], eligible: Mask
    ) -> Constraint:
        if spread.honor_affinity:
            selected = self._masks.selected(shape)
            eligible = eligible if selected is None else eligible & selected
        if spread.honor_taints:
            eligible = eligible & self._masks.tolerated(shape)
        subjects = spread_subjects(spread, *group)
        identity = _Identity(spread, subjects, eligible.tobytes())
        if identity not in self._known:
            counts = self._matching.spread_counts(subjects, spread.topology_key, eligible)
            here = counts.domain[eligible]
            present: Indexes = np.flatnonzero(np.bincount(here[here >= 0])).astype(np.int32)
            self._known[identity] = Constraint(spread, subjects, counts, present)
        return self._known[identity]

    def _find_own(self, pair: Pair) -> list[tuple[Constraint, bool]]:
        shape, group = self._columns.shapes[pair[0]], self._columns.groups[pair[1]]
        found = zip(self.of(shape, *group), self._among(shape), strict=True)
        return [(constraint, _counts_itself(spread, group[1])) for constraint, spread in found]

    def counting(self, pod: int) -> list[Constraint]:
        """List those in the whole cluster that count this pod, wherever it is."""
        return self._counting(int(self._columns.pod_group[pod]))

    def _find_counting(self, group: int) -> list[Constraint]:
        rules = self._index.rules_for(*self._columns.groups[group])
        return [*dict.fromkeys(self.constraints_of(pair)[position][0] for pair, position in rules)]

    def rule_owners(self) -> Iterator[RuleOwners]:
        """List the pods that have any, by shape and group."""
        return rule_owners(self._columns, lambda shape: bool(self._among(shape)))

    @cached_property
    def _index(self) -> RuleIndex[tuple[Pair, int]]:
        """Index all constraints in the cluster by the pods that they count; filled in only when needed."""
        index: RuleIndex[tuple[Pair, int]] = RuleIndex(self._matching)
        for owners in self.rule_owners():
            for position, spread in enumerate(self._among(owners.shape)):
                subjects = spread_subjects(spread, owners.namespace, owners.labels)
                index.add(frozenset({subjects}), (owners.pair, position))
        return index


def spread_subjects(spread: SpreadConstraint, namespace: str, labels: Labels) -> Subjects:
    """Resolve the pods that a constraint counts; matchLabelKeys take the owner's own values.

    An absent selector counts no pods, and neither does an empty one, although it matches all: as in kube-scheduler.
    """
    selector = spread.selector or Selector()
    filled = [Requirement(k, Operator.IN, (labels[k],)) for k in spread.match_label_keys if k in labels]
    narrowed = selector_of((*selector.requirements, *filled)) if filled else selector
    counts_anyone = spread.selector is not None and narrowed.requirements
    return Subjects(narrowed if counts_anyone else NO_PODS, frozenset({namespace}))


def _counts_itself(spread: SpreadConstraint, labels: Labels) -> bool:
    """Whether the owner itself counts in its domain; matchLabelKeys can't exclude it, since they are its own labels."""
    return spread.selector is not None and spread.selector.matches(labels)
