"""How many moves a spread constraint is away from holding, and what one more move would change of that.

Counts are even enough when all domains are within a band of maxSkew: between some level and that much above it. The
moves that takes are as many as pods are missing below the band or too many above it, whichever is more; the best level
counts. A single move changes that number by one at most, so whoever lowers it with every move makes the fewest moves
that there can be. Domains with the same count are alike, so everything goes by distinct counts: 5,000 nodes make few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rescheduler.model.plan import Method
from rescheduler.planning.api import ProposalResult
from rescheduler.planning.columns import Floats, Indexes, Ints, Mask
from rescheduler.planning.predicates.support.spread import Constraint, Constraints
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.view import View


class Bounds(NamedTuple):
    """What limits the band: how far down it may begin, because of pods that stay, and how far up, for want of room."""

    least: int = 0
    most: int = 2**31


class SpreadDeficit:
    """What would even out one constraint, as its counts are now; make a new one when a counted pod has moved."""

    def __init__(self, constraint: Constraint, bounds: Bounds) -> None:
        self.constraint = constraint
        counts = constraint.counts.counts
        domains = counts[constraint.present]
        values, number = np.unique(domains, return_counts=True)
        self._values = values.astype(np.int64)
        self._number = number.astype(np.int64)
        self._nowhere = len(values)
        # A node that does not count is "nowhere": what leaves it or comes to it is not counted there.
        place = np.full(len(counts), self._nowhere, np.int32)
        place[constraint.present] = np.searchsorted(values, domains)
        place[-1] = self._nowhere
        self.place: Indexes = place
        """For the number of each domain (-1 for none) the number of its count, to look up in `change`."""
        self.change: Floats
        """[V+1, V+1]: what a move from a domain of one count to another domain of another count adds to `need`."""
        self.need: float
        """The fewest moves after which the constraint holds, as far as one can tell from counts and bounds."""
        self._reckon(self._levels(bounds))

    def places(self) -> Indexes:
        """[N]: for each node the number of its domain's count, to look up in `change`."""
        counts = self.constraint.counts
        found = self.place[counts.domain]
        return found if counts.eligible is None else np.where(counts.eligible, found, self._nowhere)

    def _levels(self, bounds: Bounds) -> Ints:
        """Where the band may begin. Where the bounds leave no band that all pods fit into, the nearest to one."""
        total, domains = int((self._values * self._number).sum()), len(self.constraint.present)
        if domains < max(self.constraint.min_domains, 1):
            return np.zeros(1, np.int64)  # the emptiest domain counts as empty, whatever is in it
        first, last = max(0, -(-total // domains) - self.constraint.max_skew), total // domains
        first = min(max(first, bounds.least), last)
        last = min(last, bounds.most)
        return np.arange(min(first, last), last + 1)

    def _reckon(self, level: Ints) -> None:
        values, number, skew = self._values[:, None], self._number[:, None], self.constraint.max_skew
        low, high = values < level, values >= level + skew
        below = (number * np.where(low, level - values, 0)).sum(axis=0)
        above = (number * np.where(high, values - level - skew, 0)).sum(axis=0)
        nowhere = np.zeros((1, len(level)), np.int64)
        leaves_below = np.vstack([values <= level, nowhere])
        leaves_above = np.vstack([-(values > level + skew).astype(np.int64), nowhere])
        comes_below = np.vstack([-low.astype(np.int64), nowhere])
        comes_above = np.vstack([high, nowhere])
        after = np.maximum(below + leaves_below[:, None] + comes_below, above + leaves_above[:, None] + comes_above)
        best = after.min(axis=2).astype(np.float64)
        self.need = float(best[self._nowhere, self._nowhere])
        self.change = best - self.need


# What a target is worth: how empty its domains are before how little the node is used, which is a percentage.
_EMPTIER, _MOST_HEAT = 1e4, 1e3

_Kind = tuple[int, tuple[Constraint, ...]]
"""A shape, and the constraints that count the pod, the less important family last."""


class SpreadMove(NamedTuple):
    """A pod, why it should move, and what each target would cost."""

    pod: int
    why: str
    cost: Floats


class MovePriority(NamedTuple):
    """What comes first: what mends most, then low priority and eviction cost, then what leaves the fullest domains."""

    change: float
    rank: int
    emptiness: int
    first: int


class EquivalentPods:
    """Pods of one kind in the same domains, those of low rank first."""

    __slots__ = ("domains", "hopeless", "kind", "pods")

    def __init__(self, kind: _Kind, domains: tuple[int, ...]) -> None:
        self.kind = kind
        self.domains = domains
        """The number of its domain for each of the constraints; -1 where it does not count."""
        self.pods: list[int] = []
        self.hopeless = -np.inf
        """Targets that change this much or less were tried in vain."""


class SpreadRepair:
    """The moves that one constraint needs."""

    def __init__(
        self, view: View, constraint: Constraint, families: Sequence[Constraints], pods: Iterable[int]
    ) -> None:
        self._view = view
        self._constraint = constraint
        self._families = families
        """The family of the constraint last; what comes before it must not get worse."""
        self._evenings: dict[Constraint, tuple[SpreadDeficit, Indexes]] = {}
        self._cells: dict[int, EquivalentPods] = {}
        """For each pod that may still be proposed."""
        self._told = False
        """Whether people have been told why the constraint stays broken."""
        known: dict[tuple[_Kind, tuple[int, ...]], EquivalentPods] = {}
        for pod in sorted(pods, key=lambda p: (view.pods[p].rank, p)):
            place = self._place(pod)
            cell = known.setdefault(place, EquivalentPods(*place))
            cell.pods.append(pod)
            self._cells[pod] = cell
        self._all = list(known.values())
        self._room: Ints = _room(view, next(iter(self._cells))) if self._cells else np.zeros(len(view.nodes), np.int64)

    def next_move(self) -> SpreadMove | None:
        """The best move now; None when there is none that helps."""
        if self._constraint.skew() <= self._constraint.max_skew:
            return None
        judged: list[tuple[MovePriority, EquivalentPods]] = []
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

    def handle(self, candidate: SpreadMove, decision: ProposalResult) -> None:
        """What became of a move."""
        self._told = True
        cell = self._cells[candidate.pod]
        if decision.refused_by(PlanGuard.NO_TARGET) and not self._in_group(candidate.pod):
            cell.hopeless = float(self._changes(cell)[np.isfinite(candidate.cost)].max())
            return  # what no node takes, no node takes its look-alike from here either
        cell.pods.remove(candidate.pod)
        del self._cells[candidate.pod]
        self._evenings.clear()
        if decision.accepted:
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

    def _by_promise(self) -> Iterator[tuple[MovePriority, EquivalentPods]]:
        """The cells that may help, with the most that they may change, best first."""
        found: list[tuple[MovePriority, EquivalentPods]] = []
        kinds: dict[_Kind, list[EquivalentPods]] = {}
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
                merit = MovePriority(float(bound[at]), self._view.pods[pod].rank, -int(fullness[at]), pod)
                found.append((merit, cells[at]))
        yield from sorted(found, key=lambda each: each[0])

    def _evening(self, constraint: Constraint) -> tuple[SpreadDeficit, Indexes]:
        if constraint not in self._evenings:
            evening = SpreadDeficit(constraint, self._bounds(constraint))
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

    def _changes(self, cell: EquivalentPods) -> Floats:
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

    def _best(self, cell: EquivalentPods) -> float:
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
            return view.feasible_targets(pod)
        if view.method(pod) is not Method.EVICT:
            return view.feasibility.mask(pod)
        with view.whatif.trial():
            view.whatif.remove(pod, int(view.at[pod]))
            return view.feasibility.mask(pod)

    def _candidate(self, cell: EquivalentPods, change: float) -> SpreadMove:
        changes, pod = self._changes(cell), cell.pods[0]
        fullness: Floats = np.zeros(len(changes))
        for constraint in cell.kind[1]:
            fullness += constraint.counts.at_nodes()
        cost = fullness * _EMPTIER + np.clip(self._view.cost(pod), -_MOST_HEAT, _MOST_HEAT)
        cost[changes != change] = np.inf
        return SpreadMove(pod, self._why(cell, int(cost.argmin())), cost)

    def _example(self) -> SpreadMove | None:
        """A move that would help and cannot be made: the planner tells people why the constraint stays broken."""
        if self._told:
            return None
        for _, cell in self._by_promise():
            changes = self._changes(cell)
            if changes.min() < 0:
                return self._candidate(cell, float(changes.min()))
        return None

    def _why(self, cell: EquivalentPods, target: int) -> str:
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
    found: Ints = np.where(view.node_mask(pod), np.maximum(fits, 0), 0)
    return found
