"""The planner: asks strategies for proposals, and alone decides what becomes of them.

It checks guards, method, budgets and feasibility of each, lays what it takes into the what-if, and answers the
strategy, so that the next proposal is made and judged in the world that would then be. A plan is therefore feasible
move by move, in its order. Nothing here acts, waits or reads a clock: the same snapshot and policy give the same plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from rescheduler.model.plan import Method, Move, Plan, Rejection
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning import warnings
from rescheduler.planning.budgets import Budgets
from rescheduler.planning.columns import Columns, Ints, Mask
from rescheduler.planning.disruption import Disruption
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.gain import Side, gain
from rescheduler.planning.guards import Context, first_objection
from rescheduler.planning.methods import Methods
from rescheduler.planning.picture import picture
from rescheduler.planning.ranking import Ranking
from rescheduler.planning.settings import Settings
from rescheduler.planning.strategy import Decision, Proposal, Strategy, Wish
from rescheduler.planning.view import View
from rescheduler.planning.whatif import WhatIf
from rescheduler.planning.workloads import Workloads

# A target that the rules would not survive is passed over for the next best; this many are looked at before giving up.
_TARGETS_TRIED = 64


@dataclass(frozen=True, slots=True)
class _Placed:
    """A move that has been laid into the what-if."""

    pod: int
    source: int
    target: int
    method: Method


class Planner:
    """Plans one cycle; make a new one for the next."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.columns = Columns(snapshot)
        self.whatif = WhatIf(self.columns)
        self.feasibility = Feasibility(self.whatif)
        self.view = View(self.whatif, policy.thresholds, self.feasibility.reach)
        self.whatif.reserve(self._above_thresholds())
        self.workloads = Workloads(snapshot)
        methods = Methods(snapshot, self.workloads, policy.migration_method)
        empty = frozenset(node.name for node in snapshot.nodes if node.maintenance)
        self.context = Context(policy, snapshot, self.workloads, methods, empty)
        self._ranking = Ranking(self.columns, self.view, self.feasibility.node_masks)
        self.whatif.listen(self._ranking)
        self._disruption = Disruption(snapshot, self.workloads)
        self._budgets = Budgets(policy.limits, len(snapshot.nodes))
        self._moves: list[Move] = []
        self.reasons: dict[int, tuple[str, str]] = {}
        """For each pod that is moved: the strategy that wanted it first, and why."""
        self.rejections: dict[int, Rejection] = {}
        self._proposals = 0

    def _above_thresholds(self) -> Ints:
        """[R, N]: what lies above the thresholds, which no move should use."""
        reserve = np.zeros_like(self.columns.allocatable)
        reserve[:2] = self.view.capacity - self.view.limit
        return reserve

    def plan(self, strategies: Iterable[Strategy[Settings]]) -> Plan:
        """Let each strategy propose until it has nothing left to put right."""
        self.consult(strategies)
        return self.outcome()

    def consult(self, strategies: Iterable[Strategy[Settings]]) -> None:
        """Ask each strategy for proposals and answer them: what must be done before what would be nice."""
        for strategy in sorted(strategies, key=lambda one: (one.order, one.name)):
            proposals = strategy.propose(self.view)
            try:
                proposal = next(proposals)
                while True:
                    proposal = proposals.send(self.decide(strategy.name, proposal))
            except StopIteration:
                continue

    def outcome(self) -> Plan:
        """What has been decided so far."""
        rejections = [rejection for pod, rejection in self.rejections.items() if pod not in self.reasons]
        return Plan(
            moves=tuple(self._moves),
            rejections=tuple(sorted(rejections, key=lambda r: (r.namespace, r.pod))),
            before=picture(self.columns, self.columns.used, self.view),
            after=picture(self.columns, self.whatif.used, self.view),
            warnings=(*self.snapshot.warnings, *warnings.about(self.snapshot, self.columns)),
        )

    @property
    def exhausted(self) -> bool:
        """Whether the plan's limit is reached."""
        return self._budgets.exhausted

    def decide(self, strategy: str, proposal: Proposal) -> Decision:
        """Take the whole proposal, or leave everything as it was."""
        placed: list[_Placed] = []
        moves: list[Move] = []
        for wish in proposal.wishes:
            found = self._place(wish)
            if isinstance(found, _Placed):
                placed.append(found)
                moves.append(self._move(strategy, wish, found))
                continue
            for done in reversed(placed):
                self._undo(done)
            rejection = replace(found, strategy=strategy)
            known = self.rejections.get(wish.pod)
            # The first reason stands: a later try may only meet what the plan itself has spent since. Words may change.
            if known is None or (known.strategy, known.guard) == (strategy, rejection.guard):
                self.rejections[wish.pod] = rejection
            return Decision(rejection=rejection, exhausted=self._budgets.exhausted)
        self._proposals += 1
        self._moves.extend(moves)
        self.view.moved.update(done.pod for done in placed)
        for wish in proposal.wishes:
            self.reasons.setdefault(wish.pod, (strategy, wish.why))
        return Decision(tuple(moves), exhausted=self._budgets.exhausted)

    def _place(self, wish: Wish) -> _Placed | Rejection:
        """Find the best target for a pod and lay the move into the what-if; or say what refuses it."""
        pod = self.columns.pods[wish.pod]
        source = int(self.whatif.at[wish.pod])
        if wish.pod in self.view.moved:
            return self._rejection(wish.pod, "AlreadyMoved", "the plan moves it already")
        objection = first_objection(pod, self.context)
        if objection is None and source < 0:
            objection = ("UnknownNode", f"its node {pod.node} is not in the input")
        again = wish.pod in self.reasons  # a second thought: it has spent what a move costs
        if objection is None and not again:
            objection = self._budgets.objection(source, self.workloads.key(pod))
        if objection is not None:
            return self._rejection(wish.pod, *objection)
        method = self.context.methods.choose(pod)
        objection = None if again else self._disruption.objection(pod, method)
        if objection is not None:
            return self._rejection(wish.pod, *objection)
        target = self._find_target(wish, method)
        if isinstance(target, str):
            return self._rejection(wish.pod, "NoTarget", target)
        if not again:
            self._disruption.spend(pod, method)
            self._budgets.spend(source, target, self.workloads.key(pod))
        return _Placed(wish.pod, source, target, method)

    def _find_target(self, wish: Wish, method: Method) -> int | str:
        """The best target that the rules survive, with the move laid in; or why there is none."""
        cost = self._ranking.cost(wish.pod) if wish.cost is None else wish.cost
        broken = ""
        for room in (self.whatif.room, self.whatif.free) if wish.insist else (self.whatif.room,):
            mask = self.targets(wish.pod, method, room)
            if wish.cost is not None:
                mask &= np.isfinite(cost)
            candidates = np.flatnonzero(mask)
            costs = cost[candidates]
            for _ in range(min(len(candidates), _TARGETS_TRIED)):
                best = int(costs.argmin())
                target = int(candidates[best])
                lost = self._try(wish.pod, target, method)
                if not lost:
                    return target
                broken = lost
                costs[best] = np.inf
        return broken or self._why_none(wish, method)

    def targets(self, pod: int, method: Method, room: Ints) -> Mask:
        """[N]: where the pod could be moved within this room."""
        with self._as_judged(pod, method):
            mask = self.feasibility.mask(pod, room)
        # What is over its threshold takes nothing by choice, not even a pod that asks none of that resource.
        for resource in np.flatnonzero(self.columns.requests(pod)[:2] == 0) if room is self.whatif.room else ():
            mask &= room[resource] >= 0
        mask[self.whatif.at[pod]] = False
        allowed = self._budgets.targets()
        if allowed is not None:
            mask &= allowed
        return mask

    @contextmanager
    def _as_judged(self, pod: int, method: Method) -> Iterator[None]:
        """The world in which a move is judged: an eviction without the original, all else beside it."""
        source = int(self.whatif.at[pod])
        shape = self.columns.shape(pod)
        # Without rules about other pods or volumes, its own absence changes nothing for another node.
        alone = method is Method.EVICT and bool(shape.affinity or shape.anti_affinity or shape.spread or shape.claims)
        if alone:
            self.whatif.remove(pod, source)
        yield
        if alone:
            self.whatif.place(pod, source)

    def _try(self, pod: int, target: int, method: Method) -> str:
        source = int(self.whatif.at[pod])
        lost = self.feasibility.try_move(pod, target, side_by_side=method is not Method.EVICT)
        if lost:
            self._take_back(pod, source, target)
        return lost

    def _take_back(self, pod: int, source: int, target: int) -> None:
        self.whatif.remove(pod, target)
        self.whatif.place(pod, source)

    def _undo(self, done: _Placed) -> None:
        pod = self.columns.pods[done.pod]
        self._take_back(done.pod, done.source, done.target)
        self._disruption.spend(pod, done.method, -1)
        self._budgets.spend(done.source, done.target, self.workloads.key(pod), -1)

    def _why_none(self, wish: Wish, method: Method) -> str:
        """How many of the other nodes each predicate refuses, in the scheduler's manner."""
        source = int(self.whatif.at[wish.pod])
        with self._as_judged(wish.pod, method):
            refused = self.feasibility.tally(wish.pod, source)
        others = len(self.columns.nodes) - 1
        parts = [f"{count} {name}" for name, count in refused.items()]
        left = others - sum(refused.values())
        if left:
            parts.append(f"{left} {self._why_not_wanted(wish)}")
        return f"0/{others} other nodes: {', '.join(parts)}" if parts else "there is no other node"

    def _why_not_wanted(self, wish: Wish) -> str:
        """What keeps a pod from nodes that the scheduler would let it on."""
        reasons = ["over a threshold afterwards"] if not wish.insist else []
        if self.policy.limits.per_node_in is not None:
            reasons.append(f"at limits.perNodeIn ({self.policy.limits.per_node_in})")
        if wish.cost is not None:
            reasons.append("no better for it")
        return " or ".join(reasons)

    def _move(self, strategy: str, wish: Wish, placed: _Placed) -> Move:
        pod = self.columns.pods[placed.pod]
        target = self.columns.nodes[placed.target].name
        cpu, memory = self.view.utilisation_of(placed.target)
        kind, _, name = self.workloads.key(pod)
        return Move(
            namespace=pod.namespace,
            pod=pod.name,
            source=self.columns.nodes[placed.source].name,
            target=target,
            strategy=strategy,
            reason=f"{wish.why}; {target} is then at {cpu:.1f}% CPU and {memory:.1f}% memory",
            method=placed.method,
            uid=pod.uid,
            workload=f"{kind}/{name}",
            priority=pod.priority,
            proposal=self._proposals,
            gain=gain(self._side(placed.pod, placed.source), self._side(placed.pod, placed.target)),
        )

    def _side(self, pod: int, node: int) -> Side:
        """One of the two nodes of a move that is laid in: the target has the pod already, the source no more."""
        here = node == self.whatif.at[pod]
        amounts = self.columns.held(pod) if node == self.columns.pod_at[pod] else self.columns.requests(pod)
        used, taken, capacity = self.whatif.used[:2, node].tolist(), amounts[:2].tolist(), self.view.capacity[:, node]
        others = (used[0] - taken[0], used[1] - taken[1]) if here else (used[0], used[1])
        return Side(others, (taken[0], taken[1]), (int(capacity[0]), int(capacity[1])))

    def _rejection(self, index: int, guard: str, reason: str) -> Rejection:
        pod = self.columns.pods[index]
        return Rejection(pod.namespace, pod.name, guard, reason, node=pod.node)
