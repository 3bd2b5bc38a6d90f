"""Which of the feasible targets is best, when a strategy leaves it open: as the scheduler would score them.

Least used first; then what the pod prefers (node affinity) and what nodes would rather not have (PreferNoSchedule).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from rescheduler.model.plan import Method
from rescheduler.model.policy import Limits
from rescheduler.model.shape import Shape
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
    """Costs of targets; a listener of the what-if, so that the use of nodes is always at hand."""

    def __init__(self, columns: Columns, view: View, masks: NodeMasks) -> None:
        self._columns = columns
        self._view = view
        self._masks = masks
        self._preferences: dict[int, Floats | None] = {}
        self._per_threshold: Floats = 100.0 / np.maximum(view.thresholds, 1e-9)
        self.heat: Floats = (view.utilisation * self._per_threshold).max(axis=0, initial=0.0)
        """[N]: the use of the scarcest resource, in per cent of its threshold."""

    def changed(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        self.heat[node] = (self._view.utilisation_of(node) * self._per_threshold[:, node]).max()

    def cost(self, pod: int) -> Floats:
        """[N]: lower is better."""
        preference = self._preference(pod)
        return self.heat if preference is None else self.heat + preference

    def _preference(self, pod: int) -> Floats | None:
        """[N]: what the pod's and the nodes' soft rules add to the cost; None when there are none."""
        number = int(self._columns.pod_shape[pod])
        if number not in self._preferences:
            self._preferences[number] = self._reckon(self._columns.shapes[number])
        return self._preferences[number]

    def _reckon(self, shape: Shape) -> Floats | None:
        frowned = self._masks.frowned_on(shape)
        if not shape.preferred_nodes and not frowned.any():
            return None
        cost: Floats = np.where(frowned, _WORTH, 0.0)
        total = sum(weight for weight, _ in shape.preferred_nodes)
        for weight, term in shape.preferred_nodes:
            cost[self._masks.any_of((term,))] -= _WORTH * weight / max(total, 1)
        return cost


# A target that the rules would not survive is passed over for the next best; this many are looked at before giving up.
_TARGETS_TRIED = 64

Consulted = tuple[Strategy[StrategySettings], View]
"""A strategy, and the nodes that it is responsible for."""


@dataclass(frozen=True, slots=True)
class _Tier:
    """What a target must be besides feasible; the first tier that has one counts."""

    under_thresholds: bool = True
    suiting: bool = True


_BY_CHOICE = (_Tier(),)
_FORCED = (_Tier(), _Tier(under_thresholds=False), _Tier(under_thresholds=False, suiting=False))


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
        """The strategies that have a say in where pods go."""
        self._objecting: list[str] = []
        """Those that had one about the pod that was looked at last."""

    def find(self, pod_move: PodMove, method: Method, strategy: str) -> int | str:
        """The best target that the rules survive, with the move laid in; or which rule no target survives."""
        cost = self._ranking.cost(pod_move.pod) if pod_move.cost is None else pod_move.cost
        feasible = self._feasible(pod_move.pod, method)
        if pod_move.cost is not None:
            feasible &= np.isfinite(cost)
        if not feasible.any():
            return ""
        broken = ""
        suiting = self.accepted_by_others(pod_move.pod, strategy)
        for tier in _FORCED if pod_move.force else _BY_CHOICE:
            mask = feasible & self.under_thresholds(pod_move.pod) if tier.under_thresholds else feasible
            if tier.suiting and suiting is not None:
                mask = mask & suiting
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
        """[N]: nodes that the pod would not make hot. One that is hot takes nothing, not even what asks for nothing."""
        view, asked = self._view, self._view.requests(pod)
        used, limit = view.used, view.limit
        mask: Mask = used[0] + asked[0] <= limit[0]
        for resource in range(1, len(asked)):
            mask &= used[resource] + asked[resource] <= limit[resource]
        return mask

    def _feasible(self, pod: int, method: Method) -> Mask:
        with self._as_judged(pod, method):
            mask = self.feasibility.mask(pod)
        if self._whatif.at[pod] >= 0:
            mask[self._whatif.at[pod]] = False
        allowed = self._budgets.targets()
        if allowed is not None:
            mask &= allowed
        return mask

    def accepted_by_others(self, pod: int, *but: str) -> Mask | None:
        """[N]: where no strategy but these would want the pod away again; None for anywhere."""
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
        """The cheapest of these nodes that the rules survive, and else what they would lose."""
        broken = ""
        costs = cost[nodes]
        for _ in range(min(len(nodes), _TARGETS_TRIED)):
            best = int(costs.argmin())
            target = int(nodes[best])
            lost = self._try(pod, target, method)
            if not lost:
                return target, ""
            broken = lost
            costs[best] = np.inf
        return None, broken

    def _try(self, pod: int, target: int, method: Method) -> str:
        source = int(self._whatif.at[pod])
        lost = self.feasibility.try_move(pod, target, side_by_side=method is not Method.EVICT)
        if lost:
            self.revert(pod, source, target)
        return lost

    def revert(self, pod: int, source: int, target: int) -> None:
        """Undo a move that was laid in."""
        self._whatif.remove(pod, target)
        self._whatif.place(pod, source)

    @contextmanager
    def _as_judged(self, pod: int, method: Method) -> Iterator[None]:
        """The world in which a move is judged: an eviction without the original, all else beside it."""
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
        """How many of the other nodes each predicate refuses, in the scheduler's manner."""
        source = int(self._whatif.at[pod_move.pod])
        with self._as_judged(pod_move.pod, method):
            refused = self.feasibility.count_refusals(pod_move.pod, source)
        others = len(self._columns.nodes) - 1
        parts = [f"{count} {name}" for name, count in refused.items()]
        left = others - sum(refused.values())
        if left:
            parts.append(f"{left} {self._why_not_wanted(pod_move, limits)}")
        return f"0/{others} other nodes: {', '.join(parts)}" if parts else "there is no other node"

    def _why_not_wanted(self, pod_move: PodMove, limits: Limits) -> str:
        """What keeps a pod from nodes that the scheduler would let it on."""
        reasons = ["over a threshold afterwards"] if not pod_move.force else []
        if limits.per_node_in is not None:
            reasons.append(f"at limits.perNodeIn ({limits.per_node_in})")
        if pod_move.cost is not None:
            reasons.append(pod_move.never)
        if self._objecting:
            reasons.append(f"where {' or '.join(dict.fromkeys(self._objecting))} would want it away again")
        return " or ".join(reasons)


def apply_arrival(targets: TargetFinder, pod: int, node: int) -> Callable[[], None] | None:
    """Let a pending pod be on a node if it fits there; what undoes it, or None when it does not fit."""
    whatif = targets.feasibility.whatif
    fits: Mask = targets.feasibility.mask(pod)
    if whatif.at[pod] >= 0 or not bool(fits[node]):
        return None
    whatif.place(pod, node)
    return lambda: whatif.remove(pod, node)
