"""What guards look things up in: the pod's surroundings, found once for a plan and asked for each pod.

`planning.guards` lists all guards; the planner, the page and recovery make the Context.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from rescheduler.model import labels
from rescheduler.model.objects import Autoscaler, DisruptionBudget, Node, Pod
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot, WorkloadKey
from rescheduler.planning.workloads import MethodChooser, Workloads


@dataclass(frozen=True)
class GuardContext:
    """What guards look things up in."""

    policy: Policy
    snapshot: ClusterSnapshot
    workloads: Workloads
    methods: MethodChooser
    under_maintenance: frozenset[str] = frozenset()
    """Nodes that an operator wants empty."""

    def lifts_caution(self, pod: Pod) -> bool:
        """Whether the pod's mark `evict` says that it may be moved where only caution speaks against it."""
        return bool(pod.annotations) and labels.EVICT in pod.annotations and self.policy.filters.honour_evict_mark

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """By name."""
        return {node.name: node for node in self.snapshot.nodes}

    @cached_property
    def autoscalers(self) -> dict[WorkloadKey, Autoscaler]:
        """By what they scale."""
        return {(each.kind, each.namespace, each.target): each for each in self.snapshot.autoscalers}

    @cached_property
    def changing(self) -> dict[WorkloadKey, str]:
        """The workloads that their owners are just changing, and how; mostly none."""
        found = self.snapshot.workloads.items()
        return {key: f"{each.kind} {each.name} {each.changing}" for key, each in found if each.changing}

    @cached_property
    def budgets(self) -> dict[str, list[DisruptionBudget]]:
        """People's disruption budgets by namespace; our own temporary ones say nothing about what people want."""
        found: dict[str, list[DisruptionBudget]] = {}
        for budget in self.snapshot.budgets:
            if budget.selector is not None and not budget.migration:
                found.setdefault(budget.namespace, []).append(budget)
        return found


Guard = Callable[[Pod, GuardContext], str]
"""Says why a pod is not to be moved; nothing when it may be."""
