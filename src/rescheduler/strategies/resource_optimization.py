from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from rescheduler.model.policy import ThresholdMode, Thresholds
from rescheduler.planning.api import PodMove, Proposal, Proposals, Strategy
from rescheduler.planning.columns import Floats, Ints, Mask
from rescheduler.planning.settings import Misfit
from rescheduler.planning.view import View
from rescheduler.strategies.support.settings import (
    Percents,
    PodFilters,
    PodSelection,
    explain_too_few,
    find_uncounted,
)

# Pairs are looked for among this many of a node's most helpful pods.
_PAIRED = 24
_NEVER = "above one of the lowThresholds"
_UPPER = {"cpu": "cpuThreshold", "memory": "memoryThreshold"}


class ResourceOptimizationSettings(PodFilters):
    """Which pods leave hot nodes, and which nodes take them."""

    low_thresholds: Percents = Field(
        {},
        description=(
            "Nodes that use more than this % of any of these resources take no pods from hot nodes, such as "
            "`{cpu: 40, memory: 40}`. Possible are `cpu`, `memory` and resources with one of the "
            "`thresholds`. With `thresholdMode: deviation` they are points below the mean of the node's "
            "pool. Empty means any node that stays under its thresholds."
        ),
    )
    min_underused_nodes: int = Field(
        0,
        ge=0,
        description=(
            "Nothing is moved unless at least this many nodes are under all `lowThresholds`; in a node pool,"
            " nodes of that pool. Descheduler and koordinator act only above their `numberOfNodes`: set one "
            "more here."
        ),
    )

    @field_validator("min_underused_nodes")
    @classmethod
    def _can_be_counted(cls, wanted: int, info: ValidationInfo) -> int:
        if wanted and info.data.get("low_thresholds") == {}:
            raise ValueError("needs lowThresholds: they say which nodes are underused")
        return wanted

    def misfits(self, thresholds: Thresholds, counted: Collection[str]) -> Iterator[Misfit]:
        """Report low thresholds of resources that do not count, or above the upper ones."""
        yield from find_uncounted("lowThresholds", self.low_thresholds, counted)
        if thresholds.mode is ThresholdMode.DEVIATION:
            return  # points below the mean and points above it: nothing to compare
        for name, upper in thresholds.named().items():
            low = self.low_thresholds.get(name, 0.0)
            if low > upper:
                field = _UPPER.get(name, f"thresholds.{name}")
                yield Misfit(("lowThresholds", name), f"{low:g} is above {field} ({upper:g})")


class ResourceOptimization(Strategy[ResourceOptimizationSettings]):
    """Brings each node that is over one of its thresholds under it, with as few moves as possible.

    The thresholds are `cpuThreshold`, `memoryThreshold` and those of other `thresholds`, or a pool's own. A node's use
    is what its pods request, or the measured usage (`utilization`), in per cent of allocatable. Pods go only to nodes
    that stay under their thresholds. Of a node's pods the lowest priorities that suffice are considered, among equals
    the lowest [eviction costs](when.md#marks) that suffice. Of these the largest move first, until one pod covers the
    rest; then the smallest such pod moves. So eviction costs may lead to more moves: a cost says that moves of other
    pods are better than one of this pod, as it does for koordinator. A node counts as hot after `hotAfterCycles` cycles
    in a row.

    With `lowThresholds` only underused nodes take pods: those at or below all of them at the start of the plan, or by
    the plan's own moves. Such a node is filled up to its upper thresholds. Pods that the filters exclude stay, however
    hot their node is.
    """

    order = 200
    for_gain = True

    def propose(self, view: View) -> Proposals:
        """Handle one node after the other: those that need only low priorities first, then the hottest."""
        if self.wait_reason(view):
            return
        selection, low = PodSelection(self.settings, view), self.settings.low_thresholds
        underused = UnderusedNodes(view, self.pool, low) if low else None
        helped = True
        while helped:  # what one node hot_nodes may make room for another's
            helped = False
            hot = np.flatnonzero(view.hot)
            hot_nodes = [_HotNode(view, int(node), selection) for node in hot]
            for hot_node in sorted(hot_nodes, key=lambda s: (s.needed(s.priorities), -s.heat(), s.node)):
                while (pod := hot_node.next()) is not None:
                    cost = underused.cost(pod) if underused is not None else None
                    result = yield Proposal((PodMove(pod, hot_node.why(), cost, never=_NEVER),))
                    helped |= result.accepted
                    if result.is_final:
                        return

    def wait_reason(self, view: View) -> str:
        """Return why nothing is done if too few nodes are underused."""
        wanted = self.settings.min_underused_nodes
        if not wanted or not view.hot.any():
            return ""
        found = UnderusedNodes(view, self.pool, self.settings.low_thresholds).first & view.open
        return explain_too_few(int(found.sum()), wanted, "under all lowThresholds")


class UnderusedNodes:
    """Nodes at or below the low thresholds of all resources; follows the view."""

    def __init__(self, view: View, pool: str | None, low: Mapping[str, float]) -> None:
        self._view = view
        self._limit: Ints = view.levels.low(pool, low)
        self.first: Mask = np.asarray((view.first <= self._limit).all(axis=0))
        """[N]: before any move."""

    def cost(self, pod: int) -> Floats:
        """[N]: the costs of targets for a pod from a hot node; infinite for nodes that are not underused."""
        return np.where(self.first | self._view.within(self._limit), self._view.cost(pod), np.inf)


class _HotNode:
    """One hot node and the pods that could leave it."""

    def __init__(self, view: View, node: int, selection: PodSelection) -> None:
        self.node = node
        self._view = view
        pods = selection.select([pod for pod in view.pods_on(node) if pod not in view.moved])
        sizes = view.held(pods)
        some: Mask = np.asarray(sizes.any(axis=1))
        # In the snapshot's order, which breaks ties.
        self._pods = [pod for pod, size in zip(pods, some.tolist(), strict=True) if size]
        self._sizes: Ints = sizes[some]
        self.priorities: Ints = np.array([view.pods[pod].priority for pod in self._pods], np.int64)
        self._ranks: Ints = np.array([view.pods[pod].rank for pod in self._pods], np.int64)
        self._left = np.ones(len(self._pods), np.bool_)  # candidates not yet proposed

    def heat(self) -> float:
        """Return how far the node is above its thresholds, in per cent of allocatable."""
        return float((self._view.utilisation_of(self.node) - self._view.thresholds[:, self.node]).max())

    def why(self) -> str:
        """Describe which thresholds the node exceeds."""
        view = self._view
        found = zip(view.resources, view.utilisation_of(self.node), view.thresholds[:, self.node], strict=True)
        over = [f"{use:.1f}% {name} (threshold {limit:.4g}%)" for name, use, limit in found if use > limit]
        return f"{view.nodes[self.node].name} is at {' and '.join(over)}"

    def needed(self, of: Ints) -> int:
        """Return the lowest priority or rank up to which candidates cover the excess; the highest if none does.

        Nodes are sorted by priorities alone: among equals the hottest node is more urgent than a lower cost.
        """
        left = np.flatnonzero(self._left)
        if not len(left):
            return 0
        low_first = left[of[left].argsort(kind="stable")]
        enough = (self._sizes[low_first].cumsum(axis=0) >= self._view.excess(self.node)).all(axis=1)
        return int(of[low_first[enough.argmax() if enough.any() else -1]])

    def next(self) -> int | None:
        """Return the pod to propose now; None when the node is not hot any more, or no candidate helps.

        A pod that covers the whole excess ends it, and of those the smallest disturbs least. Otherwise the pod that
        covers most comes first: largest first makes the fewest moves.
        """
        excess = self._view.excess(self.node)
        over = excess > 0
        if not over.any() or not self._left.any():
            return None
        allowed = np.flatnonzero(self._left & (self._ranks <= self.needed(self._ranks)))
        sizes = self._sizes[allowed][:, over]
        # How many times over a candidate covers the excess; a resource within bounds counts not.
        shares: Floats = sizes / excess[over]
        times = shares.sum(axis=1)
        enough = (sizes >= excess[over]).all(axis=1)
        if enough.any():
            return self._take(int(allowed[np.where(enough, times, np.inf).argmin()]))
        covered = np.minimum(shares, 1.0).sum(axis=1)
        if not covered.any():
            return None
        best = np.lexsort((allowed, times, -covered))
        position = best[0]
        if over.sum() > 1:
            # Largest first is best for one resource; with two, a pair that ends it may not hold the largest.
            position = _of_a_pair(sizes, excess[over], best[:_PAIRED], times)
        return self._take(int(allowed[position]))

    def _take(self, position: int) -> int:
        self._left[position] = False
        return self._pods[position]


def _of_a_pair(sizes: Ints, excess: Ints, best: NDArray[np.intp], times: Floats) -> int:
    """Return one of the smallest pair that covers the excess together; without such a pair the best candidate."""
    first, second = np.triu_indices(len(best), 1)
    one, other = best[first], best[second]
    ends = (sizes[one] + sizes[other] >= excess).all(axis=1)
    if not ends.any():
        return int(best[0])
    return int(one[np.where(ends, times[one] + times[other], np.inf).argmin()])
