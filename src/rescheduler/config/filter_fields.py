"""What a configuration says about which pods strategies may move: the section `filters`, after descheduler's."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from rescheduler.config.errors import FieldError, not_an_integer, shown, wrong_type
from rescheduler.config.fields import LabelSelector, Namespace, ObjectName, Section, check_subdomain
from rescheduler.model.policy import Filters, NoEviction
from rescheduler.model.selector import EVERYTHING, Selector, parse_selector

_INT32 = 2**31
_PRIORITY = "a priority such as 10000 or the name of a PriorityClass"


def _check_priority(value: object) -> int | str | None:
    if value is None:
        return None
    if isinstance(value, float):
        raise ValueError(not_an_integer(value, _PRIORITY))  # noqa: TRY004 - pydantic wants ValueError
    if isinstance(value, str):
        return check_subdomain(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(wrong_type(value, _PRIORITY))  # noqa: TRY004 - the same
    if not -_INT32 <= value < _INT32:
        raise ValueError(f"{shown(value)} is not {_PRIORITY}: it has more than 32 bits")
    return value


Priority = Annotated[
    int | str | None,
    PlainValidator(_check_priority),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "format": "name"}]}),
]


class FilterFields(Section):
    """Which pods strategies may move; all of it must let a pod. Moves that somebody orders by hand are not bound by it.

    `excludedNamespaces`, `excludedPodSelector`, `minPodAge` and `allow` say the rest.
    """

    namespaces: tuple[Namespace, ...] = Field(
        default=(), description="Only pods of these namespaces are moved; `[]` is all but `excludedNamespaces`."
    )
    namespace_selector: LabelSelector = Field(
        default="", description="Only pods of namespaces with such labels are moved, such as `team=shop`."
    )
    pod_selector: LabelSelector = Field(default="", description="Only pods with such labels are moved.")
    node_selector: LabelSelector = Field(
        default="", description="Only pods on nodes with such labels are moved; they may be moved to others."
    )
    priority_threshold: Priority = Field(
        default=None,
        description="Pods of this priority and above are left alone: a number, or the name of a PriorityClass.",
    )
    min_replicas: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Pods of controllers with fewer replicas are left alone."
    )
    persistent_volumes: bool = Field(default=True, description="Move pods with a PersistentVolumeClaim, too.")
    protected_storage_classes: tuple[ObjectName, ...] = Field(
        default=(),
        description="With `persistentVolumes: false`: leave only those alone whose claims are of these storage "
        "classes; `[]` is all.",
    )
    without_controller: bool = Field(default=True, description="Move pods that nobody manages, too, by a copy.")
    without_disruption_budget: bool = Field(
        default=True, description="Move pods that no PodDisruptionBudget selects, too."
    )
    no_eviction_policy: NoEviction = Field(
        default=NoEviction.PREFERRED,
        description="What the annotation `descheduler.alpha.kubernetes.io/prefer-no-eviction` of a pod means: "
        "`preferred` has it moved only off a node under maintenance, `mandatory` never.",
    )
    honour_evict_mark: bool = Field(
        default=True,
        description="Whether the annotation `descheduler.alpha.kubernetes.io/evict` of a pod lifts the guards that "
        "are only cautious; see [when](when.md).",
    )

    @model_validator(mode="after")
    def _classes_are_protected_from_something(self) -> Self:
        if self.protected_storage_classes and self.persistent_volumes:
            raise FieldError("protectedStorageClasses", "says nothing unless persistentVolumes is false")
        return self

    def filters(self) -> Filters:
        """As planning takes them."""
        return Filters(
            namespaces=frozenset(self.namespaces),
            namespace_labels=_selector(self.namespace_selector),
            pods=_selector(self.pod_selector),
            nodes=_selector(self.node_selector),
            priority_threshold=self.priority_threshold,
            min_replicas=self.min_replicas,
            persistent_volumes=self.persistent_volumes,
            storage_classes=frozenset(self.protected_storage_classes),
            without_controller=self.without_controller,
            without_disruption_budget=self.without_disruption_budget,
            no_eviction=self.no_eviction_policy,
            honour_evict_mark=self.honour_evict_mark,
        )


def _selector(text: str) -> Selector | None:
    selector = parse_selector(text)
    return None if selector == EVERYTHING else selector
