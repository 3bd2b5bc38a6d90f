"""Where required anti-affinity is broken: which pods stand in one domain though one of them keeps away from the other.

PodAntiAffinity reads it. Rules are gone through, not pods: each distinct one once, with the pods that carry it and the
pods that it means, and only domains that have both are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from rescheduler.planning.carriers import carriers
from rescheduler.planning.columns import Indexes
from rescheduler.planning.matching import RuleIndex, Subjects, subjects_of
from rescheduler.planning.view import View

_Rule = tuple[Subjects, str]


@dataclass(slots=True)
class Clash:
    """One rule that is broken in one domain: each carrier keeps away from each pod that is meant, but itself."""

    rule: str
    carriers: set[int]
    meant: set[int]

    def sides(self, pod: int) -> list[set[int]]:
        """The pods that it keeps away from, and those that keep away from it; itself may be among them."""
        return [side for side, other in ((self.meant, self.carriers), (self.carriers, self.meant)) if pod in other]

    def count(self, pod: int) -> int:
        """In how many conflicts the pod is; two pods that keep away from each other are in two."""
        return sum(len(side) - (pod in side) for side in self.sides(pod))

    def leave(self, pod: int) -> None:
        """The pod is moved away."""
        self.carriers.discard(pod)
        self.meant.discard(pod)


def clashes(view: View) -> list[Clash]:
    """Every clash of pods that are on nodes, those that are being deleted aside: they leave by themselves."""
    found: list[Clash] = []
    carried = _carried(view)
    meant = _meant(view, carried)
    for (subjects, key), mine in carried.items():
        rule = f"pods with {subjects.selector}" if subjects.selector.requirements else "all pods"
        for bearing, shunned in _together(view, key, mine, meant.get((subjects, key), [])):
            stand, near = _staying(view, bearing), _staying(view, shunned)
            if stand and near and len(stand | near) > 1:
                found.append(Clash(f"{rule} in the same {key}", stand, near))
    return found


def _carried(view: View) -> dict[_Rule, list[Indexes]]:
    """Every anti-affinity term in the cluster, with the pods that carry it."""
    found: dict[_Rule, list[Indexes]] = {}
    for carrier in carriers(view.columns, lambda shape: bool(shape.anti_affinity)):
        for term in dict.fromkeys(carrier.shape.anti_affinity):
            subjects = subjects_of(term, carrier.namespace)
            if subjects is not None:
                found.setdefault((subjects, term.topology_key), []).append(carrier.pods)
    return found


def _meant(view: View, rules: Iterable[_Rule]) -> dict[_Rule, list[Indexes]]:
    """The pods that each of these rules means."""
    index: RuleIndex[_Rule] = RuleIndex(view.feasibility.matching)
    for rule in rules:
        index.add(frozenset({rule[0]}), rule)
    found: dict[_Rule, list[Indexes]] = {}
    for group, (namespace, labels) in enumerate(view.columns.groups if rules else ()):
        for rule in index.meaning(namespace, labels):
            found.setdefault(rule, []).append(view.columns.pods_of_group(group))
    return found


def _together(
    view: View, key: str, carried: list[Indexes], meant: list[Indexes]
) -> Iterator[tuple[list[int], list[int]]]:
    """The carriers and the pods meant of each domain in which they clash; nodes without the key are in no domain."""
    if not meant:
        return
    domains = view.columns.domains(key)
    mine, where = _by_domain(view, domains, np.concatenate(carried))
    theirs, there = _by_domain(view, domains, np.concatenate(meant))
    if len(np.unique(where)) == len(mine) == len(theirs) and np.array_equal(np.sort(mine), np.sort(theirs)):
        return  # nearly always: pods that keep away from their own kind, each alone in its domain
    size = len(view.columns.domain_values(key))
    itself = where[np.isin(mine, theirs)]
    count, other, same = (np.bincount(places, minlength=size) for places in (where, there, itself))
    alone = (count == 1) & (other == 1) & (same == 1)
    for domain in np.flatnonzero((count > 0) & (other > 0) & ~alone).tolist():
        yield mine[where == domain].tolist(), theirs[there == domain].tolist()


def _by_domain(view: View, domains: Indexes, pods: Indexes) -> tuple[Indexes, Indexes]:
    """Those of the pods that are in a domain, and in which."""
    at = view.at[pods]
    places = np.where(at >= 0, domains[at], -1)
    return pods[places >= 0], places[places >= 0]


def _staying(view: View, pods: list[int]) -> set[int]:
    return {pod for pod in pods if view.pods[pod].node and not view.pods[pod].deleting}
