"""PodAntiAffinity: separate pods whose anti-affinity is violated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from typing import ClassVar

from rescheduler.planning.api import Proposal, ProposalResult, Proposals, Strategy
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.settings import StrategySettings
from rescheduler.planning.view import View
from rescheduler.strategies.support.settings import PodFilters, PodSelection
from rescheduler.strategies.support.violations import AntiAffinityViolation, find_violations, may_propose


class PodAntiAffinitySettings(PodFilters):
    """Which pods may be moved."""


class PodAntiAffinity(Strategy[PodAntiAffinitySettings]):
    """Separates pods in one domain if the required anti-affinity of one of them forbids it.

    The scheduler checks that rule, in both directions, when it places a pod; when labels of pods or nodes change later,
    the pods stay. Of the pods in conflict as few as possible move: first those whose counterpart cannot move, then the
    pod in the most conflicts, then the one of lower priority. They go to nodes that stay under the thresholds if there
    is one, else to any with room.
    """

    name: ClassVar[str] = "PodAntiAffinity"
    order: ClassVar[int] = 140
    settings_type: ClassVar[type[StrategySettings]] = PodAntiAffinitySettings

    def propose(self, view: View) -> Proposals:
        """Resolve one group of connected conflicts after the other."""
        choice = PodSelection(self.settings, view)
        for knot in _knots(find_violations(view)):
            exhausted = yield from _Knot(view, choice, knot).untied()
            if exhausted:
                return


def _knots(found: list[AntiAffinityViolation]) -> Iterator[list[AntiAffinityViolation]]:
    """Yield groups of violations that have pods in common."""
    by_pod: defaultdict[int, list[int]] = defaultdict(list)
    for number, clash in enumerate(found):
        for pod in clash.rule_owners | clash.meant:
            by_pod[pod].append(number)
    seen: set[int] = set()
    for first in range(len(found)):
        if first in seen:
            continue
        seen.add(first)
        knot, edge = [first], [first]
        while edge:
            clash = found[edge.pop()]
            near = {number for pod in clash.rule_owners | clash.meant for number in by_pod.pop(pod, ())}
            edge += sorted(near - seen)
            knot += sorted(near - seen)
            seen |= near
        yield [found[number] for number in sorted(knot)]


class _Knot:
    """Violations with common pods: pods are moved one by one until none is left, as in a small vertex cover."""

    def __init__(self, view: View, choice: PodSelection, knot: list[AntiAffinityViolation]) -> None:
        self._view = view
        self._clashes = knot
        self._by_pod: dict[int, list[AntiAffinityViolation]] = {}
        for clash in knot:
            for pod in sorted(clash.rule_owners | clash.meant):
                self._by_pod.setdefault(pod, []).append(clash)
        here = [pod for pod in sorted(self._by_pod) if view.scope[view.at[pod]] and may_propose(view, choice, pod)]
        self._able = {pod for pod in here if view.objection(pod) is None}
        self._hindered = [pod for pod in here if pod not in self._able]
        self._refused: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        self._sorted: dict[int, list[int]] = {}

    def untied(self) -> Generator[Proposal, ProposalResult, bool]:
        """Propose until no conflict is left, or no pod in one can move; return whether the plan is full.

        Pods that cannot move are proposed at the end if they are still in a conflict, so that the plan says why not.
        """
        while going := self._next():
            exhausted = yield from self._asked(pod for pod in going if pod in self._able)
            if exhausted:
                return True
        exhausted = yield from self._asked(self._hindered)
        return exhausted

    def _asked(self, pods: Iterable[int]) -> Generator[Proposal, ProposalResult, bool]:
        """Propose those pods that are still in a conflict; return whether the plan is full."""
        for pod in pods:
            if not self._count(pod) or self._is_hopeless(pod):
                self._able.discard(pod)
                continue
            decision = yield Proposal.one(pod, self._why(pod), force=True)
            self._able.discard(pod)
            if decision.accepted:
                for clash in self._by_pod[pod]:
                    clash.leave(pod)
            elif decision.exhausted:
                return True
            elif decision.rejection is not None:
                self._learn(pod, decision)
        return False

    def _learn(self, pod: int, decision: ProposalResult) -> None:
        """Skip pods that would be refused for the same reason: a limit that the plan has reached, or no target."""
        if decision.refused_by(PlanGuard.NO_TARGET):
            self._refused[self._look(pod)].add(int(self._view.at[pod]))
            out = {other for other in self._able if self._is_hopeless(other)}
        else:
            out = {other for other in self._able if self._view.objection(other) is not None}
            self._hindered += sorted(out)
        self._able -= out

    def _next(self) -> list[int]:
        """Return the next pods: all that must move, else the only neighbour of a pod, else one in most conflicts."""
        counts = {pod: count for pod in self._able if (count := self._count(pod))}
        able = {id(side): side <= self._able for clash in self._clashes for side in (clash.rule_owners, clash.meant)}
        must = [pod for pod in counts if not all(able[id(side)] for side in self._sides(pod))]
        # If a pod is in conflict with one other only and that one goes, no cover can be smaller for it.
        neighbours = [] if must else [other for pod in counts if (other := self._only_other(pod)) is not None]
        pods = self._view.pods
        ranked = sorted(must or neighbours or counts, key=lambda pod: (-counts[pod], pods[pod].rank, pod))
        return ranked if must else ranked[:1]

    def _look(self, pod: int) -> tuple[int, int]:
        columns = self._view.columns
        return int(columns.pod_shape[pod]), int(columns.pod_group[pod])

    def _is_hopeless(self, pod: int) -> bool:
        """Whether two pods of this look found no target, from two nodes: then no node takes another one."""
        return len(self._refused[self._look(pod)]) > 1

    def _sides(self, pod: int) -> list[set[int]]:
        return [side for clash in self._by_pod[pod] for side in clash.sides(pod)]

    def _count(self, pod: int) -> int:
        return sum(clash.count(pod) for clash in self._by_pod[pod])

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
        if own := next((each for each in mine if pod in each.rule_owners and _has_others(each.meant, pod)), None):
            other = view.pods[self._first_other(own.meant, pod)].full_name
            return f"on {node} it breaks its anti-affinity to {own.rule}: {other} is there"
        theirs = next(each for each in mine if pod in each.meant and _has_others(each.rule_owners, pod))
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
