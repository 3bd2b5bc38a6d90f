"""TopologySpread: restore topology spread constraints with the fewest moves."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import Field

from rescheduler.planning.api import Proposal, Proposals, Strategy
from rescheduler.planning.columns import Columns, Indexes, Mask
from rescheduler.planning.predicates.support.spread import Constraint, Constraints
from rescheduler.planning.settings import StrategySettings
from rescheduler.planning.view import View
from rescheduler.strategies.support.settings import PodFilters, PodSelection
from rescheduler.strategies.support.spread import Bounds, SpreadDeficit, SpreadRepair
from rescheduler.strategies.support.violations import may_propose, pods_in_scope


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

    name: ClassVar[str] = "TopologySpread"
    order: ClassVar[int] = 210
    settings_type: ClassVar[type[StrategySettings]] = TopologySpreadSettings

    def __init__(self, settings: TopologySpreadSettings, pool: str | None = None) -> None:
        super().__init__(settings, pool)
        self._deficits: WeakKeyDictionary[Columns, dict[Constraint, _CachedDeficit]] = WeakKeyDictionary()

    def propose(self, view: View) -> Proposals:
        """Restore one constraint after the other, hard ones and the most uneven first, until none improves."""
        spread, wanted, selection = (
            view.feasibility.spread,
            self.settings.constraints,
            PodSelection(self.settings, view),
        )
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
                    while (candidate := repair.next_move()) is not None:
                        result = yield Proposal.one(*candidate, force=len(concerned) == 1)
                        if result.is_final:
                            return
                        repair.handle(candidate, result)
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
                if (hard and skew <= constraint.max_skew) or not self._cares_for(*constraint.subjects.namespaces):
                    continue
                mask: Mask = constraint.skew_after(node) <= max(constraint.max_skew, skew)
                if skew > constraint.max_skew:
                    mask &= self._no_further(view, constraint, node) & _no_fuller(constraint, node)
                found = mask if found is None else found & mask
        return found

    def _no_further(self, view: View, constraint: Constraint, node: int) -> Mask:
        """[N]: targets of a pod on this node that do not increase the moves that a constraint needs."""
        counts, here = constraint.counts, constraint.domain_of(node)
        known = self._deficits.setdefault(view.columns, {})
        if constraint not in known or not np.array_equal(known[constraint].counts, counts.counts):
            deficit = SpreadDeficit(constraint, Bounds())
            known[constraint] = _CachedDeficit(counts.counts.copy(), deficit, deficit.places())
        _, deficit, places = known[constraint]
        found: Mask = deficit.change[deficit.place[here]][places] <= 0
        return found | (counts.domain == here) if here >= 0 else found

    def _cares_for(self, namespace: str) -> bool:
        wanted = self.settings
        return namespace not in wanted.excluded_namespaces and (not wanted.namespaces or namespace in wanted.namespaces)


class _CachedDeficit(NamedTuple):
    """What would even out a constraint with these counts, and each node's place in it."""

    counts: Indexes
    deficit: SpreadDeficit
    places: Indexes


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
    return [pod for pod in counted if len(view.groups.members(pod)) < 2 and may_propose(view, selection, pod)]


def _find_violated(view: View, constraints: list[Constraint]) -> list[Constraint]:
    """Return the constraints that do not hold, with or without expected pods; the most uneven first."""
    broken = {constraint: over for constraint in constraints if (over := constraint.skew() - constraint.max_skew) > 0}
    with view.whatif.without_expected():
        found = [constraint for constraint in broken if constraint.skew() > constraint.max_skew]
    return sorted(found, key=lambda each: -broken[each])
