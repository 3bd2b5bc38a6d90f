"""Whether one pod may be moved now, by which method and to which node: asked for orders, just before they begin.

A plan is some seconds old when its moves begin, and people order moves without a plan. Both are judged here on the
newest state by the planner's own rules, one after the other, so that what has been ruled counts for the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from rescheduler.model import labels
from rescheduler.model.objects import Node, Pod
from rescheduler.model.plan import Method, Move
from rescheduler.model.policy import Limits, MigrationMethod, Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning import guards
from rescheduler.planning.api import Proposal
from rescheduler.planning.budgets import DisruptionHeadroom
from rescheduler.planning.guards.base import Lasting
from rescheduler.planning.planner import Planner
from rescheduler.planning.refusals import PlanGuard

_UNLIMITED = Limits()
_TEMPORARY = frozenset({PlanGuard.DISRUPTION_BUDGET, PlanGuard.WORKLOAD_AT_ONCE, PlanGuard.NO_TARGET})
"""Refusals by the plan that may be gone a little later."""


@dataclass(frozen=True, slots=True)
class MoveVerdict:
    """Moved by this method to this node; or, for a reason, not now or not at all."""

    method: Method | None = None
    target: str = ""
    reason: str = ""
    temporary: bool = False
    gain: float | None = field(default=None, compare=False)
    """By how many percentage points the busier of the two nodes becomes less busy; it decides nothing here."""


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """What is asked for: a pod, and maybe where to and how."""

    namespace: str
    pod: str
    uid: str = ""
    target: str = ""
    method: Method | None = None
    tried: tuple[Method, ...] = ()
    by_hand: bool = False


class Revalidator:
    """Rules on orders in one snapshot; make a new one when the cluster has moved on."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy) -> None:
        # The plan has kept its limits and has let workloads rest: its moves must not stand in each other's way now.
        # Not 0 seconds of rest, but less: the API server's clock may be ahead of ours.
        # Nor is it asked again who moves together: each member of a pod group is an order of its own by now.
        # Whether its hour has room for it, `runtime.timing` says.
        judged = replace(
            policy,
            max_reschedule_pods=None,
            limits=_UNLIMITED,
            cool_down=-inf,
            min_pod_age=-inf,
            pod_groups=False,
            when=replace(policy.when, moves_per_hour_per_namespace=None),
        )
        # Whoever orders a move by hand knows which namespace he is in, and what is filtered.
        by_hand = replace(judged, excluded_namespaces=(), excluded_pod_selector="", by_hand=True)
        self._policies = {False: judged, True: by_hand}
        self._snapshot = snapshot
        self._planners: dict[tuple[bool, MigrationMethod], Planner] = {}
        self._moved: dict[int, tuple[MoveRequest, MoveVerdict]] = {}
        """What has been ruled may begin: its move is laid in, and the same order gets the same answer."""
        self._disruption: DisruptionHeadroom | None = None
        """What all rulings together spend; a planner knows only of its own."""
        self._positions = {(pod.namespace, pod.name): index for index, pod in enumerate(snapshot.pods)}

    def check(self, wanted: MoveRequest) -> MoveVerdict:
        """Judge one order; if it may begin, its move is laid in for those that follow.

        Whoever asks has seen the pod and the node: where they are not in the snapshot, or differ, it lags behind.
        """
        position = self._positions.get((wanted.namespace, wanted.pod))
        if position is None:
            return MoveVerdict(reason=f"there is no pod {wanted.namespace}/{wanted.pod}", temporary=True)
        pod = self._snapshot.pods[position]
        if wanted.uid and pod.uid != wanted.uid:
            return MoveVerdict(reason=f"{pod.full_name} is another pod by now", temporary=True)
        if busy := self._snapshot.spoken_for.get((wanted.namespace, wanted.pod)):
            return MoveVerdict(reason=busy, temporary=True)  # and the snapshot has it where it is going
        if wanted.method is Method.REMOVE:
            return self._removal(pod, wanted)
        if not pod.node and not pod.finished:
            return MoveVerdict(reason="it is not on a node yet", temporary=True)
        if wanted.target == pod.node:
            return MoveVerdict(reason=f"it is on {pod.node} already")
        if position in self._moved:
            before, ruling = self._moved[position]
            return ruling if before == wanted else MoveVerdict(reason="another order moves it already", temporary=True)
        found = self._method(pod, wanted)
        if isinstance(found, MoveVerdict):
            return found
        return self._place(position, wanted, self._planner(wanted, found))

    def _removal(self, pod: Pod, wanted: MoveRequest) -> MoveVerdict:
        """Whether a pod may be removed; it holds nothing, so nothing is laid in for those that follow."""
        if wanted.target:
            return MoveVerdict(reason=f"a pod that is removed goes nowhere, so not to {wanted.target}")
        context = self._planner(wanted, self._policies[wanted.by_hand].migration_method).guard_context
        if (objection := guards.objection_to_removal(pod, context)) is None:
            return MoveVerdict(Method.REMOVE)
        guard, reason = objection
        return MoveVerdict(reason=f"{guard}: {reason}", temporary=_is_temporary(guard) or not pod.finished)

    def _method(self, pod: Pod, wanted: MoveRequest) -> MigrationMethod | MoveVerdict:
        """Which method the planner is to be held to; the ordered one must fit the pod."""
        if wanted.method is Method.COPY and pod.owner is not None:
            return MoveVerdict(reason=f"{pod.owner.kind} {pod.owner.name} manages it: a copy would be one too many")
        if wanted.method in (Method.HANDOFF, Method.EVICT) and pod.owner is None:
            return MoveVerdict(
                reason=f"nobody manages it, so {wanted.method.value} would lose it: only a copy can move it"
            )
        if set(wanted.tried) >= {Method.HANDOFF, Method.EVICT} or Method.COPY in wanted.tried:
            return MoveVerdict(reason="no method is left to try")
        if Method.HANDOFF in wanted.tried:
            if wanted.method is Method.HANDOFF:
                return MoveVerdict(reason="handoff is the method ordered, and it did not work")
            return MigrationMethod.EVICT
        if wanted.method is Method.HANDOFF:
            return MigrationMethod.HANDOFF
        if wanted.method is Method.EVICT:
            return MigrationMethod.EVICT
        return self._policies[wanted.by_hand].migration_method

    def _planner(self, wanted: MoveRequest, method: MigrationMethod) -> Planner:
        key = (wanted.by_hand, method)
        if key not in self._planners:
            policy = replace(self._policies[wanted.by_hand], migration_method=method)
            self._planners[key] = Planner(self._snapshot, policy)
            for position, (_, ruling) in self._moved.items():
                _lay_in(self._planners[key], position, ruling.target)
        return self._planners[key]

    def _place(self, position: int, wanted: MoveRequest, planner: Planner) -> MoveVerdict:
        if objection := _method_objection(planner, self._snapshot.pods[position], wanted):
            return MoveVerdict(reason=objection)
        if spent := self._spent(position, planner):
            guard, reason = spent
            return MoveVerdict(reason=f"{guard}: {reason}", temporary=_is_temporary(guard))
        cost = None
        if wanted.target:
            index = planner.columns.node_index.get(wanted.target)
            if index is None:
                return MoveVerdict(reason=f"there is no node {wanted.target}", temporary=True)
            cost = np.full(len(planner.columns.nodes), np.inf)
            cost[index] = 0.0
        decision = planner.decide("order", Proposal.one(position, "", cost, force=True))
        if decision.moves:
            move = decision.moves[0]
            ruling = MoveVerdict(move.method, move.target, gain=move.gain)
            self._moved[position] = (wanted, ruling)
            if self._disruption is not None:
                self._disruption.spend(self._snapshot.pods[position], move.method)
            for other in self._planners.values():
                if other is not planner:
                    _lay_in(other, position, move.target)
            return ruling
        if decision.rejection is None:
            return MoveVerdict(reason="nothing says why", temporary=True)
        guard, reason = decision.rejection.guard, decision.rejection.reason
        if guard == PlanGuard.NO_TARGET and wanted.target:
            reason = _word_of(planner, position, wanted.target)
        return MoveVerdict(reason=f"{guard}: {reason}", temporary=_is_temporary(guard))

    def _spent(self, position: int, planner: Planner) -> tuple[str, str] | None:
        """Which disruption budget the rulings so far have spent, for a pod that may be moved otherwise."""
        pod, context = self._snapshot.pods[position], planner.guard_context
        if self._disruption is None:
            self._disruption = DisruptionHeadroom(self._snapshot, planner.workloads)
        if guards.first_objection(pod, context) is not None:
            return None  # that is the better reason: it will not pass
        return self._disruption.objection(pod, context.methods.choose(pod))


def _is_temporary(name: str) -> bool:
    """Whether a refusal may be gone a little later."""
    guard = guards.discover().get(name)
    return name in _TEMPORARY if guard is None else guard.lasting is Lasting.SOON


def _method_objection(planner: Planner, pod: Pod, wanted: MoveRequest) -> str:
    """Why the method that the planner would choose is not one that the order can be carried out by."""
    methods = planner.guard_context.methods
    chosen = methods.choose(pod)
    if chosen in wanted.tried:
        return f"{chosen.value} is the method chosen for it, and it did not work"
    if wanted.method in (None, chosen) or methods.cannot_hand_off(pod):  # of the latter a guard tells more
        return ""
    return f"annotation {labels.MIGRATION_METHOD} has it moved by {chosen.value}, not by {wanted.method.value}"


def _word_of(planner: Planner, position: int, target: str) -> str:
    """What the node that was asked for says: a count of all nodes tells little where only one was to be it."""
    node = planner.columns.node_index[target]
    for predicate in planner.feasibility.predicates:
        mask = predicate.mask(position)
        if mask is not None and not mask[node]:
            return f"{target}: {predicate.reason(position, node)} ({predicate.name})"
    return f"{target} does not take it once the moves before it are made"


def _lay_in(planner: Planner, position: int, target: str) -> None:
    """Have a planner know of a move that another one has decided."""
    planner.whatif.remove(position, int(planner.whatif.at[position]))
    planner.whatif.place(position, planner.columns.node_index[target])
    planner.view.moved.add(position)


@dataclass(frozen=True, slots=True)
class CheckedMove:
    """A move, and why it is refused; empty when it may be made."""

    move: Move
    refusal: str = ""


def revalidate_moves(snapshot: ClusterSnapshot, policy: Policy, moves: Sequence[Move]) -> list[CheckedMove]:
    """Judge every move, in the plan's order; pods that are spoken for in the snapshot are being moved already."""
    facts = _Facts(snapshot)
    refusals = {index: why for index, move in enumerate(moves) if (why := facts.stale(move))}
    _spread(moves, refusals)
    while not _ruled(facts, policy, moves, refusals):
        pass
    return [CheckedMove(move, refusals.get(index, "")) for index, move in enumerate(moves)]


def node_objection(node: Node) -> str:
    """Why nothing can be moved onto a node, as far as the node itself goes."""
    if node.deleting:
        return f"node {node.name} is being deleted"
    if not node.ready:
        return f"node {node.name} is not Ready"
    if node.maintenance:
        return f"node {node.name} is under maintenance"
    if node.unschedulable:
        return f"node {node.name} is cordoned"
    return ""


def _ruled(facts: _Facts, policy: Policy, moves: Sequence[Move], refusals: dict[int, str]) -> bool:
    """Rule on all that is not refused yet; False when that must be done again.

    What was laid in for the first members of a proposal cannot be taken out when a later one is refused.
    """
    rulings = Revalidator(facts.snapshot, policy)
    laid_in: set[int] = set()
    for index, move in enumerate(moves):
        if index in refusals:
            continue
        ruling = rulings.check(MoveRequest(move.namespace, move.pod, move.uid, move.target, move.method))
        if ruling.method is not None:
            laid_in.add(move.proposal)
            continue
        refusals[index] = ruling.reason
        _spread(moves, refusals)
        if move.proposal in laid_in:
            return False
    return True


def _spread(moves: Sequence[Move], refusals: dict[int, str]) -> None:
    """Refuse what belongs to refused moves."""
    sizes = Counter(move.proposal for move in moves)
    culprits: dict[int, str] = {}
    for index in sorted(refusals):
        move = moves[index]
        culprits.setdefault(move.proposal, f"{move.namespace}/{move.pod}, which belongs to it, is refused")
    for index, move in enumerate(moves):
        if sizes[move.proposal] > 1 and move.proposal in culprits:
            refusals.setdefault(index, culprits[move.proposal])


class _Facts:
    """What the plan took for granted, looked up in the cluster as it is."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.snapshot = snapshot
        self._pods = {(pod.namespace, pod.name): index for index, pod in enumerate(snapshot.pods)}
        self._nodes = {node.name: index for index, node in enumerate(snapshot.nodes)}

    def stale(self, move: Move) -> str:
        """What has changed since the plan was made, so that the move makes no sense any more."""
        if busy := self.snapshot.spoken_for.get((move.namespace, move.pod)):
            return busy
        pod = self._pod(move)
        if pod is None:
            return "the pod is gone"
        if move.uid and pod.uid != move.uid:
            return "another pod has its name by now"
        if pod.node != move.source:
            return f"it is on {pod.node or 'no node'}, not on {move.source}"
        if move.method is Method.REMOVE:
            return "" if pod.finished else f"it has not ended ({pod.phase})"
        target = self._nodes.get(move.target)
        if target is None:
            return f"node {move.target} is gone"
        return node_objection(self.snapshot.nodes[target])

    def _pod(self, move: Move) -> Pod | None:
        index = self._pods.get((move.namespace, move.pod))
        return None if index is None else self.snapshot.pods[index]
