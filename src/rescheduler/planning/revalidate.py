"""Checks requested moves on the newest state: whether a pod may be moved now, by which method, and to which node.

A plan is some seconds old when its moves begin, and people order moves without a plan. Both are checked by the rules of
the planner, one after the other: each check includes the moves accepted before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import numpy as np

from rescheduler.model import labels
from rescheduler.model.objects import Node, Pod
from rescheduler.model.plan import Method, Move
from rescheduler.model.policy import Limits, MigrationMethod, Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning import guards
from rescheduler.planning.api import Proposal
from rescheduler.planning.guards.base import GuardContext, Lasting
from rescheduler.planning.planner import Planner
from rescheduler.planning.refusals import PlanGuard

_UNLIMITED = Limits()
_TEMPORARY = frozenset({PlanGuard.DISRUPTION_BUDGET, PlanGuard.WORKLOAD_AT_ONCE, PlanGuard.NO_TARGET})
"""Refusals by the plan that may be gone a little later."""


@dataclass(frozen=True, slots=True)
class MoveVerdict:
    """The method and the target of an accepted move, or the reason of a refusal."""

    method: Method | None = None
    target: str = ""
    reason: str = ""
    temporary: bool = False
    """Whether the refusal may be gone a little later."""
    gain: float | None = field(default=None, compare=False)
    """By how many percentage points the busier of the two nodes becomes less busy; for information."""


@dataclass(frozen=True, slots=True)
class RequestedMove:
    """A pod to be moved, and perhaps its target and the method."""

    namespace: str
    pod: str
    uid: str = ""
    target: str = ""
    method: Method | None = None
    tried_methods: tuple[Method, ...] = ()
    by_hand: bool = False


class Revalidator:
    """Checks requests in one snapshot; make a new one for a new snapshot."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy) -> None:
        # The plan has kept limits and rests already; now its moves must not refuse each other for them.
        # Not 0 seconds of rest, but less: the API server's clock may be ahead of ours.
        # Pod groups don't count either: each member has a request of its own.
        # The hourly limits are checked in `runtime.starting.windows`.
        judged = replace(
            policy,
            max_reschedule_pods=None,
            limits=_UNLIMITED,
            cool_down=-inf,
            min_pod_age=-inf,
            pod_groups=False,
            when=replace(policy.when, moves_per_hour_per_namespace=None),
        )
        # A manual move names its pod, so excluded namespaces and filters do not apply.
        by_hand = replace(judged, excluded_namespaces=(), excluded_pod_selector="", by_hand=True)
        self._policies = {False: judged, True: by_hand}
        self._contexts: dict[tuple[bool, MigrationMethod], GuardContext] = {}
        self._snapshot = snapshot
        self._moved: dict[int, tuple[RequestedMove, MoveVerdict]] = {}
        """Accepted moves: the what-if includes them, and the same request gets the same verdict."""
        self._positions = {(pod.namespace, pod.name): index for index, pod in enumerate(snapshot.pods)}

    def check(self, request: RequestedMove) -> MoveVerdict:
        """Check one request; later checks include its move, if it is accepted.

        The caller has seen the pod and the node: if they are missing in the snapshot, or differ, the snapshot is late.
        """
        position = self._positions.get((request.namespace, request.pod))
        if position is None:
            return MoveVerdict(reason=f"there is no pod {request.namespace}/{request.pod}", temporary=True)
        pod = self._snapshot.pods[position]
        if request.uid and pod.uid != request.uid:
            return MoveVerdict(reason=f"{pod.full_name} is another pod by now", temporary=True)
        if busy := self._snapshot.spoken_for.get((request.namespace, request.pod)):
            return MoveVerdict(reason=busy, temporary=True)  # and in the snapshot it is on its target already
        if request.method is Method.REMOVE:
            return self._removal(pod, request)
        if not pod.node and not pod.finished:
            return MoveVerdict(reason="it is not on a node yet", temporary=True)
        if request.target == pod.node:
            return MoveVerdict(reason=f"it is on {pod.node} already")
        if position in self._moved:
            before, verdict = self._moved[position]
            return (
                verdict if before == request else MoveVerdict(reason="another order moves it already", temporary=True)
            )
        found = self._method(pod, request)
        return found if isinstance(found, MoveVerdict) else self._place(position, request, found)

    def _removal(self, pod: Pod, request: RequestedMove) -> MoveVerdict:
        """Check whether a pod may be removed; it uses nothing, so later checks don't depend on it."""
        if request.target:
            return MoveVerdict(reason=f"a pod that is removed goes nowhere, so not to {request.target}")
        context = self._context(request, self._policies[request.by_hand].migration_method)
        if (objection := guards.objection_to_removal(pod, context)) is None:
            return MoveVerdict(Method.REMOVE)
        guard, reason = objection
        return MoveVerdict(reason=f"{guard}: {reason}", temporary=_is_temporary(guard) or not pod.finished)

    def _method(self, pod: Pod, request: RequestedMove) -> MigrationMethod | MoveVerdict:
        """Choose the method for the planner; a requested one must fit the pod."""
        if request.method is Method.COPY and pod.owner is not None:
            return MoveVerdict(reason=f"{pod.owner.kind} {pod.owner.name} manages it: a copy would be one too many")
        if request.method in (Method.HANDOFF, Method.EVICT) and pod.owner is None:
            return MoveVerdict(
                reason=f"it has no controller, so {request.method.value} would lose it: only a copy can move it"
            )
        if set(request.tried_methods) >= {Method.HANDOFF, Method.EVICT} or Method.COPY in request.tried_methods:
            return MoveVerdict(reason="no method is left to try")
        if Method.HANDOFF in request.tried_methods:
            if request.method is Method.HANDOFF:
                return MoveVerdict(reason="handoff is the method ordered, and it did not work")
            return MigrationMethod.EVICT
        if request.method in (Method.HANDOFF, Method.EVICT):
            return MigrationMethod(request.method)
        return self._policies[request.by_hand].migration_method

    def _context(self, request: RequestedMove, method: MigrationMethod) -> GuardContext:
        """Return what guards look things up in; each way of moving pods has a policy of its own."""
        key = (request.by_hand, method)
        if key not in self._contexts:
            policy = replace(self._policies[request.by_hand], migration_method=method)
            self._contexts[key] = GuardContext(policy, self._snapshot)
        return self._contexts[key]

    @cached_property
    def _planner(self) -> Planner:
        return Planner(self._snapshot, self._policies[False])

    def _place(self, position: int, request: RequestedMove, method: MigrationMethod) -> MoveVerdict:
        planner = self._planner
        planner.guard_context = self._context(request, method)
        if objection := _method_objection(planner, self._snapshot.pods[position], request):
            return MoveVerdict(reason=objection)
        cost = None
        if request.target:
            index = planner.columns.node_index.get(request.target)
            if index is None:
                return MoveVerdict(reason=f"there is no node {request.target}", temporary=True)
            cost = np.full(len(planner.columns.nodes), np.inf)
            cost[index] = 0.0
        decision = planner.decide("order", Proposal.one(position, "", cost, force=True))
        if decision.moves:
            move = decision.moves[0]
            verdict = MoveVerdict(move.method, move.target, gain=move.gain)
            self._moved[position] = (request, verdict)
            return verdict
        if decision.rejection is None:
            return MoveVerdict(reason="no reason was given", temporary=True)
        guard, reason = decision.rejection.guard, decision.rejection.reason
        if guard == PlanGuard.NO_TARGET and request.target:
            reason = _explain_target(planner, position, request.target)
        return MoveVerdict(reason=f"{guard}: {reason}", temporary=_is_temporary(guard))


def _is_temporary(name: str) -> bool:
    """Whether a refusal may be gone a little later."""
    guard = guards.discover().get(name)
    return name in _TEMPORARY if guard is None else guard.lasting is Lasting.SOON


def _method_objection(planner: Planner, pod: Pod, request: RequestedMove) -> str:
    """Explain why the method that the planner would choose does not fit the request; empty if it does."""
    methods = planner.guard_context.methods
    chosen = methods.choose(pod)
    if chosen in request.tried_methods:
        return f"{chosen.value} is the method chosen for it, and it did not work"
    if request.method in (None, chosen) or methods.cannot_hand_off(pod):  # a guard explains the latter better
        return ""
    return f"annotation {labels.MIGRATION_METHOD} has it moved by {chosen.value}, not by {request.method.value}"


def _explain_target(planner: Planner, position: int, target: str) -> str:
    """Explain what refuses the requested node; a count of all nodes would say little."""
    node = planner.columns.node_index[target]
    for predicate in planner.feasibility.predicates:
        mask = predicate.mask(position)
        if mask is not None and not mask[node]:
            return f"{target}: {predicate.reason(position, node)} ({predicate.name})"
    return f"{target} does not take it once the moves before it are made"


@dataclass(frozen=True, slots=True)
class CheckedMove:
    """A move, and why it is refused; empty if it may be made."""

    move: Move
    refusal: str = ""


def revalidate_moves(snapshot: ClusterSnapshot, policy: Policy, moves: Sequence[Move]) -> list[CheckedMove]:
    """Check every move, in the plan's order; pods in `spoken_for` are being moved already."""
    pods = {(pod.namespace, pod.name): pod for pod in snapshot.pods}
    nodes = {node.name: node for node in snapshot.nodes}
    refusals = {
        index: why
        for index, move in enumerate(moves)
        if (why := snapshot.spoken_for.get((move.namespace, move.pod)) or _stale_reason(move, pods, nodes))
    }
    _refuse_proposals(moves, refusals)
    while not _check_all(snapshot, policy, moves, refusals):
        pass
    return [CheckedMove(move, refusals.get(index, "")) for index, move in enumerate(moves)]


def node_objection(node: Node) -> str:
    """Explain why no pod can be moved to a node, whatever the pod; empty if pods can."""
    if node.deleting:
        return f"node {node.name} is being deleted"
    if not node.ready:
        return f"node {node.name} is not Ready"
    if node.maintenance:
        return f"node {node.name} is under maintenance"
    if node.unschedulable:
        return f"node {node.name} is cordoned"
    return ""


def _check_all(snapshot: ClusterSnapshot, policy: Policy, moves: Sequence[Move], refusals: dict[int, str]) -> bool:
    """Check all moves that are not refused yet; return False if that must be repeated.

    If a later member of a proposal is refused, the moves of the first ones cannot be taken back.
    """
    revalidator = Revalidator(snapshot, policy)
    accepted: set[int] = set()
    for index, move in enumerate(moves):
        if index in refusals:
            continue
        verdict = revalidator.check(RequestedMove(move.namespace, move.pod, move.uid, move.target, move.method))
        if verdict.method is not None:
            accepted.add(move.proposal)
            continue
        refusals[index] = verdict.reason
        _refuse_proposals(moves, refusals)
        if move.proposal in accepted:
            return False
    return True


def _refuse_proposals(moves: Sequence[Move], refusals: dict[int, str]) -> None:
    """Refuse all moves of a proposal if one is refused."""
    sizes = Counter(move.proposal for move in moves)
    culprits: dict[int, str] = {}
    for index in sorted(refusals):
        move = moves[index]
        culprits.setdefault(move.proposal, f"{move.namespace}/{move.pod}, which belongs to it, is refused")
    for index, move in enumerate(moves):
        if sizes[move.proposal] > 1 and move.proposal in culprits:
            refusals.setdefault(index, culprits[move.proposal])


def _stale_reason(move: Move, pods: Mapping[tuple[str, str], Pod], nodes: Mapping[str, Node]) -> str:
    """Explain what has changed since the plan so that the move is out of date; empty if nothing has."""
    pod = pods.get((move.namespace, move.pod))
    if pod is None:
        return "the pod is gone"
    if move.uid and pod.uid != move.uid:
        return "another pod has its name by now"
    if pod.node != move.source:
        return f"it is on {pod.node or 'no node'}, not on {move.source}"
    if move.method is Method.REMOVE:
        return "" if pod.finished else f"it has not ended ({pod.phase})"
    target = nodes.get(move.target)
    return f"node {move.target} is gone" if target is None else node_objection(target)
