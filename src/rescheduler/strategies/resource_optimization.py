"""ResourceOptimization: no node above its thresholds, with the fewest moves."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rescheduler.planning.columns import Ints
from rescheduler.planning.settings import Settings
from rescheduler.planning.strategy import Proposal, Proposals, Strategy
from rescheduler.planning.view import RESOURCES, View


class ResourceOptimization(Strategy[Settings]):
    """Brings each node that is over `cpuThreshold` or `memoryThreshold` under it, with as few moves as can be.

    A node's use is what its pods request, in per cent of what is allocatable. Pods go only to nodes that stay under
    both thresholds. Of a node's pods the lowest priorities that suffice are considered, and of those the largest, until
    one pod covers what is left; then the smallest such pod goes.
    """

    name: ClassVar[str] = "ResourceOptimization"
    order: ClassVar[int] = 200

    def propose(self, view: View) -> Proposals:
        """Node by node: those that need only low priorities first, then the hottest."""
        hot = np.flatnonzero((view.used > view.limit).any(axis=0) & view.working)
        sheds = [_Shed(view, int(node)) for node in hot]
        for shed in sorted(sheds, key=lambda s: (s.cutoff(), -s.heat(), s.node)):
            while (pod := shed.next()) is not None:
                decision = yield Proposal.one(pod, shed.why())
                if decision.exhausted:
                    return


class _Shed:
    """One hot node and the pods that could leave it."""

    def __init__(self, view: View, node: int) -> None:
        self.node = node
        self._view = view
        pods = view.pods_on(node)
        sizes = np.array([view.held(pod) for pod in pods], np.int64).reshape(-1, 2)
        priorities = [view.pods[pod].priority for pod in pods]
        # Candidates not yet proposed: position → pod. Sizes [n, 2] in CPU and memory.
        self._left = {i: pod for i, pod in enumerate(pods) if sizes[i].any() and not view.moved(pod)}
        self._pods, self._sizes, self._priorities = pods, sizes, priorities

    def heat(self) -> float:
        """How far the node is above its thresholds, in per cent of allocatable."""
        return float((self._view.utilisation_of(self.node) - self._view.thresholds).max())

    def why(self) -> str:
        """What is wrong with the node, for people."""
        use, limits = self._view.utilisation_of(self.node), self._view.thresholds
        over = [
            f"{u:.1f}% {name} (threshold {t:g}%)" for u, t, name in zip(use, limits, RESOURCES, strict=True) if u > t
        ]
        return f"{self._view.nodes[self.node].name} is at {' and '.join(over)}"

    def cutoff(self) -> int:
        """The lowest priority such that the candidates up to it cover the excess; the highest if none does."""
        excess = self._view.excess(self.node)
        levels = sorted({self._priorities[i] for i in self._left})
        for level in levels[:-1]:
            if (self._covered(level) >= excess).all():
                return level
        return levels[-1] if levels else 0

    def _covered(self, level: int) -> Ints:
        chosen = [i for i in self._left if self._priorities[i] <= level]
        found: Ints = self._sizes[chosen].sum(axis=0)
        return found

    def next(self) -> int | None:
        """The pod to propose now; None when the node is no longer hot, or no candidate is left that helps."""
        excess = self._view.excess(self.node)
        over = excess > 0
        if not over.any() or not self._left:
            return None
        level = self.cutoff()
        chosen = [i for i in self._left if self._priorities[i] <= level]
        sizes = self._sizes[chosen][:, over] / excess[over]  # 1 is all of the excess
        helps = np.minimum(sizes, 1.0).sum(axis=1)
        enough = (sizes >= 1.0).all(axis=1)
        if enough.any():
            # Any of these ends it: the smallest disturbs least.
            order = np.where(enough, sizes.sum(axis=1), np.inf)
            best = int(order.argmin())
        else:
            best = int(helps.argmax())
            if helps[best] <= 0:
                return None
        return self._left.pop(chosen[best])
