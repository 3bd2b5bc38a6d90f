from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from rescheduler.model.plan import Method
from rescheduler.planning.api import PodMove, Proposal, ProposalResult, Proposals, Strategy
from rescheduler.planning.columns import Floats, Indexes, Ints, Mask
from rescheduler.planning.predicates.support.spread import Constraint, Constraints
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.view import View
from rescheduler.strategies.support.settings import PodFilters, PodSelection
from rescheduler.strategies.support.violations import pods_in_scope

# What a target is worth: how empty its domains are before how little the node is used, which is a percentage.
_EMPTIER, _MOST_HEAT = 1e4, 1e3


class TopologySpreadSettings(PodFilters):
    """Which constraints are restored: those of pods that the filters select. Only such pods are moved."""

    constraints: tuple[Literal["DoNotSchedule", "ScheduleAnyway"], ...] = Field(
        ("DoNotSchedule",),
        description="Which constraints are restored, by their `whenUnsatisfiable`: hard ones, soft ones or both.",
    )


class TopologySpread(Strategy[TopologySpreadSettings]):
    """Restores topology spread constraints that are violated: hard ones, and soft ones (`ScheduleAnyway`) on request.

    Pods are counted as kube-scheduler counts them (minDomains, matchLabelKeys, nodeAffinityPolicy, nodeTaintsPolicy). A
    pod moves only if that brings all constraints that count it together closer to holding. A move that improves two
    (one over zones, one over hostnames) comes before a move that improves one, and a move that breaks another
    constraint is never made. For a single constraint there is no plan with fewer moves. For several that depend on each
    other there hardly ever is; but moves are chosen one after the other, so a move may take room that another one
    needed. Among equals the lowest priority goes first, from the fullest domain to the emptiest, and to the least used
    node. A pod that may not move is passed over for another, and pods of pod groups stay. For a hard constraint a
    target may be above the thresholds when there is no other. No other strategy takes a violated constraint further
    from holding, nor makes a soft one, if those are enabled, more uneven beyond its maxSkew. Descheduler calls it
    RemovePodsViolatingTopologySpreadConstraint.
    """

    order = 210

    def propose(self, view: View) -> Proposals:
        """Restore one constraint after the other, hard ones and the most uneven first, until none improves."""
        spread, wanted = view.feasibility.spread, self.settings.constraints
        selection = PodSelection(self.settings, view)
        families: list[tuple[Constraints, ...]] = []
        if "DoNotSchedule" in wanted:
            families.append((spread.hard,))
        if "ScheduleAnyway" in wanted:
            families.append((spread.hard, spread.soft))
        for concerned in families:
            carried = _find_constraints(view, selection, concerned[-1])
            moved = True
            while moved:  # what one constraint's pods leave may make room for another's
                moved = False
                for constraint in _find_violated(view, carried):
                    repair = SpreadRepair(view, constraint, concerned, _movable_pods(view, selection, constraint))
                    while (pod_move := repair.next_move()) is not None:
                        result = yield Proposal((pod_move,))
                        if result.is_final:
                            return
                        repair.handle(result)
                        moved |= result.accepted

    def accepts(self, view: View, pod: int) -> Mask | None:
        """Return nodes where no constraint of the pod gets further from holding, or more uneven beyond maxSkew."""
        spread, wanted, node = view.feasibility.spread, self.settings.constraints, int(view.at[pod])
        found: Mask | None = None
        for family in (spread.hard, spread.soft):
            hard = family is spread.hard
            if ("DoNotSchedule" if hard else "ScheduleAnyway") not in wanted:
                continue
            for constraint in family.counting(pod):
                skew = constraint.skew()
                # A hard one that holds is feasibility's business.
                if (hard and skew <= constraint.max_skew) or not self.settings.selects(*constraint.subjects.namespaces):
                    continue
                mask: Mask = constraint.skew_after(node) <= max(constraint.max_skew, skew)
                if skew > constraint.max_skew:
                    mask &= self._no_further(view, constraint, node) & _no_fuller(constraint, node)
                found = mask if found is None else found & mask
        return found

    def _no_further(self, view: View, constraint: Constraint, node: int) -> Mask:
        """[N]: targets of a pod on this node that do not increase the moves that a constraint needs."""
        counts, here = constraint.counts, constraint.domain_of(node)
        known = self.keep(view, dict[Constraint, SpreadDeficit])
        if constraint not in known or not np.array_equal(known[constraint].counts, counts.counts):
            known[constraint] = SpreadDeficit(constraint)
        found: Mask = known[constraint].changes_from(here) <= 0
        return found | (counts.domain == here) if here >= 0 else found


def _no_fuller(constraint: Constraint, node: int) -> Mask:
    """[N]: targets that do not overfill a domain, unless the domain that the pod leaves is as full.

    If there is no room elsewhere, such a domain may only be restored by pods that leave it again.
    """
    counts, here = constraint.counts, constraint.domain_of(node)
    most = constraint.least() + constraint.max_skew
    if here >= 0:
        most = max(most, int(counts.counts[here]))
    found: Mask = (counts.at_nodes() < most) | (counts.domain == here)
    return found if counts.eligible is None else found | ~counts.eligible


def _find_constraints(view: View, selection: PodSelection, family: Constraints) -> list[Constraint]:
    """Return the constraints of pods that the strategy handles, in the snapshot's order."""
    found: dict[Constraint, None] = {}
    for owner in family.rule_owners():
        here = pods_in_scope(view, owner.pods)
        if len(here) and selection.matches(view.pods[int(here[0])]):  # the others look the same
            found.update(dict.fromkeys(constraint for constraint, _ in family.constraints_of(owner.pair)))
    return list(found)


def _movable_pods(view: View, selection: PodSelection, constraint: Constraint) -> list[int]:
    """Return the pods that a constraint counts and that the strategy may propose."""
    pods = pods_in_scope(view, view.feasibility.matching.staying_pods(constraint.subjects))
    eligible = constraint.counts.eligible
    counted: list[int] = (pods if eligible is None else pods[eligible[view.at[pods]]]).tolist()
    # A pod group moves as a whole, and its other pods may then count where there are too many already: it stays.
    return [pod for pod in counted if selection.may_improve(pod)]


def _find_violated(view: View, constraints: list[Constraint]) -> list[Constraint]:
    """Return the constraints that do not hold, with or without expected pods; the most uneven first."""
    broken = {constraint: over for constraint in constraints if (over := constraint.skew() - constraint.max_skew) > 0}
    with view.whatif.without_expected():
        found = [constraint for constraint in broken if constraint.skew() > constraint.max_skew]
    return sorted(found, key=lambda each: -broken[each])


class SpreadDeficit:
    """The moves that one constraint needs with its current counts; create a new one when a counted pod has moved.

    Counts are even enough when all domains are within a band of maxSkew: between some level and that much above it. The
    moves that takes are the pods missing below the band or too many above it, whichever is more; the best level counts.
    A single move changes that number by at most one, so lowering it with every move makes the fewest moves possible.
    Domains with the same count are alike, so everything goes by distinct counts: 5,000 nodes have few.
    """

    def __init__(self, constraint: Constraint, least: int = 0, most: int = 2**31) -> None:
        """Pods that stay give the band a lowest level, and domains without room a highest one."""
        self.constraint = constraint
        self.counts: Indexes = constraint.counts.counts.copy()
        counts = self.counts
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
        eligible, places = constraint.counts.eligible, place[constraint.counts.domain]
        self.places: Indexes = places if eligible is None else np.where(eligible, places, self._nowhere)
        """[N]: for each node the index of its domain's count in `change`."""
        self._compute(self._levels(least, most))

    def changes_from(self, domain: int) -> Floats:
        """[N]: the change of `need` by a move from this domain to each node."""
        found: Floats = self.change[self.place[domain]][self.places]
        return found

    def _levels(self, least: int, most: int) -> Ints:
        """Return where the band may begin; if the bounds leave no band for all pods, the nearest level to one."""
        total, domains = int((self._values * self._number).sum()), len(self.constraint.present)
        if domains < max(self.constraint.min_domains, 1):
            return np.zeros(1, np.int64)  # the emptiest domain counts as empty, whatever is in it
        first, last = max(0, -(-total // domains) - self.constraint.max_skew), total // domains
        first = min(max(first, least), last)
        last = min(last, most)
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


class MovePriority(NamedTuple):
    """The order of moves: most improvement, then low priority and eviction cost, then the fullest domains."""

    change: float
    rank: int
    emptiness: int
    first: int


@dataclass(slots=True, eq=False)
class EquivalentPods:
    """Pods of one shape in the same domains, low ranks first."""

    constraints: tuple[Constraint, ...]
    """Those that count them, the less important family last."""
    domains: tuple[int, ...]
    """The domain for each of the constraints; -1 where the pod does not count."""
    pods: list[int] = field(default_factory=list)
    hopeless: float = -np.inf
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
        self._deficits: dict[Constraint, SpreadDeficit] = {}
        self._offered: tuple[EquivalentPods, float]
        """The group whose first pod was proposed last, and the change that its move would make."""
        self._explained = False
        """Whether the plan already says why the constraint stays violated."""
        known: dict[tuple[int, tuple[Constraint, ...], tuple[int, ...]], EquivalentPods] = {}
        for pod in sorted(pods, key=lambda p: (view.pods[p].rank, p)):
            constraints = tuple(each for family in families for each in family.counting(pod))
            domains = tuple(each.domain_of(int(view.at[pod])) for each in constraints)
            kind = (int(view.columns.pod_shape[pod]), constraints, domains)
            known.setdefault(kind, EquivalentPods(constraints, domains)).pods.append(pod)
        self._all = list(known.values())
        self._room: Ints = _room(view, self._all[0].pods[0]) if self._all else np.zeros(len(view.nodes), np.int64)

    def next_move(self) -> PodMove | None:
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

    def handle(self, result: ProposalResult) -> None:
        """Learn from the planner's answer to the last move."""
        self._explained = True
        (group, change), view = self._offered, self._view
        if result.refused_by(PlanGuard.NO_TARGET) and not view.groups.members(group.pods[0]):
            group.hopeless = change
            return  # what no node takes, no node takes its look-alike from here either
        pod = group.pods.pop(0)
        self._deficits.clear()
        if result.accepted:
            source, target = int(view.columns.pod_at[pod]), int(view.at[pod])
            self._room[source] += 1
            self._room[target] -= 1
            for each in self._all:
                each.hopeless = -np.inf

    def _by_promise(self) -> Iterator[tuple[MovePriority, EquivalentPods]]:
        """Yield groups of pods that may help, by the largest possible improvement, best first."""
        found: list[tuple[MovePriority, EquivalentPods]] = []
        alike: dict[tuple[Constraint, ...], list[EquivalentPods]] = {}
        for group in self._all:
            if group.pods:
                alike.setdefault(group.constraints, []).append(group)
        for constraints, groups in alike.items():
            domains: Ints = np.array([group.domains for group in groups]).T
            bound, fullness = np.zeros(len(groups)), np.zeros(len(groups), np.int64)
            for constraint, of_groups in zip(constraints, domains, strict=True):
                deficit = self._deficit(constraint)
                bound += np.minimum(deficit.change.min(axis=1), 0.0)[deficit.place[of_groups]]
                fullness += constraint.counts.counts[of_groups]
            for at in np.flatnonzero(bound < 0).tolist():
                pod = groups[at].pods[0]
                merit = MovePriority(float(bound[at]), self._view.pods[pod].rank, -int(fullness[at]), pod)
                found.append((merit, groups[at]))
        yield from sorted(found, key=lambda each: each[0])

    def _deficit(self, constraint: Constraint) -> SpreadDeficit:
        if constraint not in self._deficits:
            self._deficits[constraint] = SpreadDeficit(constraint, *self._bounds(constraint))
        return self._deficits[constraint]

    def _bounds(self, constraint: Constraint) -> tuple[int, int]:
        """Return the limits of the band: of domains that no pod can leave, or come to, any more."""
        counts, present = constraint.counts, constraint.present
        usable = counts.domain >= 0 if counts.eligible is None else counts.eligible
        room = np.bincount(counts.domain[usable], self._room[usable], len(counts.counts))
        most = int((counts.counts + room)[present].min(initial=2**31))
        if constraint is not self._constraint:
            return 0, most
        staying = counts.counts.copy()
        for group in self._all:
            staying[group.domains[group.constraints.index(constraint)]] -= len(group.pods)
        return int(staying[present].max(initial=0)) - constraint.max_skew, most

    def _changes(self, group: EquivalentPods) -> Floats:
        """[N]: the change of the moves needed by all constraints if one of the pods goes there; less is better."""
        total: Floats = np.zeros(len(self._view.nodes))
        worse: Mask | None = None
        important = len(self._families) > 1 and {*self._families[0].counting(group.pods[0])}
        for constraint, domain in zip(group.constraints, group.domains, strict=True):
            change = self._deficit(constraint).changes_from(domain)
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

    def _candidate(self, group: EquivalentPods, change: float) -> PodMove:
        changes, pod = self._changes(group), group.pods[0]
        fullness: Floats = np.zeros(len(changes))
        for constraint in group.constraints:
            fullness += constraint.counts.at_nodes()
        cost = fullness * _EMPTIER + np.clip(self._view.cost(pod), -_MOST_HEAT, _MOST_HEAT)
        cost[changes != change] = np.inf
        self._offered = group, change
        return PodMove(pod, self._why(group, int(cost.argmin())), cost, force=len(self._families) == 1)

    def _example(self) -> PodMove | None:
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
        for constraint, domain in zip(group.constraints, group.domains, strict=True):
            apart = constraint.counts.domain[target] != domain
            if domain >= 0 and apart and self._deficit(constraint).changes_from(domain)[target] < 0:
                parts.append(self._describe(constraint, domain))
        if not parts:  # what it mends does not count the pod where it is
            parts.append(self._describe(self._constraint, group.domains[group.constraints.index(self._constraint)]))
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
