"""Filters that several strategies share, and whether a pod passes them.

A strategy with PodFilters among its settings asks PodSelection about each pod before proposing it. Exclusions that hold
for all strategies (namespaces, selectors, labels) are checked by guards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from rescheduler.model import labels
from rescheduler.model.fields import LabelSelector
from rescheduler.model.objects import Pod
from rescheduler.model.selector import Selector, parse_selector
from rescheduler.planning.settings import Misfit, StrategySettings
from rescheduler.planning.view import View
from rescheduler.planning.workloads import NODE_BOUND

_RETRIES = (labels.SCHEDULING_RETRIES, labels.MISSPELT_RETRIES)


class PodFilters(StrategySettings):
    """Which pods a strategy handles."""

    namespaces: tuple[str, ...] = Field((), description="Only pods in these namespaces; empty means all.")
    excluded_namespaces: tuple[str, ...] = Field(
        (), description="No pods in these namespaces, besides those that are excluded for all strategies."
    )
    pod_selector: LabelSelector = Field("", description="Only pods with these labels, such as `app=web,tier!=db`.")
    owner_kinds: tuple[str, ...] = Field(
        (),
        description=(
            "Only pods whose controller, or the workload above it, has one of these kinds: `ReplicaSet`, "
            "`Deployment`, `StatefulSet`, `Job`; `Pod` means pods without a controller."
        ),
    )
    excluded_owner_kinds: tuple[str, ...] = Field((), description="No pods whose owner has one of these kinds.")

    @property
    def match_all(self) -> bool:
        """Whether the filters exclude no pod."""
        filters = (self.namespaces, self.excluded_namespaces, self.pod_selector, self.owner_kinds)
        return not any((*filters, self.excluded_owner_kinds))

    def selects(self, namespace: str) -> bool:
        """Whether pods in this namespace may be selected."""
        return namespace not in self.excluded_namespaces and (not self.namespaces or namespace in self.namespaces)

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        for one, other in (("namespaces", "excluded_namespaces"), ("owner_kinds", "excluded_owner_kinds")):
            if getattr(self, one) and getattr(self, other):
                names = [type(self).model_fields[name].alias for name in (one, other)]
                raise ValueError(f"{names[0]} and {names[1]} exclude each other: give one of the two")
        return self


class PodSelection:
    """Checks whether pods pass the filters of a strategy."""

    def __init__(self, filters: PodFilters, view: View) -> None:
        self._filters = filters
        self._view = view
        self._workloads = view.workloads
        self._selector: Selector | None = parse_selector(filters.pod_selector) if filters.pod_selector else None

    def accepts(self, pod: Pod) -> bool:
        """Whether the pod passes, and its workload does not use recovery (`scheduling-retries`)."""
        return self.matches(pod) and all(self._workloads.annotation(pod, mark) is None for mark in _RETRIES)

    def matches(self, pod: Pod) -> bool:
        """Whether the pod passes the filters, with or without recovery."""
        filters = self._filters
        if not filters.selects(pod.namespace):
            return False
        if self._selector is not None and not self._selector.matches(pod.labels):
            return False
        if filters.owner_kinds or filters.excluded_owner_kinds:
            kinds = {self._workloads.key(pod)[0]} | ({pod.owner.kind} if pod.owner is not None else set())
            if filters.owner_kinds and kinds.isdisjoint(filters.owner_kinds):
                return False
            if not kinds.isdisjoint(filters.excluded_owner_kinds):
                return False
        return True

    def may_propose(self, pod: int) -> bool:
        """Whether the strategy may propose the pod.

        Pods that are only expected on a node, that are leaving, or that belong to their node are skipped silently.
        """
        row = self._view.pods[pod]
        is_bound = row.owner is not None and row.owner.kind in NODE_BOUND
        return pod not in self._view.moved and bool(row.node) and not (row.deleting or is_bound) and self.matches(row)

    def may_improve(self, pod: int) -> bool:
        """The same for moves that repair nothing: a pod group is not moved as a whole for the sake of one pod."""
        return self.may_propose(pod) and len(self._view.groups.members(pod)) < 2

    def select(self, pods: list[int]) -> list[int]:
        """Return the pods that pass the filters, with or without recovery."""
        return pods if self._filters.match_all else [pod for pod in pods if self.matches(self._view.pods[pod])]

    def has_controller(self, pod: Pod) -> bool:
        """Whether the pod has a controller that still exists, as far as the input shows."""
        if pod.owner is None:
            return False
        controller = self._workloads.controller(pod)
        if controller is None:
            return pod.owner.kind not in self._view.snapshot.kinds
        return not pod.owner.uid or not controller.uid or pod.owner.uid == controller.uid


Percents = dict[str, Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]]
"""Per cent by resource."""

Weights = dict[str, Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]]
"""Weights by resource."""


def find_uncounted(field: str, given: Mapping[str, float], counted: Collection[str]) -> Iterator[Misfit]:
    """Report each name in a field that is not a resource with a threshold."""
    for name in given:
        if name not in counted:
            known = ", ".join(counted)
            yield Misfit((field, name), f"does not count: give it one of the thresholds; those that count are {known}")


def explain_too_few(found: int, wanted: int, what: str) -> str:
    """Return why a strategy that needs so many underused nodes waits; empty if there are enough."""
    if found >= wanted:
        return ""
    return f"{found} {'node is' if found == 1 else 'nodes are'} {what}, and minUnderusedNodes is {wanted}"
