"""What one plan may spend: the configured limits, each namespace's hour, and the headroom of disruption budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import ceil

import numpy as np

from rescheduler.model.migration import PodMigration
from rescheduler.model.move_history import is_by_choice
from rescheduler.model.objects import DisruptionBudget, Pod
from rescheduler.model.plan import Method
from rescheduler.model.policy import Policy
from rescheduler.model.selector import Labels
from rescheduler.model.snapshot import ClusterSnapshot, WorkloadKey
from rescheduler.planning.columns import Mask
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.workloads import Workloads

Objection = tuple[str, str]
"""What refuses to move a pod (the name of a guard or of a limit), and why."""


class Budgets:
    """What is left of the configured limits; moves spend it one by one."""

    def __init__(self, policy: Policy, node_count: int) -> None:
        self._limits = limits = policy.limits
        self._most = policy.max_reschedule_pods
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
        """Whether no more moves are allowed."""
        return self._most is not None and self._moves >= self._most

    @property
    def moves_left(self) -> int | None:
        """How many more moves are allowed; None means no limit."""
        return None if self._most is None else max(self._most - self._moves, 0)

    def targets(self) -> Mask | None:
        """[N]: nodes that may still receive pods; None means all of them."""
        return None if self._limits.per_node_in is None else self._open

    def objection(self, source: int, workload: WorkloadKey) -> Objection | None:
        """Find the limit that forbids a move of this workload from this node."""
        limits = self._limits
        if self.exhausted:
            why = f"maxReschedulePods ({self._most}) is reached: this and what would follow waits for the next cycle"
            return PlanGuard.MAX_RESCHEDULE_PODS, why
        if limits.per_node_out is not None and self._out[source] >= limits.per_node_out:
            return PlanGuard.NODE_OUT_LIMIT, f"limits.perNodeOut ({limits.per_node_out}) is reached for its node"
        if limits.per_namespace is not None and self._namespaces[workload[1]] >= limits.per_namespace:
            why = f"limits.perNamespace ({limits.per_namespace}) is reached for {workload[1]}"
            return PlanGuard.NAMESPACE_LIMIT, why
        if limits.per_workload is not None and self._workloads[workload] >= limits.per_workload:
            return PlanGuard.WORKLOAD_LIMIT, f"limits.perWorkload ({limits.per_workload}) is reached for {workload[2]}"
        return None

    def spend(self, source: int, target: int, workload: WorkloadKey, sign: int = 1) -> None:
        """Count a move, or with sign -1 uncount it."""
        self._moves += sign
        self._out[source] += sign
        self._into[target] += sign
        self._namespaces[workload[1]] += sign
        self._workloads[workload] += sign
        if self._limits.per_node_in is not None and target >= 0:  # a removed pod has no target
            self._open[target] = self._into[target] < self._limits.per_node_in


FIELD = "when.movesPerHourPerNamespace"
HOUR = 3600.0
COUNTS = HOUR + 1.0  # start times are written in whole seconds


def counts_for_hour(migration: PodMigration) -> bool:
    """Whether the hourly limits hold for it; also where it was approved by a version without such limits."""
    return migration.spec.windowed or (migration.spec.approval_required and is_by_choice(migration))


def is_ordered(migration: PodMigration) -> bool:
    """Whether it has not started yet."""
    return not migration.status.over and not migration.status.attempts


def count_by_namespace(migrations: Iterable[PodMigration], now: float | None) -> Counter[str]:
    """Count the moves of each namespace within the hour."""
    found: Counter[str] = Counter()
    for each in migrations:
        started = each.status.start_time
        lately = started is not None and now is not None and now - started < COUNTS
        if counts_for_hour(each) and (lately or is_ordered(each)):
            found[each.namespace] += 1
    return found


class HourlyLimit:
    """What is left of each namespace's moves per hour; mandatory moves spend nothing of it."""

    def __init__(self, snapshot: ClusterSnapshot, most: int | None) -> None:
        self._before = snapshot.hourly
        self._most = most
        self._planned: Counter[str] = Counter()

    def objection(self, pod: Pod) -> Objection | None:
        """Explain why no more pods of its namespace may move within the hour."""
        if self._most is None:
            return None
        before, planned = self._before.get(pod.namespace, 0), self._planned[pod.namespace]
        if before + planned < self._most:
            return None
        of_these = f"{before} begun or ordered within the hour and {planned} in this plan"
        why = f"{FIELD} ({self._most}) is reached for {pod.namespace}, with {of_these}"
        return PlanGuard.MOVES_PER_HOUR_PER_NAMESPACE, why

    def spend(self, pod: Pod, sign: int = 1) -> None:
        """Count a move, or with sign -1 uncount it."""
        self._planned[pod.namespace] += sign


class DisruptionHeadroom:
    """What is left of the headroom of disruption budgets; moves spend it one by one."""

    def __init__(self, snapshot: ClusterSnapshot, workloads: Workloads) -> None:
        self._snapshot = snapshot
        self._workloads = workloads
        self._by_namespace: dict[str, list[int]] = {}
        for index, budget in enumerate(snapshot.budgets):
            self._by_namespace.setdefault(budget.namespace, []).append(index)
        self._left: dict[int, int] = {}
        self._evicted: Counter[tuple[str, str, str]] = Counter()
        self._selecting: dict[tuple[str, int], list[int]] = {}

    def objection(self, pod: Pod, method: Method) -> Objection | None:
        """Find the disruption budget, or the limit per workload, that forbids moving a pod by this method."""
        if method is Method.HANDOFF:
            return None
        budgets = self._of(pod)
        if len(budgets) > 1:
            names = ", ".join(self._snapshot.budgets[index].name for index in budgets)
            why = f"disruption budgets {names} select it: the Eviction API refuses such a pod"
            return PlanGuard.TWO_DISRUPTION_BUDGETS, why
        for index in budgets:
            if self._spends(self._snapshot.budgets[index], pod, method) and self.headroom(index) < 1:
                budget = self._snapshot.budgets[index]
                spent = "" if self._left_at_first(index) < 1 else " after the moves before it"
                why = f"disruption budget {budget.name} allows no disruption{spent}"
                return PlanGuard.DISRUPTION_BUDGET, why
        if method is Method.EVICT:
            return self._too_many(pod)
        return None

    def _too_many(self, pod: Pod) -> Objection | None:
        """Limit evictions to half of a workload's replicas in one plan, but allow at least one."""
        key = self._workloads.key(pod)
        replicas = self._workloads.replicas(pod)
        if self._evicted[key] < max(1, replicas // 2):
            return None
        why = f"the plan evicts {self._evicted[key]} of {replicas} replicas of {key[0]} {key[2]} already"
        return PlanGuard.WORKLOAD_AT_ONCE, why

    def spend(self, pod: Pod, method: Method, sign: int = 1) -> None:
        """Count a move, or with sign -1 uncount it."""
        if method is Method.HANDOFF:
            return
        for index in self._of(pod):
            if self._spends(self._snapshot.budgets[index], pod, method):
                self._left[index] = self.headroom(index) - sign
        if method is Method.EVICT:
            self._evicted[self._workloads.key(pod)] += sign

    def headroom(self, index: int) -> int:
        """How many more evictions a budget allows."""
        if index not in self._left:
            self._left[index] = self._left_at_first(index)
        return self._left[index]

    def _left_at_first(self, index: int) -> int:
        budget = self._snapshot.budgets[index]
        return budget.allowed if budget.allowed is not None else self._expected_headroom(budget)

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

    def _expected_headroom(self, budget: DisruptionBudget) -> int:
        """Compute what the controller would allow for a budget without a status: healthy pods minus required ones."""
        pods = [
            pod
            for pod in self._snapshot.pods
            if pod.namespace == budget.namespace and not pod.finished and _selects(budget, pod.labels)
        ]
        healthy = sum(pod.ready and not pod.deleting for pod in pods)
        owners = {(pod.owner, self._workloads.replicas(pod)) for pod in pods if pod.owner is not None}
        expected = sum(replicas for _, replicas in owners) + sum(pod.owner is None for pod in pods)
        if budget.max_unavailable is not None:
            desired = expected - _scale(budget.max_unavailable, expected, nonsense=0)
        else:
            wanted = 1 if budget.min_available is None else budget.min_available
            desired = _scale(wanted, expected, nonsense=expected)
        return max(0, healthy - max(0, desired))


def _selects(budget: DisruptionBudget, labels: Labels) -> bool:
    return budget.selector is not None and budget.selector.matches(labels)


def _scale(number: int | str, total: int, *, nonsense: int) -> int:
    """Convert a number or a percentage of the total, rounded up; any other text protects everything."""
    if isinstance(number, int):
        return number
    digits = number.removesuffix("%")
    sensible = number.endswith("%") and digits.isdecimal() and len(digits) <= 3
    return ceil(total * int(digits) / 100) if sensible else nonsense
