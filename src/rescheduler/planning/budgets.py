"""How much one plan may do: moves in all, into and out of a node, in a namespace, of a workload."""

from __future__ import annotations

from collections import Counter

import numpy as np

from rescheduler.model.policy import Limits
from rescheduler.model.snapshot import WorkloadKey
from rescheduler.planning.columns import Mask


class Budgets:
    """What is left of the limits; spent move by move."""

    def __init__(self, limits: Limits, node_count: int) -> None:
        self._limits = limits
        self._moves = 0
        self._out: Counter[int] = Counter()
        self._into: Counter[int] = Counter()
        self._namespaces: Counter[str] = Counter()
        self._workloads: Counter[WorkloadKey] = Counter()
        self._open = np.ones(node_count, np.bool_)
        if limits.per_node_in == 0:
            self._open[:] = False

    @property
    def exhausted(self) -> bool:
        """Whether no more move whatever is allowed."""
        return self._limits.total is not None and self._moves >= self._limits.total

    @property
    def left(self) -> int | None:
        """How many more moves are allowed; None without a limit."""
        return None if self._limits.total is None else max(self._limits.total - self._moves, 0)

    def targets(self) -> Mask | None:
        """[N]: nodes that may still receive pods; None when all may."""
        return None if self._limits.per_node_in is None else self._open

    def objection(self, source: int, workload: WorkloadKey) -> tuple[str, str] | None:
        """Which limit is reached for a move of this workload from this node, as a guard and a reason."""
        limits = self._limits
        if self.exhausted:
            return (
                "MaxReschedulePods",
                f"maxReschedulePods ({limits.total}) is reached: this and what would follow waits for the next cycle",
            )
        if limits.per_node_out is not None and self._out[source] >= limits.per_node_out:
            return "NodeOutLimit", f"limits.perNodeOut ({limits.per_node_out}) is reached for its node"
        if limits.per_namespace is not None and self._namespaces[workload[1]] >= limits.per_namespace:
            return "NamespaceLimit", f"limits.perNamespace ({limits.per_namespace}) is reached for {workload[1]}"
        if limits.per_workload is not None and self._workloads[workload] >= limits.per_workload:
            return "WorkloadLimit", f"limits.perWorkload ({limits.per_workload}) is reached for {workload[2]}"
        return None

    def spend(self, source: int, target: int, workload: WorkloadKey, sign: int = 1) -> None:
        """Take a move into account, or with sign -1 out of it."""
        self._moves += sign
        self._out[source] += sign
        self._into[target] += sign
        self._namespaces[workload[1]] += sign
        self._workloads[workload] += sign
        if self._limits.per_node_in is not None and target >= 0:  # what is removed goes nowhere
            self._open[target] = self._into[target] < self._limits.per_node_in
