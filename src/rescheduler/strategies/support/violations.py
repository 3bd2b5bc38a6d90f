"""What the strategies about misplaced pods have in common: which pods they propose, and in which order.

NodeAffinity, NodeTaints and PodAntiAffinity find pods that stand where a rule forbids it. That has to be put right even
where a target is then above its thresholds, so they force.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rescheduler.model.snapshot import WorkloadKey
from rescheduler.planning.api import PodMove, Proposal, Proposals
from rescheduler.planning.columns import Indexes, Ints, Mask
from rescheduler.planning.matching import RuleIndex, Subjects, rule_owners, subjects_of
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.view import View
from rescheduler.strategies.support.settings import PodSelection

_ROOTED = ("DaemonSet", "Node")
"""Owners whose pods belong to their node: whether they stay there is for these alone to say."""


def pods_in_scope(view: View, pods: Indexes) -> Indexes:
    """Those of these pods that are on nodes in scope."""
    at = view.at[pods]
    found: Indexes = pods[(at >= 0) & view.scope[at]]
    return found


def may_propose(view: View, choice: PodSelection, pod: int) -> bool:
    """Whether a strategy with these filters has anything to say about the pod.

    Pods that are only expected on a node, that leave it anyway, or that belong to it are left out without a word.
    """
    row = view.pods[pod]
    if pod in view.moved or not row.node or row.deleting or (row.owner is not None and row.owner.kind in _ROOTED):
        return False
    return choice.matches(row)


def may_improve(view: View, choice: PodSelection, pod: int) -> bool:
    """The same for moves that only make something better: a whole pod group is not moved for the sake of one of it."""
    return may_propose(view, choice, pod) and len(view.groups.members(pod)) < 2


def sort_pods(view: View, pods: Iterable[int]) -> list[int]:
    """Lower priority first, then lower eviction cost, then the largest, while there is most room."""
    return sorted(pods, key=lambda pod: (view.pods[pod].rank, -view.share(pod, int(view.at[pod])).max(), pod))


def propose_until_stuck(pod_moves: Sequence[PodMove]) -> Proposals:
    """Propose each by itself; what found no target is tried again as long as others make room by leaving."""
    left, moved = list(pod_moves), True
    while left and moved:
        moved, waiting = False, []
        for pod_move in left:
            decision = yield Proposal((pod_move,))
            if decision.accepted:
                moved = True
            elif decision.exhausted:
                return
            elif decision.refused_by(PlanGuard.NO_TARGET):
                waiting.append(pod_move)
        left = waiting


_Rule = tuple[Subjects, str]


@dataclass(slots=True)
class AntiAffinityViolation:
    """One rule that is broken in one domain: each carrier keeps away from each pod that is meant, but itself."""

    rule: str
    rule_owners: set[int]
    meant: set[int]

    def sides(self, pod: int) -> list[set[int]]:
        """The pods that it keeps away from, and those that keep away from it; itself may be among them."""
        return [
            side for side, other in ((self.meant, self.rule_owners), (self.rule_owners, self.meant)) if pod in other
        ]

    def count(self, pod: int) -> int:
        """In how many conflicts the pod is; two pods that keep away from each other are in two."""
        return sum(len(side) - (pod in side) for side in self.sides(pod))

    def leave(self, pod: int) -> None:
        """The pod is moved away."""
        self.rule_owners.discard(pod)
        self.meant.discard(pod)


def find_violations(view: View) -> list[AntiAffinityViolation]:
    """Every clash of pods that are on nodes, those that are being deleted aside: they leave by themselves."""
    found: list[AntiAffinityViolation] = []
    carried = _carried(view)
    meant = _meant(view, carried)
    for (subjects, key), mine in carried.items():
        rule = f"pods with {subjects.selector}" if subjects.selector.requirements else "all pods"
        for bearing, shunned in _together(view, key, mine, meant.get((subjects, key), [])):
            stand, near = _staying(view, bearing), _staying(view, shunned)
            if stand and near and len(stand | near) > 1:
                found.append(AntiAffinityViolation(f"{rule} in the same {key}", stand, near))
    return found


def _carried(view: View) -> dict[_Rule, list[Indexes]]:
    """Every anti-affinity term in the cluster, with the pods that carry it."""
    found: dict[_Rule, list[Indexes]] = {}
    for carrier in rule_owners(view.columns, lambda shape: bool(shape.anti_affinity)):
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
        for rule in index.rules_for(namespace, labels):
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


_NOBODY = -1


class Replicas:
    """The pods of workloads; those that are being deleted don't count."""

    def __init__(self, view: View) -> None:
        self.keys: list[WorkloadKey]
        self.workload: Indexes
        """[P]: the number of each pod's workload; -1 for pods of nobody, of nodes, and those that leave."""
        self.workload, self.keys = _numbered(view)
        self._order = np.argsort(self.workload, kind="stable").astype(np.int32)
        self._starts = np.searchsorted(self.workload[self._order], np.arange(len(self.keys) + 1))
        self._hosts: dict[int, int] = {}

    def pods(self, workload: int) -> Indexes:
        """The workload's pods, wherever they are."""
        found: Indexes = self._order[self._starts[workload] : self._starts[workload + 1]]
        return found

    def crowds(self, view: View) -> list[int]:
        """The workloads of which a node in scope has more than one pod."""
        at, nodes = view.at, max(len(view.nodes), 1)
        here = np.flatnonzero((at >= 0) & (self.workload >= 0) & view.scope[at])
        pairs = self.workload[here].astype(np.int64) * nodes + at[here]
        found, counts = np.unique(pairs, return_counts=True)
        crowded: list[int] = np.unique(found[counts > 1] // nodes).tolist()
        return crowded

    def on_nodes(self, view: View, workload: int) -> Ints:
        """[N]: how many pods of the workload are on each node; none on nodes that are not in scope."""
        at = view.at[self.pods(workload)]
        found: Ints = np.bincount(at[(at >= 0) & view.scope[at]], minlength=len(view.nodes))
        return found

    def even_share(self, view: View, workload: int, on_nodes: Ints) -> int:
        """The most pods of the workload that a node has if they are as even as can be.

        Pods that it wants and has not got yet count, too: while one is replaced, the others are not too many.
        """
        pods = self.pods(workload)
        top = view.workloads.top(view.pods[int(pods[0])])
        wanted = top.replicas if top is not None and top.replicas is not None else 0
        missing = max(wanted - int((view.at[pods] >= 0).sum()), 0)
        return -(-(int(on_nodes.sum()) + missing) // max(self._could_run(view, workload), 1))

    def _could_run(self, view: View, workload: int) -> int:
        """How many open nodes in scope could run a pod of the workload, whatever room they have."""
        if workload not in self._hosts:
            pods = self.pods(workload)
            _, first = np.unique(view.columns.pod_shape[pods], return_index=True)
            reached: Mask = np.logical_or.reduce([view.node_mask(pod) for pod in pods[first].tolist()])
            self._hosts[workload] = int((view.open & reached).sum())
        return self._hosts[workload]


def _numbered(view: View) -> tuple[Indexes, list[WorkloadKey]]:
    """[P]: numbers of workloads in the order of their first pods; and their names."""
    numbers: dict[WorkloadKey, int] = {}
    known: dict[tuple[int, int], int] = {}  # siblings share these two objects, so that mostly nothing is compared
    found: list[int] = []
    for pod in view.pods:
        owner = pod.owner
        if owner is None or pod.deleting:
            found.append(_NOBODY)
            continue
        alike = (id(owner), id(pod.namespace))
        number = known.get(alike)
        if number is None:
            key = view.workloads.key(pod)
            number = known[alike] = _NOBODY if owner.kind in _ROOTED else numbers.setdefault(key, len(numbers))
        found.append(number)
    return np.array(found, np.int32).reshape(-1), list(numbers)
