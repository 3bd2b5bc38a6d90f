"""The decorator that makes guards, and the context in which they look things up: found once for a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Self

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

    @cached_property
    def workloads(self) -> Workloads:
        """Owners of the pods."""
        return Workloads(self.snapshot)

    @cached_property
    def methods(self) -> MethodChooser:
        """The method by which each pod can be moved."""
        return MethodChooser(self.snapshot, self.workloads, self.policy.migration_method)

    @cached_property
    def under_maintenance(self) -> frozenset[str]:
        """Nodes that an operator wants empty."""
        return frozenset(node.name for node in self.snapshot.nodes if node.maintenance)

    def lifts_caution(self, pod: Pod) -> bool:
        """Whether the pod's annotation `evict` allows moves that are refused only as a precaution."""
        return bool(pod.annotations) and labels.EVICT in pod.annotations and self.policy.filters.honour_evict_mark

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.snapshot.nodes}

    @cached_property
    def autoscalers(self) -> dict[WorkloadKey, Autoscaler]:
        """Autoscalers by the workload that they scale."""
        return {(each.kind, each.namespace, each.target): each for each in self.snapshot.autoscalers}

    @cached_property
    def changing(self) -> dict[WorkloadKey, str]:
        """Workloads that are being rolled out or scaled, and how; mostly none."""
        found = self.snapshot.workloads.items()
        return {key: f"{each.kind} {each.name} {each.changing}" for key, each in found if each.changing}

    @cached_property
    def budgets(self) -> dict[str, list[DisruptionBudget]]:
        """Disruption budgets by namespace, without our own temporary ones."""
        found: dict[str, list[DisruptionBudget]] = {}
        for budget in self.snapshot.budgets:
            if budget.selector is not None and not budget.migration:
                found.setdefault(budget.namespace, []).append(budget)
        return found

    def lifts_filters(self, pod: Pod) -> bool:
        """Whether filters about pods do not apply: a person ordered the move, or the annotation `evict` allows it."""
        return self.policy.by_hand or self.lifts_caution(pod)


class Lasting(Enum):
    """For how long a guard objects."""

    UNTIL_CHANGED = auto()
    """Until a person changes something."""
    SOON = auto()
    """Until something else that is under way has ended."""
    WITH_TIME = auto()
    """It passes by itself after some time."""
    UNTIL_THE_POD_ENDS = auto()
    """The pod is about to go by itself, and will never be moved."""


@dataclass
class Guard:
    """One rule about which pods are not moved. It decorates the function whose docstring is its documentation.

    The function explains why a pod is not to be moved; its text is empty when the pod may be moved.
    """

    order: int
    """Where several object, the one with the lowest number is reported: what makes the others meaningless first."""
    caption: str
    """What the page calls its objection, in a few words."""
    changed_by: str = ""
    """The setting, label or annotation that changes it, as Markdown; empty if it always holds."""
    lasting: Lasting | Callable[[Pod], Lasting] = Lasting.UNTIL_CHANGED
    on_removal: bool = False
    """Whether it also keeps a pod that has ended from being removed. Most guards protect only pods that run."""
    on_recovery: bool = False
    """Whether it also keeps recovery from a pod that has failed. Most guards protect only pods that run well."""

    def __call__(self, objection: Callable[[Pod, GuardContext], str]) -> Self:
        """Take the function, whose name in CamelCase is what plans, `explain` and metrics call the guard."""
        self.objection, self.__doc__ = objection, objection.__doc__
        self.name = "".join(map(str.capitalize, objection.__name__.split("_")))
        return self

    def lasts(self, pod: Pod) -> Lasting:
        """For how long it objects to moving this pod."""
        return self.lasting(pod) if callable(self.lasting) else self.lasting
