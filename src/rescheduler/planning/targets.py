"""Finds the best target of a move, and applies the move to the what-if.

Where a strategy does not rank targets, they are ranked as the scheduler would score them: the least used first, and
preferences of pods (node affinity) and nodes (PreferNoSchedule).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import numpy as np

from rescheduler.model.plan import Method
from rescheduler.model.policy import Limits
from rescheduler.planning.api import PodMove, Strategy
from rescheduler.planning.budgets import Budgets
from rescheduler.planning.columns import Columns, Floats, Mask
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.predicates.support.node_masks import NodeMasks
from rescheduler.planning.settings import StrategySettings
from rescheduler.planning.view import View

# How much use of a node a preference outweighs: a fully preferred node is chosen over one that is 25 points emptier.
_WORTH = 25.0


class TargetRanking:
    """The usual costs of targets; a listener of the what-if, so that the use of nodes is up to date."""

    def __init__(self, columns: Columns, view: View, masks: NodeMasks) -> None:
        self._columns = columns
        self._view = view
        self._masks = masks
        self._preference: Callable[[int], Floats | None] = cache(self._compute_preference)
        self._per_threshold: Floats = 100.0 / np.maximum(view.thresholds, 1e-9)
        self.heat: Floats = (view.utilisation * self._per_threshold).max(axis=0, initial=0.0)
        """[N]: the use of the scarcest resource, in per cent of its threshold."""

    def on_change(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        self.heat[node] = (self._view.utilisation_of(node) * self._per_threshold[:, node]).max()

    def cost(self, pod: int) -> Floats:
        """[N]: lower is better."""
        preference = self._preference(int(self._columns.pod_shape[pod]))
        return self.heat if preference is None else self.heat + preference

    def _compute_preference(self, number: int) -> Floats | None:
        """[N]: what soft rules of pods of this shape and of the nodes add to the cost; None if there are none."""
        shape = self._columns.shapes[number]
        discouraged = self._masks.discouraged(shape)
        if not shape.preferred_nodes and not discouraged.any():
            return None
        cost: Floats = np.where(discouraged, _WORTH, 0.0)
        total = sum(weight for weight, _ in shape.preferred_nodes)
        for weight, term in shape.preferred_nodes:
            cost[self._masks.any_of((term,))] -= _WORTH * weight / max(total, 1)
        return cost


# If a move would break rules, the next best target is tried; this many are tried before giving up.
_TARGETS_TRIED = 64

Consulted = tuple[Strategy[StrategySettings], View]
"""A strategy, and what it sees: the nodes of its pool."""


_BY_CHOICE = ((True, True),)
_FORCED = ((True, True), (False, True), (False, False))
"""Whether a target must stay under its thresholds, and be accepted by all strategies. The first with a target counts.
"""


class TargetFinder:
    """Finds targets in one what-if."""

    def __init__(self, feasibility: Feasibility, view: View, ranking: TargetRanking, budgets: Budgets) -> None:
        self.feasibility = feasibility
        self._whatif = feasibility.whatif
        self._columns = feasibility.whatif.columns
        self._view = view
        self._ranking = ranking
        self._budgets = budgets
        self.consulted: Sequence[Consulted] = ()
        """The strategies whose `accepts` counts."""
        self._objecting: list[str] = []
        """Those that limited the targets of the last pod."""

    def find(self, pod_move: PodMove, method: Method, strategy: str) -> int | str:
        """Find the best target and apply the move; or return which rule the move would break on every target."""
        cost = self._ranking.cost(pod_move.pod) if pod_move.cost is None else pod_move.cost
        feasible = self._feasible(pod_move.pod, method)
        if pod_move.cost is not None:
            feasible &= np.isfinite(cost)
        if not feasible.any():
            return ""
        broken = ""
        accepted = self.accepted_by_others(pod_move.pod, strategy)
        for under_thresholds, by_all in _FORCED if pod_move.force else _BY_CHOICE:
            mask = feasible & self.under_thresholds(pod_move.pod) if under_thresholds else feasible
            if by_all and accepted is not None:
                mask = mask & accepted
            target, lost = self._best(pod_move.pod, np.flatnonzero(mask), cost, method)
            if target is not None:
                return target
            broken = lost or broken
        return broken

    def feasible_targets(self, pod: int, method: Method) -> Mask:
        """[N]: where the pod could be moved now, within thresholds and limits."""
        found: Mask = self._feasible(pod, method) & self.under_thresholds(pod)
        return found

    def under_thresholds(self, pod: int) -> Mask:
        """[N]: nodes that the pod would not make hot. A hot node takes nothing, not even pods without requests."""
        view, asked = self._view, self._view.requests(pod)
        used, limit = view.used, view.limit
        mask: Mask = used[0] + asked[0] <= limit[0]
        for resource in range(1, len(asked)):
            mask &= used[resource] + asked[resource] <= limit[resource]
        return mask

    def _feasible(self, pod: int, method: Method) -> Mask:
        with self.without_original(pod, method):
            mask = self.feasibility.mask(pod)
        if self._whatif.at[pod] >= 0:
            mask[self._whatif.at[pod]] = False
        allowed = self._budgets.targets()
        if allowed is not None:
            mask &= allowed
        return mask

    def accepted_by_others(self, pod: int, *but: str) -> Mask | None:
        """[N]: nodes where all strategies but these would leave the pod alone; None means all of them."""
        mask: Mask | None = None
        self._objecting = []
        for other, view in self.consulted:
            if other.name in but:
                continue
            found = other.accepts(view, pod)
            if found is not None:
                self._objecting.append(other.name)
                mask = found | ~view.scope if mask is None else mask & (found | ~view.scope)
        return mask

    def _best(self, pod: int, nodes: np.ndarray, cost: Floats, method: Method) -> tuple[int | None, str]:
        """Find the cheapest of these nodes where no rule would be broken; otherwise return the rule."""
        broken = ""
        source, costs = int(self._whatif.at[pod]), cost[nodes]
        for _ in range(min(len(nodes), _TARGETS_TRIED)):
            best = int(costs.argmin())
            target = int(nodes[best])
            broken = self.feasibility.try_move(pod, target, side_by_side=method is not Method.EVICT)
            if not broken:
                return target, ""
            self.revert(pod, source, target)
            costs[best] = np.inf
        return None, broken

    def revert(self, pod: int, source: int, target: int) -> None:
        """Undo a move."""
        self._whatif.remove(pod, target)
        self._whatif.place(pod, source)

    @contextmanager
    def without_original(self, pod: int, method: Method) -> Iterator[None]:
        """Judge an eviction without the original pod; by other methods both exist for a while."""
        source = int(self._whatif.at[pod])
        shape = self._columns.shape(pod)
        # Without rules about other pods or volumes, its own absence changes nothing for another node.
        ruled = bool(shape.affinity or shape.anti_affinity or shape.spread or shape.claims)
        alone = method is Method.EVICT and ruled and source >= 0
        if alone:
            self._whatif.remove(pod, source)
        yield
        if alone:
            self._whatif.place(pod, source)

    def explain_none(self, pod_move: PodMove, method: Method, limits: Limits) -> str:
        """Count the other nodes by the predicate that refuses them, like kube-scheduler."""
        source = int(self._whatif.at[pod_move.pod])
        with self.without_original(pod_move.pod, method):
            refused = self.feasibility.count_refusals(pod_move.pod, source)
        others = len(self._columns.nodes) - 1
        parts = [f"{count} {name}" for name, count in refused.items()]
        left = others - sum(refused.values())
        if left:
            parts.append(f"{left} {self._explain_rest(pod_move, limits)}")
        return f"0/{others} other nodes: {', '.join(parts)}" if parts else "there is no other node"

    def _explain_rest(self, pod_move: PodMove, limits: Limits) -> str:
        """Explain why feasible nodes are not targets."""
        reasons = ["over a threshold afterwards"] if not pod_move.force else []
        if limits.per_node_in is not None:
            reasons.append(f"at limits.perNodeIn ({limits.per_node_in})")
        if pod_move.cost is not None:
            reasons.append(pod_move.never)
        if self._objecting:
            reasons.append(f"where {' or '.join(dict.fromkeys(self._objecting))} would move it away again")
        return " or ".join(reasons)
