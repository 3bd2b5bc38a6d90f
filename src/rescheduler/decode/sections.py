"""Parsers of sections that many objects share: affinity, tolerations, requests, selectors, owners.

Each distinct text is parsed once (SectionCache). An invalid section raises SectionError with the path in the object.
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
from rescheduler.model.time import parse_instant

T = TypeVar("T")

# Groups whose kinds are known by their bare name; a StatefulSet of another group is another kind.
STANDARD_GROUPS = frozenset({"", "apps", "batch", "policy", "storage.k8s.io", "scheduling.k8s.io", "metrics.k8s.io"})
Quantities = dict[str, str | int | float]


class SectionError(ValueError):
    """An invalid part of an object; the message starts with its path."""


def decode(raw: Raw | bytes, kind: type[T], path: str) -> T | None:
    """Decode a section; None if it is null or absent."""
    if not bytes(raw) or bytes(raw) == b"null":
        return None
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise SectionError(f"{path}{where.rstrip('`')}: {what}") from None


def instant(text: str | None) -> float | None:
    """Parse a time that may be absent."""
    return parse_instant(text) if text else None


class SectionCache(Generic[T]):
    """A parser with a memory: equal bytes return the identical object."""

    def __init__(self, parse: Callable[[Raw, str], T], path: str) -> None:
        self._parse = parse
        self._path = path
        self._known: dict[bytes, T] = {}

    def __call__(self, raw: Raw) -> T:
        """Return the parsed section."""
        key = bytes(raw)
        if key not in self._known:
            self._known[key] = self._parse(raw, self._path)
        return self._known[key]

    def keep(self, wanted: Callable[[bytes, T], bool]) -> None:
        """Forget the entries that are no longer wanted."""
        self._known = {text: parsed for text, parsed in self._known.items() if wanted(text, parsed)}


def string_map(raw: Raw, path: str) -> dict[str, str]:
    """Decode labels, annotations, or a node selector."""
    return decode(raw, dict[str, str], path) or {}


def quantities(given: Quantities | None, path: str) -> dict[str, int]:
    """Convert quantities to amounts as the scheduler counts them."""
    amounts: dict[str, int] = {}
    for resource, text in (given or {}).items():
        try:
            amounts[resource] = amount(resource, text)
        except QuantityError as error:
            raise SectionError(f"{path}.{resource}: {error}") from None
    return amounts


def quantity_map(raw: Raw, path: str) -> Requests:
    """Decode allocatable resources, overhead, or usage."""
    found: Quantities | None = decode(raw, Quantities, path)
    return tuple(sorted(quantities(found, path).items()))


def resource_requests(raw: Raw, path: str) -> dict[str, int]:
    """Decode a container's requests; a limit without a request counts as one, as by the API server's defaults."""
    found = decode(raw, structs.ApiResources, path)
    if found is None:
        return {}
    return {**quantities(found.limits, f"{path}.limits"), **quantities(found.requests, f"{path}.requests")}


def host_ports(raw: Raw, path: str) -> tuple[HostPort, ...]:
    """Decode the host ports of a container."""
    return tuple(
        HostPort(port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)  # noqa: S104 - the API's default
        for port in decode(raw, list[structs.ApiPort], path) or ()
        if port.host_port
    )


def tolerations(raw: Raw, path: str) -> tuple[Toleration, ...]:
    """Decode a pod's tolerations."""
    found = decode(raw, list[structs.ApiToleration], path) or ()
    return tuple(Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "") for t in found)


def owner(raw: Raw, path: str) -> Owner | None:
    """Return the controller among the owner references."""
    for reference in decode(raw, list[structs.ApiOwnerReference], path) or ():
        if reference.controller:
            kind = qualify_kind(reference.kind or "", reference.api_version or "")
            return Owner(kind, reference.name or "", reference.uid or "")
    return None


def qualify_kind(kind: str, api_version: str) -> str:
    """Return the kind with its group, such as `CloneSet.apps.kruise.io`; a kind of Kubernetes itself stands alone."""
    group, slash, _ = api_version.rpartition("/")
    return kind if not slash or group in STANDARD_GROUPS else f"{kind}.{group}"


def label_selector(found: structs.ApiLabelSelector | None, path: str) -> Selector | None:
    """Convert a label selector; an absent one matches nothing, an empty one everything."""
    if found is None:
        return None
    equal = [Requirement(key, Operator.IN, (text,)) for key, text in (found.match_labels or {}).items()]
    return selector_of([*equal, *_requirements(found.match_expressions, f"{path}.matchExpressions")])


def raw_label_selector(raw: Raw, path: str) -> Selector | None:
    """Decode a label selector."""
    return label_selector(decode(raw, structs.ApiLabelSelector, path), path)


def node_terms(found: structs.ApiNodeSelector | None, path: str) -> tuple[NodeTerm, ...] | None:
    """Convert required node selector terms; None means no rule."""
    if found is None:
        return None
    return tuple(
        _node_term(term, f"{path}.nodeSelectorTerms[{index}]")
        for index, term in enumerate(found.node_selector_terms or ())
    )


class AffinityRules(msgspec.Struct, frozen=True, gc=False):
    """The parts of a pod's affinity that planning reads."""

    node: tuple[NodeTerm, ...] | None = None
    preferred: tuple[tuple[int, NodeTerm], ...] = ()
    near: tuple[PodTerm, ...] = ()
    away: tuple[PodTerm, ...] = ()


NO_AFFINITY = AffinityRules()


def affinity(raw: Raw, path: str) -> AffinityRules:
    """Decode a pod's affinity. The API server merged matchLabelKeys into the selectors when it created the pod."""
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
    """Decode topology spread constraints."""
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
