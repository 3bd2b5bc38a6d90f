"""Makes a plan: lets strategies propose, decides on each proposal, and lays accepted moves into the what-if."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from rescheduler.model.labels import LEAST, MOST, invalid_costs
from rescheduler.model.objects import Pod
from rescheduler.model.plan import Method, Move, Plan, Rejection
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.strategy_traits import is_for_gain, is_mandatory
from rescheduler.planning.api import PodMove, Proposal, ProposalResult, Strategy
from rescheduler.planning.budgets import FIELD, Budgets, DisruptionHeadroom, HourlyLimit
from rescheduler.planning.columns import Columns, Floats, Mask
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.gain import MoveSide, gain_of
from rescheduler.planning.guards import first_objection, objection_to_removal
from rescheduler.planning.guards.base import GuardContext
from rescheduler.planning.load import Load
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.settings import StrategySettings
from rescheduler.planning.targets import TargetFinder, TargetRanking
from rescheduler.planning.thresholds import NodeThresholds, counted_resources, make_picture
from rescheduler.planning.view import PodGroups, View
from rescheduler.planning.whatif import WhatIf

_NAMED = 3  # pods of one template mostly have the same mistake


def input_warnings(snapshot: ClusterSnapshot, columns: Columns) -> list[str]:
    """Warn of each missing kind that a check would need, and of each eviction cost that is not a number."""
    found: list[str] = []
    if "PodDisruptionBudget" not in snapshot.kinds:
        found.append("the input has no PodDisruptionBudget: if the cluster has any, their headroom is not checked")
    owners = {owner.kind for owner in {id(pod.owner): pod.owner for pod in snapshot.pods}.values() if owner is not None}
    uncounted = sorted(owners & {"ReplicaSet", "StatefulSet"} - snapshot.kinds)
    found.extend(f"the input has no {kind}s: replicas are counted by their pods" for kind in uncounted)
    if "ReplicaSet" in owners and "Deployment" not in snapshot.kinds:
        found.append("the input has no Deployments: the strategy Recreate is not seen")
    by_namespace = [
        term
        for shape in columns.shapes
        for term in (*shape.affinity, *shape.anti_affinity)
        if term.namespace_selector is not None and term.namespace_selector.requirements
    ]
    if by_namespace and "Namespace" not in snapshot.kinds:
        found.append("the input has no Namespaces: namespace selectors see only the names of namespaces")
    claiming = any(shape.claims for shape in columns.shapes)
    for kind, check in (
        ("StorageClass", "unbound claims keep their pods where they are"),
        ("CSINode", "attach limits of volumes are not checked"),
    ):
        if claiming and kind not in snapshot.kinds:
            found.append(f"the input has no {kind}s: {check}")
    if snapshot.taken_at is None and bool(np.any(columns.pod_at >= 0)):
        found.append("the input does not say when it was taken: minPodAge and coolDown are not checked (give --now)")
    return found + _unclear_costs(snapshot)


def unknown_resources(snapshot: ClusterSnapshot, policy: Policy) -> Iterator[str]:
    """Warn of each resource that has a threshold and that no node has: mostly its name is wrong."""
    had = {name for node in snapshot.nodes for name, _ in node.allocatable}
    seen: set[str] = set()
    for field, name in _with_thresholds(policy):
        if name not in had and name not in seen:
            seen.add(name)
            near = difflib.get_close_matches(name, had, n=1)
            meant = f", did you mean {near[0]}?" if near else ": it is ignored"
            yield f"{field} names {name}, which no node has{meant}"


def _with_thresholds(policy: Policy) -> Iterator[tuple[str, str]]:
    """Find fields and resources with thresholds, except CPU and memory; pools inherit those of the top level."""
    yield from (("thresholds", name) for name, _ in policy.node_thresholds.others)
    for pool in policy.node_pools:
        yield from ((f"thresholds of pool {pool.name}", name) for name, _ in pool.thresholds.others)


def _unclear_costs(snapshot: ClusterSnapshot) -> list[str]:
    wrong: dict[str, list[str]] = {}
    for pod in snapshot.pods:
        if pod.annotations:
            for mark, text in invalid_costs(pod.annotations):
                wrong.setdefault(mark, []).append(f"{pod.full_name} ({text[:40]!r})")
    return [
        f"annotation {mark} is ignored, because it is not a whole number from {LEAST} to {MOST}: "
        + ", ".join(pods[:_NAMED])
        + (f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else "")
        for mark, pods in sorted(wrong.items())
    ]


_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class _Placed:
    """A move that is part of the what-if."""

    pod: int
    source: int
    target: int
    method: Method
    spent: bool = True
    """Whether it spent budgets; a move that is only changed has spent them already."""


class Planner:
    """Plans one cycle."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.columns = Columns(snapshot)
        self.whatif = WhatIf(self.columns)
        self.feasibility = Feasibility(self.whatif)
        self.load = Load(self.whatif, policy.utilization, counted_resources(policy))
        self.levels = NodeThresholds(self.columns, policy, self.load)
        self.guard_context = GuardContext(policy, snapshot)
        self.workloads = self.guard_context.workloads
        self.groups = PodGroups(self.columns, policy.group_labels)
        self.budgets = Budgets(policy, len(snapshot.nodes))
        self.moved: set[int] = set()
        """Pods that the plan moves; they are not moved again."""
        self._views: dict[str | None, View] = {}
        self.view = self.view_of(None)
        self._ranking = TargetRanking(self.columns, self.view, self.feasibility.node_masks)
        self.whatif.add_listener(self._ranking)
        self._disruption = DisruptionHeadroom(snapshot, self.workloads)
        self._hours = HourlyLimit(snapshot, policy.when.moves_per_hour_per_namespace)
        self.targets = TargetFinder(self.feasibility, self.view, self._ranking, self.budgets)
        self._moves: list[Move] = []
        self.reasons: dict[int, tuple[str, str]] = {}
        """For each pod that is moved: the strategy that proposed it first, and its reason."""
        self.rejections: dict[int, Rejection] = {}
        self.removed: dict[int, tuple[str, PodMove]] = {}
        """The pods that are removed: the strategy that proposed it, and its PodMove."""
        self._proposals = 0
        self._running = ""
        """The strategy that is running, or whose proposal is decided."""

    def hot_before(self) -> list[str]:
        """Name the nodes that were over a threshold before any move."""
        found = (self.load.first > self.levels.limit).any(axis=0) & self.view.workers
        return [self.columns.nodes[node].name for node in np.flatnonzero(found)]

    def view_of(self, pool: str | None) -> View:
        """Return what strategies of this pool see."""
        if pool not in self._views:
            self._views[pool] = View(self, self.levels.within(pool))
        return self._views[pool]

    def plan(self, strategies: Iterable[Strategy[StrategySettings]]) -> Plan:
        """Let each strategy propose until it has nothing left to do."""
        self.run_strategies(strategies)
        return self.build_plan()

    def run_strategies(self, strategies: Iterable[Strategy[StrategySettings]]) -> None:
        """Run the strategies in their order, and decide on each proposal."""
        in_order = sorted(strategies, key=lambda one: (one.order, one.name, one.pool or ""))
        self.targets.consulted = [(each, self.view_of(each.pool)) for each in in_order]
        for strategy, view in self.targets.consulted:
            self._running = strategy.name
            proposals = strategy.propose(view)
            try:
                proposal = next(proposals)
                while True:
                    proposal = proposals.send(self.decide(strategy.name, proposal))
            except StopIteration:
                continue

    def build_plan(self) -> Plan:
        """Return the plan so far."""
        rejections = [rejection for pod, rejection in self.rejections.items() if pod not in self.reasons]
        unknown = unknown_resources(self.snapshot, self.policy)
        said = (*self.snapshot.warnings, *input_warnings(self.snapshot, self.columns), *self.load.warnings(), *unknown)
        return Plan(
            moves=tuple(self._moves),
            rejections=tuple(sorted(rejections, key=lambda r: (r.namespace, r.pod))),
            before=make_picture(self.columns, self.levels, self.load.first, self.columns.used),
            after=make_picture(self.columns, self.levels, self.load.used, self.whatif.used),
            warnings=said,
            utilization=self.policy.utilization,
        )

    @property
    def exhausted(self) -> bool:
        """Whether the plan's limit is reached."""
        return self.budgets.exhausted

    def decide(self, strategy: str, proposal: Proposal) -> ProposalResult:
        """Accept the whole proposal, or leave everything as it was."""
        self._running = strategy
        along = self._find_group_members(proposal.pod_moves)
        pod_moves = (*proposal.pod_moves, *(pod_move for pod_move, _ in along.values()))
        if refused := self._check_size(pod_moves):
            return self._refuse(pod_moves[0], refused, proposal)
        undo, moves = ExitStack(), list[Move]()
        for pod_move in pod_moves:
            # Other members of a pod group are moved only to where the strategy itself would leave them alone.
            found = (
                self._remove(pod_move)
                if pod_move.removal
                else self._place(pod_move, "" if pod_move.pod in along else strategy)
            )
            if isinstance(found, Rejection):
                undo.close()
                if pod_move.pod in along:
                    pod_move, found = self._explain_group(along[pod_move.pod][1], found)
                return self._refuse(pod_move, found, proposal)
            undo.callback(self._undo, found)
            moves.append(self._move(strategy, pod_move, found))
        for pod, node in proposal.arrivals:
            if self.whatif.at[pod] >= 0 or not self.feasibility.mask(pod)[node]:
                undo.close()
                if not pod_moves:  # it only kept room free: there is no pod to reject
                    return ProposalResult(exhausted=self.budgets.exhausted)
                why = f"{self.columns.pods[pod].full_name} would still not fit on {self.columns.nodes[node].name}"
                return self._refuse(pod_moves[0], self._rejection(pod_moves[0].pod, PlanGuard.NO_ROOM, why), proposal)
            self.whatif.place(pod, node)
            undo.callback(self.whatif.remove, pod, node)
        self.whatif.expect(proposal.arrivals)  # they may satisfy each other's affinity, but no other pod's
        for pod, node in proposal.arrivals:
            self._ranking.on_change(pod, node, 0)  # expected pods don't count as load
        self._proposals += bool(moves)
        self._moves.extend(moves)
        self.moved.update([*(pod_move.pod for pod_move in pod_moves), *(pod for pod, _ in proposal.arrivals)])
        for pod_move in pod_moves:
            self.reasons.setdefault(pod_move.pod, (strategy, pod_move.why))
            if pod_move.removal:
                self.removed[pod_move.pod] = (strategy, pod_move)
        return ProposalResult(tuple(moves), exhausted=self.budgets.exhausted)

    def _find_group_members(self, pod_moves: tuple[PodMove, ...]) -> dict[int, tuple[PodMove, PodMove]]:
        """Find the other members of these pod groups: for each its own move, and the proposed one it follows."""
        groups, moved = self.groups, self.moved
        wished = {pod_move.pod for pod_move in pod_moves}
        along: dict[int, tuple[PodMove, PodMove]] = {}
        for pod_move in pod_moves:
            for pod in () if pod_move.removal or pod_move.pod in moved else groups.members(pod_move.pod):
                if pod not in wished and pod not in moved and pod not in along:
                    why = f"pod group {groups.name(pod)} moves together: {pod_move.why}"
                    along[pod] = (PodMove(pod, why, force=pod_move.force), pod_move)
        return along

    def _explain_group(self, pod_move: PodMove, by: Rejection) -> tuple[PodMove, Rejection]:
        """Explain that another member of the pod group is refused, for the pod that was proposed."""
        group = self.groups.name(pod_move.pod)
        why = f"pod group {group} moves together or not at all, and {by.namespace}/{by.pod}: {by.reason}"
        return pod_move, self._rejection(pod_move.pod, by.guard, why)

    def _check_size(self, pod_moves: tuple[PodMove, ...]) -> Rejection | None:
        """Refuse a proposal that is larger than the limit of a plan or of an hour."""
        most, hourly = self.policy.max_reschedule_pods, self.policy.when.moves_per_hour
        if most is not None and len(pod_moves) > max(most, 1):
            guard, limit = PlanGuard.MAX_RESCHEDULE_PODS, f"maxReschedulePods is {most}"
        elif hourly is not None and len(pod_moves) > hourly and not is_mandatory(self._running):
            guard, limit = PlanGuard.MOVES_PER_HOUR, f"when.movesPerHour is {hourly}"
        elif not is_mandatory(self._running) and (crowd := self._describe_crowd(pod_moves)):
            guard, limit = (
                PlanGuard.MOVES_PER_HOUR_PER_NAMESPACE,
                f"{crowd}, and {FIELD} is {self.policy.when.moves_per_hour_per_namespace}",
            )
        else:
            return None
        return self._rejection(
            pod_moves[0].pod, guard, f"{len(pod_moves)} pods move together or not at all, and {limit}"
        )

    def _describe_crowd(self, pod_moves: tuple[PodMove, ...]) -> str:
        """Describe the namespace that has more of these moves than an hour allows; empty if there is none."""
        most = self.policy.when.moves_per_hour_per_namespace
        if most is None or len(pod_moves) <= most:
            return ""
        ((namespace, count),) = Counter(
            self.columns.pods[pod_move.pod].namespace for pod_move in pod_moves
        ).most_common(1)
        return f"{count} of them are in {namespace}" if count > most else ""

    def _refuse(self, pod_move: PodMove, rejection: Rejection, proposal: Proposal) -> ProposalResult:
        if proposal.otherwise:
            rejection = structs.replace(rejection, reason=f"{proposal.otherwise}: {rejection.reason}")
        known = self.rejections.get(pod_move.pod)
        # The first reason counts: a later try may be refused for what the plan has spent since. The text may change.
        if known is None or (known.strategy, known.guard) == (rejection.strategy, rejection.guard):
            self.rejections[pod_move.pod] = rejection
        return ProposalResult(rejection=rejection, exhausted=self.budgets.exhausted)

    def method(self, pod: int) -> Method:
        """Choose the method for a pod."""
        return self.guard_context.methods.choose(self.columns.pods[pod])

    def feasible_targets(self, pod: int) -> Mask:
        """[N]: nodes that a pod could be moved to now, within thresholds and limits."""
        return self.targets.feasible_targets(pod, self.method(pod))

    def accepted_by_others(self, pod: int, besides: str = "") -> Mask | None:
        """[N]: nodes where all strategies but the running one and `besides` leave a pod alone; None means all."""
        return self.targets.accepted_by_others(pod, self._running, besides)

    def cost(self, pod: int) -> Floats:
        """[N]: the usual ranking of a pod's targets."""
        return self._ranking.cost(pod)

    def objection(self, index: int) -> tuple[str, str] | None:
        """Find the guard or limit that objects to moving a pod."""
        pod, source = self.columns.pods[index], int(self.whatif.at[index])
        objection = first_objection(pod, self.guard_context)
        if objection is None and source < 0:
            objection = (PlanGuard.UNKNOWN_NODE, f"its node {pod.node} is not in the input")
        if objection is None and index not in self.reasons:  # otherwise it has spent its budgets already
            return self._limit_objection(source, pod) or self._disruption.objection(
                pod, self.guard_context.methods.choose(pod)
            )
        return objection

    def _place(self, pod_move: PodMove, strategy: str) -> _Placed | Rejection:
        """Find the best target for a pod and apply the move to the what-if, or return what refuses it."""
        if pod_move.pod in self.moved:
            return self._rejection(pod_move.pod, PlanGuard.ALREADY_MOVED, "the plan moves it already")
        if objection := self.objection(pod_move.pod):
            return self._rejection(pod_move.pod, *objection)
        pod, source = self.columns.pods[pod_move.pod], int(self.whatif.at[pod_move.pod])
        method = self.guard_context.methods.choose(pod)
        target = self.targets.find(pod_move, method, strategy)
        if isinstance(target, str):
            why = target or self.targets.explain_none(pod_move, method, self.policy.limits)
            return self._rejection(pod_move.pod, PlanGuard.NO_TARGET, why)
        if fresh := pod_move.pod not in self.reasons:
            self._disruption.spend(pod, method)
            self._spend(source, target, pod)
        return _Placed(pod_move.pod, source, target, method, fresh)

    def _remove(self, pod_move: PodMove) -> _Placed | Rejection:
        """Plan the removal of a pod that has ended; it uses nothing, so the what-if stays the same."""
        pod = self.columns.pods[pod_move.pod]
        if pod_move.pod in self.moved:
            return self._rejection(pod_move.pod, PlanGuard.ALREADY_MOVED, "the plan removes it already")
        source = self.columns.node_index.get(pod.node, _NOWHERE)
        objection = objection_to_removal(pod, self.guard_context) or self._limit_objection(source, pod)
        if objection:
            return self._rejection(pod_move.pod, *objection)
        self._spend(source, _NOWHERE, pod)
        return _Placed(pod_move.pod, source, _NOWHERE, Method.REMOVE)

    def _undo(self, done: _Placed) -> None:
        pod = self.columns.pods[done.pod]
        if done.method is not Method.REMOVE:
            self.targets.revert(done.pod, done.source, done.target)
            if done.spent:
                self._disruption.spend(pod, done.method, -1)
        if done.spent:
            self._spend(done.source, done.target, pod, -1)

    def _limit_objection(self, source: int, pod: Pod) -> tuple[str, str] | None:
        """Find the limit of the plan or of the hour that is reached for a pod."""
        objection = self.budgets.objection(source, self.workloads.key(pod))
        return objection if objection or is_mandatory(self._running) else self._hours.objection(pod)

    def _spend(self, source: int, target: int, pod: Pod, sign: int = 1) -> None:
        """Count a move, or with sign -1 uncount it."""
        self.budgets.spend(source, target, self.workloads.key(pod), sign)
        if not is_mandatory(self._running):
            self._hours.spend(pod, sign)

    def _move(self, strategy: str, pod_move: PodMove, placed: _Placed) -> Move:
        pod = self.columns.pods[placed.pod]
        kind, _, name = self.workloads.key(pod)
        reason, gained = pod_move.why, None
        target = ""
        if placed.target >= 0:
            target = self.columns.nodes[placed.target].name
            cpu, memory = self.view.utilisation_of(placed.target)[:2].tolist()
            reason = f"{pod_move.why}; {target} is then at {cpu:.1f}% CPU and {memory:.1f}% memory"
            if is_for_gain(strategy):
                gained = gain_of(self._side(placed.pod, placed.source), self._side(placed.pod, placed.target))
        return Move(
            namespace=pod.namespace,
            pod=pod.name,
            source=pod.node if placed.source < 0 else self.columns.nodes[placed.source].name,
            target=target,
            strategy=strategy,
            reason=reason,
            method=placed.method,
            uid=pod.uid,
            workload=f"{kind}/{name}",
            priority=pod.priority,
            proposal=self._proposals,
            gain=gained,
        )

    def _side(self, pod: int, node: int) -> MoveSide:
        """Describe a node of an applied move: the target has the pod already, the source no longer."""
        here = node == self.whatif.at[pod]
        taken = self.load.at_home(pod) if node == self.columns.pod_at[pod] else self.load.requests(pod)
        used = self.load.of_node(node)
        return MoveSide(used - taken if here else used, taken, self.load.capacity[:, node])

    def _rejection(self, index: int, guard: str, reason: str) -> Rejection:
        pod = self.columns.pods[index]
        return Rejection(pod.namespace, pod.name, str(guard), reason, self._running, pod.node)
