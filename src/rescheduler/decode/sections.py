"""Parsers of the sections that many objects share: affinity, tolerations, requests, selectors, owners.

`cluster.decode` gives them raw JSON and keeps what they return, so that each distinct text is parsed once. What is
wrong with a section is raised as SectionError, with the path inside the object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw

from rescheduler.decode import structs
from rescheduler.model.objects import Owner
from rescheduler.model.quantity import QuantityError, amount
from rescheduler.model.selector import (
    Operator,
    Requirement,
    Selector,
    SelectorError,
    requirement,
    selector_of,
)
from rescheduler.model.shape import HostPort, NodeTerm, PodTerm, Requests, SpreadConstraint, Toleration

T = TypeVar("T")

# Groups whose kinds we know by their bare name; another group's StatefulSet is somebody else's.
STANDARD_GROUPS = frozenset({"", "apps", "batch", "policy", "storage.k8s.io", "scheduling.k8s.io", "metrics.k8s.io"})
Quantities = dict[str, str | int | float]


class SectionError(ValueError):
    """A part of an object that cannot be understood; the message begins with its path."""


def decode(raw: Raw | bytes, kind: type[T], path: str) -> T | None:
    """Decode one section; null and an absent one are None."""
    if not bytes(raw) or bytes(raw) == b"null":
        return None
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise SectionError(f"{path}{where.rstrip('`')}: {what}") from None


class SectionCache(Generic[T]):
    """One parser with its memory: equal bytes give the identical object."""

    def __init__(self, parse: Callable[[Raw, str], T], path: str) -> None:
        self._parse = parse
        self._path = path
        self._known: dict[bytes, T] = {}

    def __call__(self, raw: Raw) -> T:
        """The parsed section."""
        key = bytes(raw)
        if key not in self._known:
            self._known[key] = self._parse(raw, self._path)
        return self._known[key]

    def keep(self, wanted: Callable[[bytes, T], bool]) -> None:
        """Forget every text and what it says that is not wanted any more."""
        self._known = {text: said for text, said in self._known.items() if wanted(text, said)}


def string_map(raw: Raw, path: str) -> dict[str, str]:
    """Labels, annotations, node selectors."""
    return decode(raw, dict[str, str], path) or {}


def quantities(given: Quantities | None, path: str) -> dict[str, int]:
    """Amounts as the scheduler counts them."""
    amounts: dict[str, int] = {}
    for resource, text in (given or {}).items():
        try:
            amounts[resource] = amount(resource, text)
        except QuantityError as error:
            raise SectionError(f"{path}.{resource}: {error}") from None
    return amounts


def quantity_map(raw: Raw, path: str) -> Requests:
    """Allocatable, overhead, usage."""
    found: Quantities | None = decode(raw, Quantities, path)
    return tuple(sorted(quantities(found, path).items()))


def resource_requests(raw: Raw, path: str) -> dict[str, int]:
    """A container's requests; a limit without a request is one, as the API server's defaults have it."""
    found = decode(raw, structs.ApiResources, path)
    if found is None:
        return {}
    return {**quantities(found.limits, f"{path}.limits"), **quantities(found.requests, f"{path}.requests")}


def host_ports(raw: Raw, path: str) -> tuple[HostPort, ...]:
    """The ports that a container takes on its node."""
    return tuple(
        HostPort(port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)  # noqa: S104 - the API's default
        for port in decode(raw, list[structs.ApiPort], path) or ()
        if port.host_port
    )


def tolerations(raw: Raw, path: str) -> tuple[Toleration, ...]:
    """A pod's tolerations."""
    found = decode(raw, list[structs.ApiToleration], path) or ()
    return tuple(Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "") for t in found)


def owner(raw: Raw, path: str) -> Owner | None:
    """The controller among the owner references."""
    for reference in decode(raw, list[structs.ApiOwnerReference], path) or ():
        if reference.controller:
            group, slash, _ = (reference.api_version or "").rpartition("/")
            kind = reference.kind or ""
            name = kind if not slash or group in STANDARD_GROUPS else f"{kind}.{group}"
            return Owner(name, reference.name or "", reference.uid or "")
    return None


def label_selector(found: structs.ApiLabelSelector | None, path: str) -> Selector | None:
    """The object form of a label selector; an absent one matches nothing, an empty one everything."""
    if found is None:
        return None
    equal = [Requirement(key, Operator.IN, (text,)) for key, text in (found.match_labels or {}).items()]
    return selector_of([*equal, *_requirements(found.match_expressions, f"{path}.matchExpressions")])


def raw_label_selector(raw: Raw, path: str) -> Selector | None:
    """The same, from bytes."""
    return label_selector(decode(raw, structs.ApiLabelSelector, path), path)


def node_terms(found: structs.ApiNodeSelector | None, path: str) -> tuple[NodeTerm, ...] | None:
    """Required node selector terms; None is no rule at all."""
    if found is None:
        return None
    return tuple(
        _node_term(term, f"{path}.nodeSelectorTerms[{index}]")
        for index, term in enumerate(found.node_selector_terms or ())
    )


def raw_node_terms(raw: Raw, path: str) -> tuple[NodeTerm, ...] | None:
    """The same, from bytes."""
    return node_terms(decode(raw, structs.ApiNodeSelector, path), path)


class AffinityRules(msgspec.Struct, frozen=True, gc=False):
    """What a pod's affinity section says, of what planning reads."""

    node: tuple[NodeTerm, ...] | None = None
    preferred: tuple[tuple[int, NodeTerm], ...] = ()
    near: tuple[PodTerm, ...] = ()
    away: tuple[PodTerm, ...] = ()


NO_AFFINITY = AffinityRules()


def affinity(raw: Raw, path: str) -> AffinityRules:
    """A pod's affinity. The API server has merged matchLabelKeys into the selectors when the pod was made."""
    found = decode(raw, structs.ApiAffinity, path)
    if found is None:
        return NO_AFFINITY
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    node = found.node_affinity or structs.ApiNodeAffinity()
    return AffinityRules(
        node=node_terms(node.required_during_scheduling_ignored_during_execution, f"{path}.nodeAffinity.{required}"),
        preferred=tuple(
            (preferred.weight, _node_term(preferred.preference, f"{path}.nodeAffinity.preferred[{index}]"))
            for index, preferred in enumerate(node.preferred_during_scheduling_ignored_during_execution or ())
        ),
        near=_pod_terms(found.pod_affinity, f"{path}.podAffinity.{required}"),
        away=_pod_terms(found.pod_anti_affinity, f"{path}.podAntiAffinity.{required}"),
    )


def spread(raw: Raw, path: str) -> tuple[SpreadConstraint, ...]:
    """Topology spread constraints."""
    return tuple(
        SpreadConstraint(
            max_skew=c.max_skew,
            topology_key=c.topology_key,
            selector=label_selector(c.label_selector, f"{path}[{index}].labelSelector"),
            hard=c.when_unsatisfiable != "ScheduleAnyway",
            min_domains=c.min_domains or 1,
            honor_affinity=c.node_affinity_policy != "Ignore",
            honor_taints=c.node_taints_policy == "Honor",
            match_label_keys=tuple(c.match_label_keys or ()),
        )
        for index, c in enumerate(decode(raw, list[structs.ApiSpreadConstraint], path) or ())
    )


def _pod_terms(found: structs.ApiPodAffinity | None, path: str) -> tuple[PodTerm, ...]:
    terms = (found and found.required_during_scheduling_ignored_during_execution) or ()
    return tuple(
        PodTerm(
            selector=label_selector(term.label_selector, f"{path}[{index}].labelSelector"),
            topology_key=term.topology_key,
            namespaces=frozenset(term.namespaces or ()),
            namespace_selector=label_selector(term.namespace_selector, f"{path}[{index}].namespaceSelector"),
        )
        for index, term in enumerate(terms)
    )


def _node_term(term: structs.ApiSelectorTerm, path: str) -> NodeTerm:
    return NodeTerm(
        tuple(_requirements(term.match_expressions, f"{path}.matchExpressions", node=True)),
        tuple(_requirements(term.match_fields, f"{path}.matchFields", node=True)),
    )


def _requirements(found: Sequence[structs.ApiExpression] | None, path: str, *, node: bool = False) -> list[Requirement]:
    checked: list[Requirement] = []
    for index, expression in enumerate(found or ()):
        try:
            checked.append(requirement(expression.key, expression.operator, expression.values, node=node))
        except SelectorError as error:
            raise SectionError(f"{path}[{index}]: {error}") from None
    return checked
