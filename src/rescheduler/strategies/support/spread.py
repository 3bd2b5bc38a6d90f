"""How many moves a spread constraint is away from holding, which moves repair it, and which comes first.

Counts are even enough when all domains are within a band of maxSkew: between some level and that much above it. The
moves that takes are the pods missing below the band or too many above it, whichever is more; the best level counts. A
single move changes that number by at most one, so lowering it with every move makes the fewest moves possible. Domains
with the same count are alike, so everything goes by distinct counts: 5,000 nodes have few.
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
    """Limits of the band: its lowest level, because of pods that stay, and its highest, for want of room."""

    least: int = 0
    most: int = 2**31


class SpreadDeficit:
    """The moves that one constraint needs with its current counts; create a new one when a counted pod has moved."""

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
        """By domain (-1 for none) the index of its count in `change`."""
        self.change: Floats
        """[V+1, V+1]: the change of `need` by a move from a domain of one count to a domain of another count."""
        self.need: float
        """The fewest moves after which the constraint holds, judged by counts and bounds."""
        self._compute(self._levels(bounds))

    def places(self) -> Indexes:
        """[N]: for each node the index of its domain's count in `change`."""
        counts = self.constraint.counts
        found = self.place[counts.domain]
        return found if counts.eligible is None else np.where(counts.eligible, found, self._nowhere)

    def _levels(self, bounds: Bounds) -> Ints:
        """Return where the band may begin; if the bounds leave no band for all pods, the nearest level to one."""
        total, domains = int((self._values * self._number).sum()), len(self.constraint.present)
        if domains < max(self.constraint.min_domains, 1):
            return np.zeros(1, np.int64)  # the emptiest domain counts as empty, whatever is in it
        first, last = max(0, -(-total // domains) - self.constraint.max_skew), total // domains
        first = min(max(first, bounds.least), last)
        last = min(last, bounds.most)
        return np.arange(min(first, last), last + 1)

    def _compute(self, level: Ints) -> None:
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
    """A pod, why it should move, and the cost of each target."""

    pod: int
    why: str
    cost: Floats


class MovePriority(NamedTuple):
    """The order of moves: most improvement, then low priority and eviction cost, then the fullest domains."""

    change: float
    rank: int
    emptiness: int
    first: int


class EquivalentPods:
    """Pods of one kind in the same domains, low ranks first."""

    __slots__ = ("domains", "hopeless", "kind", "pods")

    def __init__(self, kind: _Kind, domains: tuple[int, ...]) -> None:
        self.kind = kind
        self.domains = domains
        """The domain for each of the constraints; -1 where the pod does not count."""
        self.pods: list[int] = []
        self.hopeless = -np.inf
        """Targets with this change or less were tried in vain."""


class SpreadRepair:
    """Finds the moves that one constraint needs."""

    def __init__(
        self, view: View, constraint: Constraint, families: Sequence[Constraints], pods: Iterable[int]
    ) -> None:
        self._view = view
        self._constraint = constraint
        self._families = families
        """The family of the constraint is the last; those before it must not get worse."""
        self._deficits: dict[Constraint, tuple[SpreadDeficit, Indexes]] = {}
        self._groups: dict[int, EquivalentPods] = {}
        """The group of each pod that may still be proposed."""
        self._explained = False
        """Whether the plan already says why the constraint stays violated."""
        known: dict[tuple[_Kind, tuple[int, ...]], EquivalentPods] = {}
        for pod in sorted(pods, key=lambda p: (view.pods[p].rank, p)):
            place = self._place(pod)
            group = known.setdefault(place, EquivalentPods(*place))
            group.pods.append(pod)
            self._groups[pod] = group
        self._all = list(known.values())
        self._room: Ints = (
            _room(view, next(iter(self._groups))) if self._groups else np.zeros(len(view.nodes), np.int64)
        )

    def next_move(self) -> SpreadMove | None:
        """Return the best move now; None when no move helps."""
        if self._constraint.skew() <= self._constraint.max_skew:
            return None
        judged: list[tuple[MovePriority, EquivalentPods]] = []
        for bound, group in self._by_promise():
            # What a group is worth in truth may be less than what the next one promises.
            if judged and min(judged, key=lambda each: each[0])[0] < bound:
                break
            change = self._best(group)
            if change < 0:
                judged.append((bound._replace(change=change), group))
        if not judged:
            return self._example()
        merit, group = min(judged, key=lambda each: each[0])
        return self._candidate(group, merit.change)

    def handle(self, candidate: SpreadMove, result: ProposalResult) -> None:
        """Learn from the planner's answer to a move."""
        self._explained = True
        group = self._groups[candidate.pod]
        if result.refused_by(PlanGuard.NO_TARGET) and not self._in_pod_group(candidate.pod):
            group.hopeless = float(self._changes(group)[np.isfinite(candidate.cost)].max())
            return  # what no node takes, no node takes its look-alike from here either
        group.pods.remove(candidate.pod)
        del self._groups[candidate.pod]
        self._deficits.clear()
        if result.accepted:
            source, target = int(self._view.columns.pod_at[candidate.pod]), int(self._view.at[candidate.pod])
            self._room[source] += 1
            self._room[target] -= 1
            for each in self._all:
                each.hopeless = -np.inf

    def _in_pod_group(self, pod: int) -> bool:
        return bool(self._view.groups.members(pod))

    def _place(self, pod: int) -> tuple[_Kind, tuple[int, ...]]:
        node = int(self._view.at[pod])
        constraints = tuple(each for family in self._families for each in family.counting(pod))
        domains = tuple(each.domain_of(node) for each in constraints)
        return (int(self._view.columns.pod_shape[pod]), constraints), domains

    def _by_promise(self) -> Iterator[tuple[MovePriority, EquivalentPods]]:
        """Yield groups of pods that may help, by the largest possible improvement, best first."""
        found: list[tuple[MovePriority, EquivalentPods]] = []
        kinds: dict[_Kind, list[EquivalentPods]] = {}
        for group in self._all:
            if group.pods:
                kinds.setdefault(group.kind, []).append(group)
        for (_, constraints), groups in kinds.items():
            domains: Ints = np.array([group.domains for group in groups]).T
            bound, fullness = np.zeros(len(groups)), np.zeros(len(groups), np.int64)
            for constraint, of_groups in zip(constraints, domains, strict=True):
                deficit, _ = self._deficit(constraint)
                bound += np.minimum(deficit.change.min(axis=1), 0.0)[deficit.place[of_groups]]
                fullness += constraint.counts.counts[of_groups]
            for at in np.flatnonzero(bound < 0).tolist():
                pod = groups[at].pods[0]
                merit = MovePriority(float(bound[at]), self._view.pods[pod].rank, -int(fullness[at]), pod)
                found.append((merit, groups[at]))
        yield from sorted(found, key=lambda each: each[0])

    def _deficit(self, constraint: Constraint) -> tuple[SpreadDeficit, Indexes]:
        if constraint not in self._deficits:
            deficit = SpreadDeficit(constraint, self._bounds(constraint))
            self._deficits[constraint] = (deficit, deficit.places())
        return self._deficits[constraint]

    def _bounds(self, constraint: Constraint) -> Bounds:
        """Return the limits of domains that no pod can leave, or come to, any more."""
        counts, present = constraint.counts, constraint.present
        usable = counts.domain >= 0 if counts.eligible is None else counts.eligible
        room = np.bincount(counts.domain[usable], self._room[usable], len(counts.counts))
        most = int((counts.counts + room)[present].min(initial=2**31))
        if constraint is not self._constraint:
            return Bounds(most=most)
        staying = counts.counts.copy()
        for group in self._all:
            staying[group.domains[group.kind[1].index(constraint)]] -= len(group.pods)
        return Bounds(int(staying[present].max(initial=0)) - constraint.max_skew, most)

    def _changes(self, group: EquivalentPods) -> Floats:
        """[N]: the change of the moves needed by all constraints if one of the pods goes there; less is better."""
        total: Floats = np.zeros(len(self._view.nodes))
        worse: Mask | None = None
        important = len(self._families) > 1 and {*self._families[0].counting(group.pods[0])}
        for constraint, domain in zip(group.kind[1], group.domains, strict=True):
            deficit, places = self._deficit(constraint)
            change = deficit.change[deficit.place[domain]][places]
            if domain >= 0:
                change[constraint.counts.domain == domain] = 0.0
            if important and constraint in important:
                worse = change > 0 if worse is None else worse | (change > 0)
            else:
                total += change
        if worse is not None:
            total[worse] = np.inf
        return total

    def _best(self, group: EquivalentPods) -> float:
        """Return the largest improvement of a move that is feasible now."""
        changes = self._changes(group)
        helpful = (changes < 0) & (changes > group.hopeless)
        if helpful.any():
            helpful &= self._feasible(group.pods[0])
        return float(changes[helpful].min()) if helpful.any() else 0.0

    def _feasible(self, pod: int) -> Mask:
        """[N]: feasible targets of the pod; above the thresholds too, for a hard constraint."""
        view = self._view
        if len(self._families) > 1:
            return view.feasible_targets(pod)
        if view.method(pod) is not Method.EVICT:
            return view.feasibility.mask(pod)
        with view.whatif.trial():
            view.whatif.remove(pod, int(view.at[pod]))
            return view.feasibility.mask(pod)

    def _candidate(self, group: EquivalentPods, change: float) -> SpreadMove:
        changes, pod = self._changes(group), group.pods[0]
        fullness: Floats = np.zeros(len(changes))
        for constraint in group.kind[1]:
            fullness += constraint.counts.at_nodes()
        cost = fullness * _EMPTIER + np.clip(self._view.cost(pod), -_MOST_HEAT, _MOST_HEAT)
        cost[changes != change] = np.inf
        return SpreadMove(pod, self._why(group, int(cost.argmin())), cost)

    def _example(self) -> SpreadMove | None:
        """Return a move that would help but is not feasible, so that the plan says what stays violated."""
        if self._explained:
            return None
        for _, group in self._by_promise():
            changes = self._changes(group)
            if changes.min() < 0:
                return self._candidate(group, float(changes.min()))
        return None

    def _why(self, group: EquivalentPods, target: int) -> str:
        """Describe the constraints that a move to this target improves."""
        parts: list[str] = []
        for constraint, domain in zip(group.kind[1], group.domains, strict=True):
            deficit, places = self._deficit(constraint)
            apart = constraint.counts.domain[target] != domain
            if domain >= 0 and apart and deficit.change[deficit.place[domain], places[target]] < 0:
                parts.append(self._describe(constraint, domain))
        if not parts:  # what it mends does not count the pod where it is
            parts.append(self._describe(self._constraint, group.domains[group.kind[1].index(self._constraint)]))
        return f"spread over {' and over '.join(parts)}"

    def _describe(self, constraint: Constraint, domain: int) -> str:
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
    """[N]: how many such pods fit by resources and the node's own rules."""
    asked = view.columns.requests(pod)
    some = asked > 0
    fits = (view.whatif.free[some] // asked[some, None]).min(axis=0)
    found: Ints = np.where(view.node_mask(pod), np.maximum(fits, 0), 0)
    return found
