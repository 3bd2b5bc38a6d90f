"""The planner: asks strategies for proposals, and alone decides what becomes of them.

It checks guards, method, budgets and feasibility of each, lays what it takes into the what-if, and answers the
strategy, so that the next proposal is made and judged in the world that would then be. A plan is therefore feasible
move by move, in its order. Nothing here acts, waits or reads a clock: the same snapshot and policy give the same plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        self.context = Context(policy, snapshot, self.workloads, methods)
        self._ranking = Ranking(self.columns, self.view, self.feasibility.node_masks)
        self.whatif.listen(self._ranking)
        self._disruption = Disruption(snapshot, self.workloads)
        self._budgets = Budgets(policy.limits, len(snapshot.nodes))
        self._moves: list[Move] = []
        self._moved: set[int] = set()
        self._rejections: dict[int, Rejection] = {}
        self._proposals = 0

    def _above_thresholds(self) -> Ints:
        """[R, N]: what lies above the thresholds, which no move should use."""
        reserve = np.zeros_like(self.columns.allocatable)
        reserve[:2] = self.view.capacity - self.view.limit
        return reserve

    def plan(self, strategies: Iterable[Strategy[Settings]]) -> Plan:
        """Let each strategy propose until it has nothing left to put right."""
        before = picture(self.columns, self.columns.used, self.view)
        ordered = sorted(strategies, key=lambda strategy: (strategy.order, strategy.name))
        for strategy in ordered:
            self._run(strategy)
        rejections = [rejection for pod, rejection in self._rejections.items() if pod not in self._moved]
        return Plan(
            moves=tuple(self._moves),
            rejections=tuple(sorted(rejections, key=lambda r: (r.namespace, r.pod))),
            before=before,
            after=picture(self.columns, self.whatif.used, self.view),
            warnings=(*self.snapshot.warnings, *warnings.about(self.snapshot, self.columns)),
        )

    def _run(self, strategy: Strategy[Settings]) -> None:
        proposals = strategy.propose(self.view)
        try:
            proposal = next(proposals)
            while True:
                proposal = proposals.send(self._decide(strategy.name, proposal))
        except StopIteration:
            return

    def _decide(self, strategy: str, proposal: Proposal) -> Decision:
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
            self._rejections.setdefault(wish.pod, rejection)
            return Decision(rejection=rejection, exhausted=self._budgets.exhausted)
        self._proposals += 1
        self._moves.extend(moves)
        self._moved.update(done.pod for done in placed)
        return Decision(tuple(moves), exhausted=self._budgets.exhausted)

    def _place(self, wish: Wish) -> _Placed | Rejection:
        """Find the best target for a pod and lay the move into the what-if; or say what refuses it."""
        pod = self.columns.pods[wish.pod]
        source = int(self.whatif.at[wish.pod])
        if wish.pod in self._moved:
            return self._rejection(wish.pod, "AlreadyMoved", "the plan moves it already")
        objection = first_objection(pod, self.context)
        if objection is None and source < 0:
            objection = ("UnknownNode", f"its node {pod.node} is not in the input")
        if objection is None:
            objection = self._budgets.objection(source, self.workloads.key(pod))
        if objection is not None:
            return self._rejection(wish.pod, *objection)
        method = self.context.methods.choose(pod)
        objection = self._disruption.objection(pod, method)
        if objection is not None:
            return self._rejection(wish.pod, *objection)
        target = self._find_target(wish, method)
        if isinstance(target, str):
            return self._rejection(wish.pod, "NoTarget", target)
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
        """[N]: where the pod could be moved: an eviction is judged without the original, all else beside it."""
        source = int(self.whatif.at[pod])
        shape = self.columns.shape(pod)
        alone = method is Method.EVICT and bool(shape.affinity or shape.anti_affinity or shape.spread or shape.claims)
        if alone:
            self.whatif.remove(pod, source)
        mask = self.feasibility.mask(pod, room)
        if alone:
            self.whatif.place(pod, source)
        mask[source] = False
        allowed = self._budgets.targets()
        if allowed is not None:
            mask &= allowed
        return mask

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
        """How many nodes each predicate refuses, in the scheduler's manner."""
        refused = self.feasibility.tally(wish.pod)
        nodes = len(self.columns.nodes)
        feasible = nodes - sum(refused.values())
        parts = [f"{count} {name}" for name, count in refused.items()]
        if feasible:
            left = "its own" if feasible == 1 else "its own, over a threshold afterwards, or no better"
            parts.append(f"{feasible} {left}")
        return f"0/{nodes} nodes: {', '.join(parts)}"

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
        )

    def _rejection(self, index: int, guard: str, reason: str) -> Rejection:
        pod = self.columns.pods[index]
        return Rejection(pod.namespace, pod.name, guard, reason, node=pod.node)


def make_plan(snapshot: ClusterSnapshot, policy: Policy, strategies: Sequence[Strategy[Settings]]) -> Plan:
    """One cycle."""
    return Planner(snapshot, policy).plan(strategies)
