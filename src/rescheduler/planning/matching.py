"""Which pods a selector means, and how many of them stand in each topology domain, kept up to date as pods move.

Affinity, anti-affinity and spread are all questions about such counts. Selectors are matched against groups (pods
with one namespace and one set of labels), found through an index on labels, and only when somebody asks: a cluster
has thousands of selectors, and a plan touches few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from rescheduler.model.selector import Labels, Operator, Selector
from rescheduler.model.shape import PodTerm, Shape
from rescheduler.planning.columns import Columns, Indexes, Mask
from rescheduler.planning.whatif import WhatIf

Rule = TypeVar("Rule", bound=Hashable)
NAME_LABEL = "kubernetes.io/metadata.name"


class Subjects(NamedTuple):
    """Which pods are meant: by labels, in these namespaces or in those that a selector picks."""

    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector | None = None


def subjects_of(term: PodTerm, holder_namespace: str) -> Subjects | None:
    """The pods that a term means when a pod in this namespace carries it; None means no pod at all."""
    if term.selector is None:
        return None
    if not term.namespaces and term.namespace_selector is None:
        return Subjects(term.selector, frozenset({holder_namespace}))
    return Subjects(term.selector, term.namespaces, term.namespace_selector)


class DomainCounts:
    """How many pods stand in each domain of a topology key, among the eligible nodes."""

    __slots__ = ("counts", "domain", "eligible", "total")

    def __init__(self, columns: Columns, key: str, eligible: Mask | None = None) -> None:
        self.domain = columns.domains(key)
        self.counts = np.zeros(
            len(columns.domain_values(key)) + 1, np.int32
        )  # the last place takes nodes without the key
        self.eligible = eligible
        self.total = 0

    def add(self, at: Indexes) -> None:
        """Count pods on these nodes."""
        at = at[at >= 0]
        if self.eligible is not None:
            at = at[self.eligible[at]]
        np.add.at(self.counts, self.domain[at], 1)
        self.total += len(at)

    def changed(self, node: int, delta: int) -> None:
        """A counted pod came or went."""
        if self.eligible is None or self.eligible[node]:
            self.counts[self.domain[node]] += delta
            self.total += delta

    def at_nodes(self) -> Indexes:
        """[N]: the count of each node's domain; 0 where the node lacks the key."""
        found: Indexes = self.counts[self.domain]
        return np.where(self.domain >= 0, found, 0)


class Matching:
    """Counts of pods that are meant by subjects, by domain; a listener of the what-if."""

    def __init__(self, whatif: WhatIf) -> None:
        self._whatif = whatif
        self._columns = whatif.columns
        self._counts: dict[Hashable, DomainCounts] = {}
        self._by_group: dict[int, list[DomainCounts]] = {}
        self._of_staying: dict[int, list[DomainCounts]] = {}
        """The same, of counts that leave out pods that are being deleted."""
        whatif.add_counter(self)

    def changed(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        group = int(self._columns.pod_group[pod])
        for counts in self._by_group.get(group, ()):
            counts.changed(node, delta)
        if group in self._of_staying and not self._columns.pods[pod].deleting:
            for counts in self._of_staying[group]:
                counts.changed(node, delta)

    def follows(self, shape: int, group: int) -> bool:
        """Whether anything counts pods of this group by now."""
        return group in self._by_group or group in self._of_staying

    def matches(self, subjects: Subjects, namespace: str, labels: Labels) -> bool:
        """Whether a pod with this namespace and these labels is meant."""
        if not subjects.selector.matches(labels):
            return False
        return namespace in subjects.namespaces or (
            subjects.namespace_selector is not None
            and subjects.namespace_selector.matches(self.namespace_labels(namespace))
        )

    def namespace_labels(self, namespace: str) -> Labels:
        """A namespace's labels; one that the input doesn't have is known by its name only."""
        return self._columns.snapshot.namespaces.get(namespace, {NAME_LABEL: namespace})

    def counts(self, subjects: Iterable[Subjects], key: str) -> DomainCounts:
        """How many pods in each domain are meant by all of the subjects (terminating ones too, as for affinity)."""
        wanted = frozenset(subjects)
        return self._counted((wanted, key), wanted, DomainCounts(self._columns, key))

    def spread_counts(self, subjects: Subjects, key: str, eligible: Mask) -> DomainCounts:
        """The same for spread: only eligible nodes count, and pods that are being deleted don't."""
        identity = (subjects, key, eligible.tobytes())
        return self._counted(identity, frozenset({subjects}), DomainCounts(self._columns, key, eligible), leaving=False)

    def _counted(
        self, identity: Hashable, wanted: frozenset[Subjects], fresh: DomainCounts, *, leaving: bool = True
    ) -> DomainCounts:
        known = self._counts.get(identity)
        if known is not None:
            return known
        self._counts[identity] = fresh
        for group in self._groups_meant(wanted):
            pods = self._columns.pods_of_group(group)
            if not leaving:
                pods = pods[~self._leaving[pods]]
            fresh.add(self._whatif.at[pods])
            (self._by_group if leaving else self._of_staying).setdefault(group, []).append(fresh)
        return fresh

    def staying_pods(self, subjects: Subjects) -> Indexes:
        """The pods that are meant and are not being deleted: those that count for spread, if their node does."""
        groups = self._groups_meant(frozenset({subjects}))
        pods = [self._columns.pods_of_group(group) for group in groups]
        found: Indexes = np.sort(np.concatenate(pods)) if pods else np.zeros(0, np.int32)
        return found[~self._leaving[found]]

    @cached_property
    def _leaving(self) -> Mask:
        return np.array([pod.deleting for pod in self._columns.pods], np.bool_)

    def _groups_meant(self, wanted: frozenset[Subjects]) -> list[int]:
        candidates: Iterable[int] = range(len(self._columns.groups))
        for subjects in wanted:
            pair = _equal_pair(subjects.selector)
            if pair is not None:
                candidates = self._groups_by_label.get(pair, ())
                break
        groups = self._columns.groups
        return [g for g in candidates if all(self.matches(subjects, *groups[g]) for subjects in wanted)]

    @cached_property
    def _groups_by_label(self) -> dict[tuple[str, str], list[int]]:
        index: dict[tuple[str, str], list[int]] = {}
        for group, (_, labels) in enumerate(self._columns.groups):
            for pair in labels.items():
                index.setdefault(pair, []).append(group)
        return index


def _equal_pair(selector: Selector) -> tuple[str, str] | None:
    """A label and value that every pod meant must have, if the selector names one."""
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


class RuleIndex(Generic[Rule]):
    """Rules that pods of the cluster carry, found by the pods that they mean."""

    def __init__(self, matching: Matching) -> None:
        self._matching = matching
        self._by_label: dict[tuple[str, str], list[tuple[frozenset[Subjects], Rule]]] = {}
        self._others: list[tuple[frozenset[Subjects], Rule]] = []

    def add(self, subjects: frozenset[Subjects], rule: Rule) -> None:
        """Remember a rule that means the pods that all of these subjects mean."""
        for one in subjects:
            pair = _equal_pair(one.selector)
            if pair is not None:
                self._by_label.setdefault(pair, []).append((subjects, rule))
                return
        self._others.append((subjects, rule))

    def rules_for(self, namespace: str, labels: Labels) -> list[Rule]:
        """The rules that mean a pod with this namespace and these labels."""
        near = (entry for pair in labels.items() for entry in self._by_label.get(pair, ()))
        found = [
            rule
            for subjects, rule in (*near, *self._others)
            if all(self._matching.matches(one, namespace, labels) for one in subjects)
        ]
        return list(dict.fromkeys(found))


Pair = tuple[int, int]
"""Shape number, group number."""


class RuleOwners(NamedTuple):
    """All pods of one shape and one group."""

    pair: Pair
    shape: Shape
    namespace: str
    labels: Labels
    pods: Indexes


def rule_owners(columns: Columns, carries: Callable[[Shape], bool]) -> Iterator[RuleOwners]:
    """The pods whose shape carries something, by shape and group, in the snapshot's order."""
    wanted = np.array([carries(shape) for shape in columns.shapes], np.bool_)
    if not wanted.any():
        return
    pods: Indexes = np.flatnonzero(wanted[columns.pod_shape]).astype(np.int32)
    pairs = columns.pod_shape[pods].astype(np.int64) * len(columns.groups) + columns.pod_group[pods]
    order = np.argsort(pairs, kind="stable")
    starts = np.flatnonzero(np.diff(pairs[order], prepend=-1))
    for members in np.split(pods[order], starts[1:]):
        first = int(members[0])
        pair = (int(columns.pod_shape[first]), int(columns.pod_group[first]))
        yield RuleOwners(pair, columns.shapes[pair[0]], *columns.groups[pair[1]], members)


class RuleOwnerCounts:
    """Counts of carriers by domain; a listener of the what-if."""

    def __init__(self, whatif: WhatIf) -> None:
        self._columns = whatif.columns
        self._whatif = whatif
        self._by_pair: dict[Pair, list[DomainCounts]] = {}
        whatif.add_counter(self)

    def changed(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        pair = (int(self._columns.pod_shape[pod]), int(self._columns.pod_group[pod]))
        for counts in self._by_pair.get(pair, ()):
            counts.changed(node, delta)

    def follows(self, shape: int, group: int) -> bool:
        """Whether pods of this shape and this group are carriers."""
        return (shape, group) in self._by_pair

    def count(self, carrier: RuleOwners, counts: DomainCounts) -> None:
        """Let these counts follow these pods too."""
        counts.add(self._whatif.at[carrier.pods])
        self._by_pair.setdefault(carrier.pair, []).append(counts)
