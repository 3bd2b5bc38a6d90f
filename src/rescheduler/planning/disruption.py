"""What evictions cost: the headroom of disruption budgets, and of workloads that have none.

A plan spends headroom as it grows, so that its evictions together stay within every budget. A handoff spends none:
its copy is Ready and counted before the original goes. A copy of a pod without controller counts too where the budget
asks for a number of pods; where it goes by percentages, only the headroom is sure.
"""

from __future__ import annotations

from collections import Counter
from math import ceil

from rescheduler.model.objects import DisruptionBudget, Pod
from rescheduler.model.plan import Method
from rescheduler.model.selector import Labels
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.workloads import Workloads


class Disruption:
    """The headroom that is left; spent move by move."""

    def __init__(self, snapshot: ClusterSnapshot, workloads: Workloads) -> None:
        self._snapshot = snapshot
        self._workloads = workloads
        self._by_namespace: dict[str, list[int]] = {}
        for index, budget in enumerate(snapshot.budgets):
            self._by_namespace.setdefault(budget.namespace, []).append(index)
        self._left: dict[int, int] = {}
        self._evicted: Counter[tuple[str, str, str]] = Counter()
        self._selecting: dict[tuple[str, int], list[int]] = {}

    def objection(self, pod: Pod, method: Method) -> tuple[str, str] | None:
        """Which guard says that this pod cannot be moved this way any more, and why."""
        if method is Method.HANDOFF:
            return None
        budgets = self._of(pod)
        if len(budgets) > 1:
            names = ", ".join(self._snapshot.budgets[index].name for index in budgets)
            return "TwoDisruptionBudgets", f"disruption budgets {names} select it: the Eviction API refuses such a pod"
        for index in budgets:
            if self._spends(self._snapshot.budgets[index], pod, method) and self.left(index) < 1:
                budget = self._snapshot.budgets[index]
                spent = "" if self._left_at_first(index) < 1 else " after the moves before it"
                return "DisruptionBudget", f"disruption budget {budget.name} allows no disruption{spent}"
        if method is Method.EVICT:
            return self._too_many(pod)
        return None

    def _too_many(self, pod: Pod) -> tuple[str, str] | None:
        """One workload's replicas don't all go at once: at most half of them, but always one."""
        key = self._workloads.key(pod)
        replicas = self._workloads.replicas(pod)
        if self._evicted[key] < max(1, replicas // 2):
            return None
        return (
            "WorkloadAtOnce",
            f"the plan evicts {self._evicted[key]} of {replicas} replicas of {key[0]} {key[2]} already",
        )

    def spend(self, pod: Pod, method: Method, sign: int = 1) -> None:
        """Take a move into account, or with sign -1 out of it."""
        if method is Method.HANDOFF:
            return
        for index in self._of(pod):
            if self._spends(self._snapshot.budgets[index], pod, method):
                self._left[index] = self.left(index) - sign
        if method is Method.EVICT:
            self._evicted[self._workloads.key(pod)] += sign

    def left(self, index: int) -> int:
        """How many more evictions a budget allows."""
        if index not in self._left:
            self._left[index] = self._left_at_first(index)
        return self._left[index]

    def _left_at_first(self, index: int) -> int:
        budget = self._snapshot.budgets[index]
        return budget.allowed if budget.allowed is not None else self._reckon(budget)

    @staticmethod
    def _spends(budget: DisruptionBudget, pod: Pod, method: Method) -> bool:
        if method is Method.COPY and isinstance(budget.min_available, int):
            return False
        return pod.ready or not budget.always_evict_unhealthy

    def _of(self, pod: Pod) -> list[int]:
        key = (pod.namespace, id(pod.labels))
        if key not in self._selecting:
            near = self._by_namespace.get(pod.namespace, ())
            self._selecting[key] = [i for i in near if _selects(self._snapshot.budgets[i], pod.labels)]
        return self._selecting[key]

    def _reckon(self, budget: DisruptionBudget) -> int:
        """What the controller would allow, for a budget that has no status: healthy pods less those that must be."""
        pods = [
            pod
            for pod in self._snapshot.pods
            if pod.namespace == budget.namespace and not pod.finished and _selects(budget, pod.labels)
        ]
        healthy = sum(pod.ready and not pod.deleting for pod in pods)
        owners = {(pod.owner, self._workloads.replicas(pod)) for pod in pods if pod.owner is not None}
        expected = sum(replicas for _, replicas in owners) + sum(pod.owner is None for pod in pods)
        if budget.max_unavailable is not None:
            desired = expected - _scaled(budget.max_unavailable, expected, nonsense=0)
        else:
            wanted = 1 if budget.min_available is None else budget.min_available
            desired = _scaled(wanted, expected, nonsense=expected)
        return max(0, healthy - max(0, desired))


def _selects(budget: DisruptionBudget, labels: Labels) -> bool:
    return budget.selector is not None and budget.selector.matches(labels)


def _scaled(number: int | str, total: int, *, nonsense: int) -> int:
    """A number, or a percentage of the total rounded up; a text that is neither counts as what protects everything."""
    if isinstance(number, int):
        return number
    digits = number.removesuffix("%")
    sensible = number.endswith("%") and digits.isdecimal() and len(digits) <= 3
    return ceil(total * int(digits) / 100) if sensible else nonsense
