"""ResourceOptimization: no node above its thresholds, with the fewest moves."""

from __future__ import annotations

from itertools import combinations
from typing import ClassVar

import numpy as np

from rescheduler.planning.settings import Settings
from rescheduler.planning.strategy import Proposal, Proposals, Strategy
from rescheduler.planning.view import RESOURCES, View

# Pairs are looked for among this many of a node's most helpful pods.
_PAIRED = 24


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
        helped = True
        while helped:  # what one node sheds may make room for another's
            helped = False
            hot = np.flatnonzero((view.used > view.limit).any(axis=0) & view.workers)
            sheds = [_Shed(view, int(node)) for node in hot]
            for shed in sorted(sheds, key=lambda s: (s.cutoff(), -s.heat(), s.node)):
                while (pod := shed.next()) is not None:
                    decision = yield Proposal.one(pod, shed.why())
                    helped |= decision.taken
                    if decision.exhausted and not decision.taken:
                        return


class _Shed:
    """One hot node and the pods that could leave it."""

    def __init__(self, view: View, node: int) -> None:
        self.node = node
        self._view = view
        pods = [pod for pod in view.pods_on(node) if pod not in view.moved]
        sizes = view.held(pods).tolist()
        # Candidates not yet proposed: priority, CPU and memory, pod. In the snapshot's order, which breaks ties.
        self._left = [
            (view.pods[pod].priority, cpu, memory, pod)
            for pod, (cpu, memory) in zip(pods, sizes, strict=True)
            if cpu or memory
        ]

    def heat(self) -> float:
        """How far the node is above its thresholds, in per cent of allocatable."""
        return float((self._view.utilisation_of(self.node) - self._view.thresholds).max())

    def why(self) -> str:
        """What is wrong with the node, for people."""
        found = zip(RESOURCES, self._view.utilisation_of(self.node), self._view.thresholds, strict=True)
        over = [f"{use:.1f}% {name} (threshold {limit:g}%)" for name, use, limit in found if use > limit]
        return f"{self._view.nodes[self.node].name} is at {' and '.join(over)}"

    def cutoff(self) -> int:
        """The lowest priority such that the candidates up to it cover the excess; the highest if none does."""
        levels = {priority for priority, *_ in self._left}
        if len(levels) < 2:
            return max(levels, default=0)
        cpu_over, memory_over = self._view.excess(self.node).tolist()
        for level in sorted(levels)[:-1]:
            cpu = sum(cpu for priority, cpu, _, _ in self._left if priority <= level)
            memory = sum(memory for priority, _, memory, _ in self._left if priority <= level)
            if cpu >= cpu_over and memory >= memory_over:
                return level
        return max(levels)

    def next(self) -> int | None:
        """The pod to propose now; None when the node is no longer hot, or no candidate is left that helps.

        A pod that covers the whole excess ends it, and of those the smallest disturbs least. Of the others the one that
        covers most comes first: largest first is what makes the fewest moves.
        """
        cpu_over, memory_over = self._view.excess(self.node).tolist()
        if (cpu_over <= 0 and memory_over <= 0) or not self._left:
            return None
        level = self.cutoff()
        allowed = [(position, *candidate) for position, candidate in enumerate(self._left) if candidate[0] <= level]
        # How many times over a candidate covers the excess, with its position; a resource within bounds counts not.
        per_cpu, per_memory = _per(cpu_over), _per(memory_over)
        enough = [
            (cpu * per_cpu + memory * per_memory, position)
            for position, _, cpu, memory, _ in allowed
            if cpu >= cpu_over and memory >= memory_over
        ]
        if enough:
            return self._left.pop(min(enough)[1])[3]
        helpful = sorted(
            (-(min(c * per_cpu, 1.0) + min(m * per_memory, 1.0)), c * per_cpu + m * per_memory, position)
            for position, _, c, m, _ in allowed
        )
        if not helpful or not helpful[0][0]:
            return None
        position = helpful[0][2]
        if cpu_over > 0 and memory_over > 0:
            # Largest first is best for one resource; with two, a pair that ends it may not hold the largest.
            position = self._of_a_pair([entry[2] for entry in helpful[:_PAIRED]], cpu_over, memory_over) or position
        return self._left.pop(position)[3]

    def _of_a_pair(self, positions: list[int], cpu_over: int, memory_over: int) -> int | None:
        """The position of a candidate that ends it together with one other; of all pairs the smallest."""
        pairs = (
            (cpu + other_cpu + memory + other_memory, one)
            for (one, (_, cpu, memory, _)), (_, (_, other_cpu, other_memory, _)) in combinations(
                [(position, self._left[position]) for position in positions], 2
            )
            if cpu + other_cpu >= cpu_over and memory + other_memory >= memory_over
        )
        return min(pairs, default=(0, None))[1]


def _per(excess: int) -> float:
    return 1.0 / excess if excess > 0 else 0.0
