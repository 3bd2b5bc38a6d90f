"""Which pod to move next, and where to, so that a broken spread constraint comes nearer to holding.

The strategy TopologySpread asks for one constraint at a time, and tells what became of each answer. All constraints
that count a pod are weighed together (`planning.evening`): the more of them a move mends the better, and whatever does
not mend more than it breaks is left out. Pods of one kind in the same domains are alike, so they are looked at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rescheduler.model.plan import Method
from rescheduler.planning.columns import Floats, Indexes, Ints, Mask
from rescheduler.planning.evening import Bounds, Evening
from rescheduler.planning.predicates.spread import Constraint, Constraints
from rescheduler.planning.strategy import Decision
from rescheduler.planning.view import View

# What a target is worth: how empty its domains are before how little the node is used, which is a percentage.
_EMPTIER, _MOST_HEAT = 1e4, 1e3

_Kind = tuple[int, tuple[Constraint, ...]]
"""A shape, and the constraints that count the pod, the less important family last."""


class Candidate(NamedTuple):
    """A pod, why it should move, and what each target would cost."""

    pod: int
    why: str
    cost: Floats


class Merit(NamedTuple):
    """What comes first: what mends most, then low priority and eviction cost, then what leaves the fullest domains."""

    change: float
    rank: int
    emptiness: int
    first: int


class Cell:
    """Pods of one kind in the same domains, those of low rank first."""

    __slots__ = ("domains", "hopeless", "kind", "pods")

    def __init__(self, kind: _Kind, domains: tuple[int, ...]) -> None:
        self.kind = kind
        self.domains = domains
        """The number of its domain for each of the constraints; -1 where it does not count."""
        self.pods: list[int] = []
        self.hopeless = -np.inf
        """Targets that change this much or less were tried in vain."""


class Mending:
    """The moves that one constraint needs."""

    def __init__(
        self, view: View, constraint: Constraint, families: Sequence[Constraints], pods: Iterable[int]
    ) -> None:
        self._view = view
        self._constraint = constraint
        self._families = families
        """The family of the constraint last; what comes before it must not get worse."""
        self._evenings: dict[Constraint, tuple[Evening, Indexes]] = {}
        self._cells: dict[int, Cell] = {}
        """For each pod that may still be proposed."""
        self._told = False
        """Whether people have been told why the constraint stays broken."""
        known: dict[tuple[_Kind, tuple[int, ...]], Cell] = {}
        for pod in sorted(pods, key=lambda p: (view.pods[p].rank, p)):
            place = self._place(pod)
            cell = known.setdefault(place, Cell(*place))
            cell.pods.append(pod)
            self._cells[pod] = cell
        self._all = list(known.values())
        self._room: Ints = _room(view, next(iter(self._cells))) if self._cells else np.zeros(len(view.nodes), np.int64)

    def next(self) -> Candidate | None:
        """The best move now; None when there is none that helps."""
        if self._constraint.skew() <= self._constraint.max_skew:
            return None
        judged: list[tuple[Merit, Cell]] = []
        for bound, cell in self._by_promise():
            # What a cell is worth in truth may be less than what the next one promises.
            if judged and min(judged, key=lambda each: each[0])[0] < bound:
                break
            change = self._best(cell)
            if change < 0:
                judged.append((bound._replace(change=change), cell))
        if not judged:
            return self._example()
        merit, cell = min(judged, key=lambda each: each[0])
        return self._candidate(cell, merit.change)

    def heard(self, candidate: Candidate, decision: Decision) -> None:
        """What became of a move."""
        self._told = True
        cell, refusal = self._cells[candidate.pod], decision.rejection
        if refusal is not None and refusal.guard == "NoTarget" and not self._in_group(candidate.pod):
            cell.hopeless = float(self._changes(cell)[np.isfinite(candidate.cost)].max())
            return  # what no node takes, no node takes its look-alike from here either
        cell.pods.remove(candidate.pod)
        del self._cells[candidate.pod]
        self._evenings.clear()
        if decision.taken:
            source, target = int(self._view.columns.pod_at[candidate.pod]), int(self._view.at[candidate.pod])
            self._room[source] += 1
            self._room[target] -= 1
            for each in self._all:
                each.hopeless = -np.inf

    def _in_group(self, pod: int) -> bool:
        return bool(self._view.groups.members(pod))

    def _place(self, pod: int) -> tuple[_Kind, tuple[int, ...]]:
        node = int(self._view.at[pod])
        constraints = tuple(each for family in self._families for each in family.counting(pod))
        domains = tuple(each.domain_of(node) for each in constraints)
        return (int(self._view.columns.pod_shape[pod]), constraints), domains

    def _by_promise(self) -> Iterator[tuple[Merit, Cell]]:
        """The cells that may help, with the most that they may change, best first."""
        found: list[tuple[Merit, Cell]] = []
        kinds: dict[_Kind, list[Cell]] = {}
        for cell in self._all:
            if cell.pods:
                kinds.setdefault(cell.kind, []).append(cell)
        for (_, constraints), cells in kinds.items():
            domains: Ints = np.array([cell.domains for cell in cells]).T
            bound, fullness = np.zeros(len(cells)), np.zeros(len(cells), np.int64)
            for constraint, of_cells in zip(constraints, domains, strict=True):
                evening, _ = self._evening(constraint)
                bound += np.minimum(evening.change.min(axis=1), 0.0)[evening.place[of_cells]]
                fullness += constraint.counts.counts[of_cells]
            for at in np.flatnonzero(bound < 0).tolist():
                pod = cells[at].pods[0]
                merit = Merit(float(bound[at]), self._view.pods[pod].rank, -int(fullness[at]), pod)
                found.append((merit, cells[at]))
        yield from sorted(found, key=lambda each: each[0])

    def _evening(self, constraint: Constraint) -> tuple[Evening, Indexes]:
        if constraint not in self._evenings:
            evening = Evening(constraint, self._bounds(constraint))
            self._evenings[constraint] = (evening, evening.places())
        return self._evenings[constraint]

    def _bounds(self, constraint: Constraint) -> Bounds:
        """Domains that nothing can leave or come to any more hold the others where they are."""
        counts, present = constraint.counts, constraint.present
        usable = counts.domain >= 0 if counts.eligible is None else counts.eligible
        room = np.bincount(counts.domain[usable], self._room[usable], len(counts.counts))
        most = int((counts.counts + room)[present].min(initial=2**31))
        if constraint is not self._constraint:
            return Bounds(most=most)
        staying = counts.counts.copy()
        for cell in self._all:
            staying[cell.domains[cell.kind[1].index(constraint)]] -= len(cell.pods)
        return Bounds(int(staying[present].max(initial=0)) - constraint.max_skew, most)

    def _changes(self, cell: Cell) -> Floats:
        """[N]: by how many moves all constraints together come nearer if one of the pods goes there; less is better."""
        total: Floats = np.zeros(len(self._view.nodes))
        worse: Mask | None = None
        important = len(self._families) > 1 and {*self._families[0].counting(cell.pods[0])}
        for constraint, domain in zip(cell.kind[1], cell.domains, strict=True):
            evening, places = self._evening(constraint)
            change = evening.change[evening.place[domain]][places]
            if domain >= 0:
                change[constraint.counts.domain == domain] = 0.0
            if important and constraint in important:
                worse = change > 0 if worse is None else worse | (change > 0)
            else:
                total += change
        if worse is not None:
            total[worse] = np.inf
        return total

    def _best(self, cell: Cell) -> float:
        """The most that the constraints come nearer if one of the pods goes where it could go now."""
        changes = self._changes(cell)
        helpful = (changes < 0) & (changes > cell.hopeless)
        if helpful.any():
            helpful &= self._feasible(cell.pods[0])
        return float(changes[helpful].min()) if helpful.any() else 0.0

    def _feasible(self, pod: int) -> Mask:
        """[N]: where the pod could be; above the thresholds, too, for a hard constraint."""
        view = self._view
        if len(self._families) > 1:
            return view.could_be(pod)
        if view.method(pod) is not Method.EVICT:
            return view.feasibility.mask(pod)
        with view.whatif.trial():
            view.whatif.remove(pod, int(view.at[pod]))
            return view.feasibility.mask(pod)

    def _candidate(self, cell: Cell, change: float) -> Candidate:
        changes, pod = self._changes(cell), cell.pods[0]
        fullness: Floats = np.zeros(len(changes))
        for constraint in cell.kind[1]:
            fullness += constraint.counts.at_nodes()
        cost = fullness * _EMPTIER + np.clip(self._view.cost(pod), -_MOST_HEAT, _MOST_HEAT)
        cost[changes != change] = np.inf
        return Candidate(pod, self._why(cell, int(cost.argmin())), cost)

    def _example(self) -> Candidate | None:
        """A move that would help and cannot be made: the planner tells people why the constraint stays broken."""
        if self._told:
            return None
        for _, cell in self._by_promise():
            changes = self._changes(cell)
            if changes.min() < 0:
                return self._candidate(cell, float(changes.min()))
        return None

    def _why(self, cell: Cell, target: int) -> str:
        """Which constraints the move to such a target mends."""
        parts: list[str] = []
        for constraint, domain in zip(cell.kind[1], cell.domains, strict=True):
            evening, places = self._evening(constraint)
            apart = constraint.counts.domain[target] != domain
            if domain >= 0 and apart and evening.change[evening.place[domain], places[target]] < 0:
                parts.append(self._told_of(constraint, domain))
        if not parts:  # what it mends does not count the pod where it is
            parts.append(self._told_of(self._constraint, cell.domains[cell.kind[1].index(self._constraint)]))
        return f"spread over {' and over '.join(parts)}"

    def _told_of(self, constraint: Constraint, domain: int) -> str:
        values = self._view.columns.domain_values(constraint.key)
        counts, present = constraint.counts.counts, constraint.present
        low = int(present[counts[present].argmin()])
        rule = f"maxSkew {constraint.max_skew}"
        if len(present) < constraint.min_domains:
            rule += f", minDomains {constraint.min_domains} where there are {len(present)}"
        return (
            f"{constraint.key}: {values[domain]} has {counts[domain]} pods of {constraint.subjects.selector}, "
            f"{values[low]} has {counts[low]} ({rule})"
        )


def _room(view: View, pod: int) -> Ints:
    """[N]: how many such pods would fit, as far as resources and the nodes' own rules go."""
    asked = view.columns.requests(pod)
    some = asked > 0
    fits = (view.whatif.free[some] // asked[some, None]).min(axis=0)
    found: Ints = np.where(view.reach(pod), np.maximum(fits, 0), 0)
    return found
