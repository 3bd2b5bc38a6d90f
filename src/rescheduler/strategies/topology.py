from __future__ import annotations

from collections.abc import Generator
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field

from rescheduler.model.selector import SelectorError, check_key
from rescheduler.planning.api import PodMove, Proposal, ProposalResult, Proposals, Strategy
from rescheduler.planning.columns import Indexes, Ints, Mask
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.view import View
from rescheduler.planning.workloads import belongs_to_node
from rescheduler.strategies.support.settings import PodFilters, PodSelection

# How many domains are proposed for a group, which the planner may all refuse.
_TRIED = 8
# How many places are looked for in rehearsals of one plan; groups that come later go by the planner's own choice. It is
# counted and not timed, so that the same input gives the same plan.
_STEPS = 20_000
# Guards that count moves, of the plan or of the group's namespace.
_LIMITS = (
    PlanGuard.MAX_RESCHEDULE_PODS,
    PlanGuard.NAMESPACE_LIMIT,
    PlanGuard.MOVES_PER_HOUR,
    PlanGuard.MOVES_PER_HOUR_PER_NAMESPACE,
)
# Less than any node costs: the node that the rehearsal chose comes before the others of its domain.
_CHOSEN = -1e9


def _check_key(key: str) -> str:
    try:
        check_key(key)
    except SelectorError as error:
        raise ValueError(str(error)) from error
    return key


class TopologySettings(PodFilters):
    """Which pods belong together, and in what kind of domain."""

    group_label: Annotated[str, AfterValidator(lambda key: _check_key(key) if key else key)] = Field(
        "",
        description=(
            "The label whose value names the group of a pod, within its namespace, such as `job-name`. "
            "Nothing is moved without it."
        ),
    )
    topology_key: Annotated[str, AfterValidator(_check_key)] = Field(
        "topology.kubernetes.io/zone",
        description="The node label whose value names the zone, rack or other domain.",
    )


class Topology(Strategy[TopologySettings]):
    """Brings the pods of each group into one zone, rack or other domain of the nodes' `topologyKey`.

    Pods that exchange much data, such as those of a training job or of a sharded database, are faster and cheaper side
    by side. A group is all pods of a namespace with the same value of the label `groupLabel`. If its pods are in
    several domains, they move into one of them: of the domains where the whole group fits under the thresholds, the one
    that takes the fewest moves, and among equals the one with most room. They move all together or not at all; a group
    that fits nowhere stays, and the plan says why. DaemonSet pods belong to their nodes and to no group.

    No other strategy then moves a pod of a group that is together to another domain, unless it must.
    """

    order = 220

    def propose(self, view: View) -> Proposals:
        """Handle one group after the other, lower priority and eviction cost first."""
        if not self.settings.group_label:
            return
        groups = self.keep(view, lambda: _Groups(view, self.settings))
        here = ((key, pods) for key, pods in groups.of_group.items() if view.scope[view.at[list(pods)]].any())
        apart = [key for key, pods in here if not groups.together(view, pods)]
        steps_left = _STEPS
        for key in sorted(apart, key=lambda each: (min(view.pods[p].rank for p in groups.of_group[each]), each)):
            gathering = _Gathering(view, groups, key, steps_left)
            exhausted = yield from gathering.propose()
            if exhausted:
                return
            steps_left = gathering.steps_left

    def idle_reason(self, now: float | None) -> str:
        """Return why nothing is done without a label: there are no groups."""
        return "" if self.settings.group_label else "it has no groupLabel (strategies.Topology.groupLabel)"

    def accepts(self, view: View, pod: int) -> Mask | None:
        """Return the domain of the pod's group, if the group is together."""
        if not self.settings.group_label:
            return None
        groups = self.keep(view, lambda: _Groups(view, self.settings))
        group = groups.group.get(pod)
        if group is None or len(pods := groups.of_group[group]) < 2 or not groups.together(view, pods):
            return None
        found: Mask = groups.domains == groups.domains[view.at[pod]]
        return found


_Group = tuple[str, str]
"""Namespace, and the value of the group's label."""


class _Groups:
    """The groups of a cluster."""

    def __init__(self, view: View, settings: TopologySettings) -> None:
        self.label, self.topology = settings.group_label, settings.topology_key
        self.domains: Indexes = view.columns.domains(settings.topology_key)
        """[N]: the number of each node's domain; -1 for none."""
        selection = PodSelection(settings, view)
        found: dict[_Group, list[int]] = {}
        for number, (namespace, labels) in enumerate(view.columns.groups):
            if value := labels.get(self.label):
                pods: list[int] = view.columns.pods_of_group(number).tolist()
                found.setdefault((namespace, value), []).extend(p for p in pods if _belongs(view, selection, p))
        self.of_group = {key: tuple(sorted(pods)) for key, pods in found.items() if pods}
        """The pods of each group, in the snapshot's order."""
        self.group = {pod: key for key, pods in self.of_group.items() for pod in pods}

    def together(self, view: View, pods: tuple[int, ...]) -> bool:
        """Whether these pods are all in one domain."""
        found = self.domains[view.at[list(pods)]]
        return bool((found == found[0]).all()) and (len(pods) < 2 or bool(found[0] >= 0))


def _belongs(view: View, selection: PodSelection, pod: int) -> bool:
    """Whether a pod counts for its group: not if it is only expected, is leaving, or belongs to the node."""
    row = view.pods[pod]
    stays = row.deleting or belongs_to_node(row)
    return view.at[pod] >= 0 and bool(row.node) and not stays and selection.matches(row)


class _Gathering:
    """One group that is apart, and the domains where it could come together."""

    def __init__(self, view: View, groups: _Groups, key: _Group, steps_left: int) -> None:
        self._view = view
        self._groups = groups
        self.steps_left = steps_left
        """The steps left for rehearsals."""
        self._pods = groups.of_group[key]
        self._of = dict(zip(self._pods, groups.domains[view.at[list(self._pods)]].tolist(), strict=True))
        self._values = view.columns.domain_values(groups.topology)
        self._stuck_domains = {self._of[pod] for pod in self._pods if self._stays(pod)}
        """The domains of those that cannot move."""
        self.name = f"group {key[1]} ({groups.label})"

    def _sort_domains(self) -> list[int]:
        """Return domains with enough room in sum: the fewest moves first, then the most room, then by name."""
        view = self._view
        usable = np.logical_or.reduce([view.node_mask(pod) for pod in self._of]) & (self._groups.domains >= 0)
        free = np.maximum(view.limit - view.used, 0)[:, usable]
        room = np.array([np.bincount(self._groups.domains[usable], row, len(self._values)) for row in free])
        here = {domain: self._movers(domain) for domain in {*self._of.values()} - {-1}}
        anywhere = self._movers(None)
        moves = np.full(len(self._values), len(anywhere))
        requested = np.tile(self._requests(anywhere)[:, None], len(self._values))
        for domain, pods in here.items():
            moves[domain], requested[:, domain] = len(pods), self._requests(pods)
        fits = (requested <= room).all(axis=0)
        spare = np.where(requested > 0, room / np.maximum(requested, 1), np.inf).min(axis=0)
        ranked = [
            (int(moves[domain]), -float(spare[domain]), self._values[domain], int(domain))
            for domain in np.flatnonzero(fits)
            if self._stuck_domains <= {int(domain)}
        ]
        return [domain for *_, domain in sorted(ranked)]

    def _requests(self, pods: list[int]) -> Ints:
        """[R]: the sum of these pods' requests."""
        found: Ints = np.sum([self._view.requests(pod) for pod in pods], axis=0)
        return found

    def _stays(self, pod: int) -> bool:
        view = self._view
        return pod in view.moved or not view.scope[view.at[pod]] or view.objection(pod) is not None

    def _movers(self, domain: int | None) -> list[int]:
        """Return the pods that have to move, the largest first: those elsewhere, and the pods of their pod groups.

        Without a domain: the moves into a domain that has none of them.
        """
        found = {pod for pod in self._pods if self._of[pod] != domain}
        found.update(other for pod in list(found) for other in self._view.groups.members(pod))
        return sorted(found, key=lambda pod: (-self._view.requests(pod).max(), pod))

    def _proposal(self, domain: int, *, rehearsed: bool) -> Proposal | None:
        """Return all moves into a domain; None if a rehearsal shows that the group does not fit there."""
        pods = self._movers(domain)
        targets = self._rehearse(pods, domain) if rehearsed else {}
        if targets is None:
            return None
        inside = sum(of == domain for of in self._of.values())
        value = self._values[domain]
        why = (
            f"{self.name} comes together in {value} ({self._groups.topology}), "
            f"which has {inside} of its {len(self._pods)} pods"
        )
        pod_moves: list[PodMove] = []
        for pod in pods:
            cost = self._view.cost(pod).copy()
            cost[self._groups.domains != domain] = np.inf
            if pod in targets:
                cost[targets[pod]] = _CHOSEN
            pod_moves.append(PodMove(pod, why, cost))
        where = f"in {value}" if rehearsed else f"in any {self._groups.topology}, such as {value}"
        return Proposal(tuple(pod_moves), otherwise=f"{self.name} cannot come together {where}")

    def _rehearse(self, pods: list[int], domain: int) -> dict[int, int] | None:
        """Return a node for each pod, placed one after the other as the planner would; None if one has none."""
        view = self._view
        found: dict[int, int] = {}
        with view.whatif.trial():
            for pod in pods:
                self.steps_left -= 1
                mask = view.feasible_targets(pod) & (self._groups.domains == domain)
                if not mask.any():
                    return None
                found[pod] = int(np.where(mask, view.cost(pod), np.inf).argmin())
                source = int(view.at[pod])
                view.whatif.place(pod, found[pod])
                view.whatif.remove(pod, source)
        return found

    def propose(self) -> Generator[Proposal, ProposalResult, bool]:
        """Propose one domain after the other; return whether the plan is full."""
        left, tried = self._view.moves_left, 0
        for domain in self._sort_domains():
            too_many = left is not None and len(self._movers(domain)) > left
            proposal = self._proposal(domain, rehearsed=not too_many and self.steps_left > 0)
            if proposal is None:
                continue
            tried += 1
            result = yield proposal
            if result.accepted or result.exhausted:
                return not result.accepted
            if too_many or tried == _TRIED or result.refused_by(*_LIMITS):
                return False  # the domains that follow take as many moves, or more
        if not tried and (example := self._example()) is not None:
            yield example
        return False

    def _example(self) -> Proposal | None:
        """Return a proposal that cannot be accepted, so that the planner says why the group stays apart."""
        near = self._stuck_domains if len(self._stuck_domains) == 1 else {*self._of.values()}
        nearest = min(near - {-1}, key=lambda domain: (len(self._movers(domain)), self._values[domain]), default=None)
        # The planner does not know whose nodes are whose: it would take pods from nodes that are not ours.
        if nearest is None or not self._view.scope[self._view.at[self._movers(nearest)]].all():
            return None
        return self._proposal(nearest, rehearsed=False)
