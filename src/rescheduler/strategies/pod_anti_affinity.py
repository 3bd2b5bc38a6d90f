from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from rescheduler.planning.api import Proposal, ProposalResult, Proposals, Strategy
from rescheduler.planning.columns import Indexes
from rescheduler.planning.matching import Subjects, rule_owners, subjects_of
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.view import Look, View
from rescheduler.strategies.support.settings import PodFilters, PodSelection


class PodAntiAffinitySettings(PodFilters):
    """Which pods may be moved."""


class PodAntiAffinity(Strategy[PodAntiAffinitySettings]):
    """Separates pods in one domain if the required anti-affinity of one of them forbids it.

    The scheduler checks that rule, in both directions, when it places a pod; when labels of pods or nodes change later,
    the pods stay. Of the pods in conflict as few as possible move: first those whose counterpart cannot move, then the
    pod in the most conflicts, then the one of lower priority. They go to nodes that stay under the thresholds if there
    is one, else to any with room.
    """

    order = 140

    def propose(self, view: View) -> Proposals:
        """Resolve one group of connected conflicts after the other."""
        selection = PodSelection(self.settings, view)
        for group in _group_violations(find_violations(view)):
            exhausted = yield from _Conflicts(view, selection, group).resolve()
            if exhausted:
                return


def _group_violations(found: list[AntiAffinityViolation]) -> Iterator[list[AntiAffinityViolation]]:
    """Yield groups of violations that have pods in common."""
    by_pod: defaultdict[int, list[int]] = defaultdict(list)
    for number, violation in enumerate(found):
        for pod in violation.rule_owners | violation.matched:
            by_pod[pod].append(number)
    seen: set[int] = set()
    for first in range(len(found)):
        if first in seen:
            continue
        seen.add(first)
        group, edge = [first], [first]
        while edge:
            violation = found[edge.pop()]
            near = {number for pod in violation.rule_owners | violation.matched for number in by_pod.pop(pod, ())}
            edge += sorted(near - seen)
            group += sorted(near - seen)
            seen |= near
        yield [found[number] for number in sorted(group)]


class _Conflicts:
    """Violations with common pods: pods are moved one by one until none is left, as in a small vertex cover."""

    def __init__(self, view: View, selection: PodSelection, group: list[AntiAffinityViolation]) -> None:
        self._view = view
        self._violations = group
        self._by_pod: dict[int, list[AntiAffinityViolation]] = {}
        for violation in group:
            for pod in sorted(violation.rule_owners | violation.matched):
                self._by_pod.setdefault(pod, []).append(violation)
        here = [pod for pod in sorted(self._by_pod) if view.scope[view.at[pod]] and selection.may_propose(pod)]
        self._able = {pod for pod in here if view.objection(pod) is None}
        self._blocked = [pod for pod in here if pod not in self._able]
        self._refused: defaultdict[Look, set[int]] = defaultdict(set)
        self._sorted: dict[int, list[int]] = {}

    def resolve(self) -> Generator[Proposal, ProposalResult, bool]:
        """Propose until no conflict is left, or no pod in one can move; return whether the plan is full.

        Pods that cannot move are proposed at the end if they are still in a conflict, so that the plan says why not.
        """
        while movers := self._next():
            exhausted = yield from self._propose(pod for pod in movers if pod in self._able)
            if exhausted:
                return True
        exhausted = yield from self._propose(self._blocked)
        return exhausted

    def _propose(self, pods: Iterable[int]) -> Generator[Proposal, ProposalResult, bool]:
        """Propose those pods that are still in a conflict; return whether the plan is full."""
        for pod in pods:
            if not self._count(pod) or self._is_hopeless(pod):
                self._able.discard(pod)
                continue
            result = yield Proposal.one(pod, self._why(pod), force=True)
            self._able.discard(pod)
            if result.accepted:
                for violation in self._by_pod[pod]:
                    violation.leave(pod)
            elif result.exhausted:
                return True
            elif result.rejection is not None:
                self._handle_refusal(pod, result)
        return False

    def _handle_refusal(self, pod: int, result: ProposalResult) -> None:
        """Skip pods that would be refused for the same reason: a limit that the plan has reached, or no target."""
        if result.refused_by(PlanGuard.NO_TARGET):
            self._refused[self._view.look(pod)].add(int(self._view.at[pod]))
            out = {other for other in self._able if self._is_hopeless(other)}
        else:
            out = {other for other in self._able if self._view.objection(other) is not None}
            self._blocked += sorted(out)
        self._able -= out

    def _next(self) -> list[int]:
        """Return the next pods: all that must move, else the only neighbour of a pod, else one in most conflicts."""
        counts = {pod: count for pod in self._able if (count := self._count(pod))}
        able = {
            id(side): side <= self._able
            for violation in self._violations
            for side in (violation.rule_owners, violation.matched)
        }
        must = [pod for pod in counts if not all(able[id(side)] for side in self._sides(pod))]
        # If a pod is in conflict with one other only and that one goes, no cover can be smaller for it.
        neighbours = [] if must else [other for pod in counts if (other := self._only_other(pod)) is not None]
        pods = self._view.pods
        ranked = sorted(must or neighbours or counts, key=lambda pod: (-counts[pod], pods[pod].rank, pod))
        return ranked if must else ranked[:1]

    def _is_hopeless(self, pod: int) -> bool:
        """Whether two pods of this look found no target, from two nodes: then no node takes another one."""
        return len(self._refused[self._view.look(pod)]) > 1

    def _sides(self, pod: int) -> list[set[int]]:
        return [side for violation in self._by_pod[pod] for side in violation.sides(pod)]

    def _count(self, pod: int) -> int:
        return sum(violation.count(pod) for violation in self._by_pod[pod])

    def _only_other(self, pod: int) -> int | None:
        """Return the pod that it is in conflict with, if there is only one."""
        sides = self._sides(pod)
        if any(len(side) - (pod in side) > 1 for side in sides):
            return None
        others = set().union(*sides) - {pod}
        return others.pop() if len(others) == 1 else None

    def _why(self, pod: int) -> str:
        """Describe the broken rule: the pod's own rather than another's."""
        view, node = self._view, self._view.nodes[int(self._view.at[pod])].name
        mine = self._by_pod[pod]
        if own := next((each for each in mine if pod in each.rule_owners and _has_others(each.matched, pod)), None):
            other = view.pods[self._first_other(own.matched, pod)].full_name
            return f"on {node} it breaks its anti-affinity to {own.rule}: {other} is there"
        theirs = next(each for each in mine if pod in each.matched and _has_others(each.rule_owners, pod))
        other = view.pods[self._first_other(theirs.rule_owners, pod)].full_name
        return f"on {node} it breaks the anti-affinity of {other} to {theirs.rule}"

    def _first_other(self, side: set[int], pod: int) -> int:
        """Return the first other pod that is still there. Sides may be large, so they are sorted once."""
        known = self._sorted.get(id(side))
        if known is None:
            known = self._sorted[id(side)] = sorted(side)
        return next(each for each in known if each != pod and each in side)


def _has_others(side: set[int], pod: int) -> bool:
    return len(side) > (pod in side)


_Rule = tuple[Subjects, str]


@dataclass(slots=True)
class AntiAffinityViolation:
    """One rule that is violated in one domain: its owners keep away from all pods it matches, but themselves."""

    rule: str
    rule_owners: set[int]
    matched: set[int]

    def sides(self, pod: int) -> list[set[int]]:
        """Return the pods that it keeps away from, and those that keep away from it; it may be in both itself."""
        return [
            side for side, other in ((self.matched, self.rule_owners), (self.rule_owners, self.matched)) if pod in other
        ]

    def count(self, pod: int) -> int:
        """Return the number of conflicts of the pod; two pods that keep away from each other are in two."""
        return sum(len(side) - (pod in side) for side in self.sides(pod))

    def leave(self, pod: int) -> None:
        """Take out a pod that is moved away."""
        self.rule_owners.discard(pod)
        self.matched.discard(pod)


def find_violations(view: View) -> list[AntiAffinityViolation]:
    """Return all violations of pods on nodes, except pods that are being deleted: they leave by themselves."""
    found: list[AntiAffinityViolation] = []
    for (subjects, key), owners in _find_rules(view).items():
        matched = view.feasibility.matching.staying_pods(subjects)
        rule = f"pods with {subjects.selector}" if subjects.selector.requirements else "all pods"
        for bearing, shunned in _find_in_domains(view, key, np.concatenate(owners), matched):
            stand, near = _find_staying(view, bearing), _find_staying(view, shunned)
            if stand and near and len(stand | near) > 1:
                found.append(AntiAffinityViolation(f"{rule} in the same {key}", stand, near))
    return found


def _find_rules(view: View) -> dict[_Rule, list[Indexes]]:
    """Return all anti-affinity terms in the cluster, with the pods that have them."""
    found: dict[_Rule, list[Indexes]] = {}
    for owners in rule_owners(view.columns, lambda shape: bool(shape.anti_affinity)):
        for term in dict.fromkeys(owners.shape.anti_affinity):
            subjects = subjects_of(term, owners.namespace)
            if subjects is not None:
                found.setdefault((subjects, term.topology_key), []).append(owners.pods)
    return found


def _find_in_domains(view: View, key: str, owners: Indexes, matched: Indexes) -> Iterator[tuple[list[int], list[int]]]:
    """Yield rule owners and matched pods of each domain with a violation; nodes without the key are in no domain."""
    if not len(matched):
        return
    domains = view.columns.domains(key)
    mine, where = _by_domain(view, domains, owners)
    theirs, there = _by_domain(view, domains, matched)
    if len(np.unique(where)) == len(mine) == len(theirs) and np.array_equal(np.sort(mine), np.sort(theirs)):
        return  # nearly always: pods that keep away from their own kind, each alone in its domain
    size = len(view.columns.domain_values(key))
    itself = where[np.isin(mine, theirs)]
    count, other, same = (np.bincount(places, minlength=size) for places in (where, there, itself))
    alone = (count == 1) & (other == 1) & (same == 1)
    for domain in np.flatnonzero((count > 0) & (other > 0) & ~alone).tolist():
        yield mine[where == domain].tolist(), theirs[there == domain].tolist()


def _by_domain(view: View, domains: Indexes, pods: Indexes) -> tuple[Indexes, Indexes]:
    """Return those of the pods that are in a domain, and their domains."""
    at = view.at[pods]
    places = np.where(at >= 0, domains[at], -1)
    return pods[places >= 0], places[places >= 0]


def _find_staying(view: View, pods: list[int]) -> set[int]:
    return {pod for pod in pods if view.pods[pod].node and not view.pods[pod].deleting}
