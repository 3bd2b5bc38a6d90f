"""Matches selectors with pods, and counts the matching pods in each topology domain while pods move.

Affinity, anti-affinity and spread all depend on such counts. Selectors are matched with groups (pods with one namespace
and one set of labels), found through an index on labels, and only when needed: a cluster has thousands of selectors,
and a plan touches few of them.
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
    """The pods that a rule selects: by labels, in these namespaces or in those that a selector picks."""

    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector | None = None


def subjects_of(term: PodTerm, holder_namespace: str) -> Subjects | None:
    """Resolve the pods that a term of a pod in this namespace selects; None means no pod at all."""
    if term.selector is None:
        return None
    if not term.namespaces and term.namespace_selector is None:
        return Subjects(term.selector, frozenset({holder_namespace}))
    return Subjects(term.selector, term.namespaces, term.namespace_selector)


class DomainCounts:
    """Counts pods in each domain of a topology key, on eligible nodes."""

    __slots__ = ("counts", "domain", "eligible")

    def __init__(self, columns: Columns, key: str, eligible: Mask | None = None) -> None:
        self.domain = columns.domains(key)
        self.counts = np.zeros(
            len(columns.domain_values(key)) + 1, np.int32
        )  # the last place takes nodes without the key
        self.eligible = eligible

    def add(self, at: Indexes) -> None:
        """Count pods on these nodes."""
        at = at[at >= 0]
        if self.eligible is not None:
            at = at[self.eligible[at]]
        np.add.at(self.counts, self.domain[at], 1)

    def add_at(self, node: int, delta: int) -> None:
        """Count a pod that came to a node or left it."""
        if self.eligible is None or self.eligible[node]:
            self.counts[self.domain[node]] += delta

    def at_nodes(self) -> Indexes:
        """[N]: the count of each node's domain; 0 for nodes without the key."""
        found: Indexes = self.counts[self.domain]
        return np.where(self.domain >= 0, found, 0)


class Matching:
    """Counts the pods that subjects select, by domain; a listener of the what-if."""

    def __init__(self, whatif: WhatIf) -> None:
        self._whatif = whatif
        self._columns = whatif.columns
        self._counts: dict[Hashable, DomainCounts] = {}
        self._by_group: dict[int, list[DomainCounts]] = {}
        self._of_staying: dict[int, list[DomainCounts]] = {}
        """The same, for counts that leave out pods that are being deleted."""
        whatif.add_counter(self)

    def on_change(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        group = int(self._columns.pod_group[pod])
        for counts in self._by_group.get(group, ()):
            counts.add_at(node, delta)
        if group in self._of_staying and not self._columns.pods[pod].deleting:
            for counts in self._of_staying[group]:
                counts.add_at(node, delta)

    def follows(self, shape: int, group: int) -> bool:
        """Whether any count includes pods of this group."""
        return group in self._by_group or group in self._of_staying

    def matches(self, subjects: Subjects, namespace: str, labels: Labels) -> bool:
        """Whether subjects select a pod with this namespace and these labels."""
        if not subjects.selector.matches(labels):
            return False
        return namespace in subjects.namespaces or (
            subjects.namespace_selector is not None
            and subjects.namespace_selector.matches(self.namespace_labels(namespace))
        )

    def namespace_labels(self, namespace: str) -> Labels:
        """Return a namespace's labels; a namespace that the input does not have has only its name."""
        return self._columns.snapshot.namespaces.get(namespace, {NAME_LABEL: namespace})

    def counts(self, subjects: Iterable[Subjects], key: str) -> DomainCounts:
        """Count the pods in each domain that all of the subjects select, also terminating ones (as for affinity)."""
        wanted = frozenset(subjects)
        return self._count_groups((wanted, key), wanted, DomainCounts(self._columns, key))

    def spread_counts(self, subjects: Subjects, key: str, eligible: Mask) -> DomainCounts:
        """Count them for spread: on eligible nodes only, and without pods that are being deleted."""
        identity = (subjects, key, eligible.tobytes())
        return self._count_groups(
            identity, frozenset({subjects}), DomainCounts(self._columns, key, eligible), leaving=False
        )

    def _count_groups(
        self, identity: Hashable, wanted: frozenset[Subjects], fresh: DomainCounts, *, leaving: bool = True
    ) -> DomainCounts:
        known = self._counts.get(identity)
        if known is not None:
            return known
        self._counts[identity] = fresh
        for group in self._matching_groups(wanted):
            pods = self._columns.pods_of_group(group)
            if not leaving:
                pods = pods[~self._leaving[pods]]
            fresh.add(self._whatif.at[pods])
            (self._by_group if leaving else self._of_staying).setdefault(group, []).append(fresh)
        return fresh

    def staying_pods(self, subjects: Subjects) -> Indexes:
        """Find the selected pods that are not being deleted: those that count for spread, if their node does."""
        groups = self._matching_groups(frozenset({subjects}))
        pods = [self._columns.pods_of_group(group) for group in groups]
        found: Indexes = np.sort(np.concatenate(pods)) if pods else np.zeros(0, np.int32)
        return found[~self._leaving[found]]

    @cached_property
    def _leaving(self) -> Mask:
        return np.array([pod.deleting for pod in self._columns.pods], np.bool_)

    def _matching_groups(self, wanted: frozenset[Subjects]) -> list[int]:
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
    """Find a label and value that every selected pod must have, if the selector names one."""
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


class RuleIndex(Generic[Rule]):
    """The rules of all pods in the cluster, found by the pods that they select."""

    def __init__(self, matching: Matching) -> None:
        self._matching = matching
        self._by_label: dict[tuple[str, str], list[tuple[frozenset[Subjects], Rule]]] = {}
        self._others: list[tuple[frozenset[Subjects], Rule]] = []

    def add(self, subjects: frozenset[Subjects], rule: Rule) -> None:
        """Add a rule that selects the pods that all of these subjects select."""
        for one in subjects:
            pair = _equal_pair(one.selector)
            if pair is not None:
                self._by_label.setdefault(pair, []).append((subjects, rule))
                return
        self._others.append((subjects, rule))

    def rules_for(self, namespace: str, labels: Labels) -> list[Rule]:
        """Find the rules that select a pod with this namespace and these labels."""
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
    """All pods of one shape and one group, which have the same rules."""

    pair: Pair
    shape: Shape
    namespace: str
    labels: Labels
    pods: Indexes


def rule_owners(columns: Columns, has_rule: Callable[[Shape], bool]) -> Iterator[RuleOwners]:
    """Find the pods whose shape has a rule, by shape and group, in the snapshot's order."""
    pods = columns.pods_with(has_rule)
    if not len(pods):
        return
    pairs = columns.pod_shape[pods].astype(np.int64) * len(columns.groups) + columns.pod_group[pods]
    order = np.argsort(pairs, kind="stable")
    starts = np.flatnonzero(np.diff(pairs[order], prepend=-1))
    for members in np.split(pods[order], starts[1:]):
        first = int(members[0])
        pair = (int(columns.pod_shape[first]), int(columns.pod_group[first]))
        yield RuleOwners(pair, columns.shapes[pair[0]], *columns.groups[pair[1]], members)


class RuleOwnerCounts:
    """Counts rule owners by domain; a listener of the what-if."""

    def __init__(self, whatif: WhatIf) -> None:
        self._columns = whatif.columns
        self._whatif = whatif
        self._by_pair: dict[Pair, list[DomainCounts]] = {}
        whatif.add_counter(self)

    def on_change(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        pair = (int(self._columns.pod_shape[pod]), int(self._columns.pod_group[pod]))
        for counts in self._by_pair.get(pair, ()):
            counts.add_at(node, delta)

    def follows(self, shape: int, group: int) -> bool:
        """Whether pods of this shape and this group are counted."""
        return (shape, group) in self._by_pair

    def count(self, owners: RuleOwners, counts: DomainCounts) -> None:
        """Make counts include these pods from now on."""
        counts.add(self._whatif.at[owners.pods])
        self._by_pair.setdefault(owners.pair, []).append(counts)
