"""What must hold for resource lists: which names there are, what amounts they take, and that requests fit limits.

Containers, pods, nodes and quotas have such lists; their rules ask here. By now every quantity is one, and canonical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import (
    NOT_NEGATIVE,
    duplicate,
    each_wrong,
    not_allowed,
    required,
    unsupported,
    wrong,
)
from kubemini.rules.quantities import amount, is_quantity

Amounts = Mapping[str, str]

POD_LEVEL = ("cpu", "memory")  # and huge pages
_COUNTED = frozenset(
    (
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
QUOTA_RESOURCES = frozenset(
    {
        *_COUNTED,
        *_COMPUTE,
        *(f"{part}.{each}" for part in ("requests", "limits") for each in _COMPUTE),
        "requests.storage",
    }
)
_STANDARD = QUOTA_RESOURCES | {"storage"}


def is_native(name: str) -> bool:
    """Whether a resource is Kubernetes' own."""
    return "/" not in name or "kubernetes.io/" in name


def is_huge_pages(name: str) -> bool:
    """Whether a resource is huge pages of some size."""
    return name.startswith("hugepages-")


def is_extended(name: str) -> bool:
    """Whether a resource is somebody else's, such as `example.com/gpu`."""
    return not is_native(name) and not name.startswith("requests.") and not names.label_key(f"requests.{name}")


def overcommits(name: str) -> bool:
    """Whether limits of a resource may be more than its requests."""
    return is_native(name) and not is_huge_pages(name)


def requirements_faults(path: str, requirements: Json, claims: frozenset[str], *, pod: bool = False) -> Iterator[Fault]:
    """What is wrong with the `resources` of a container, or of a whole pod."""
    named = _pod_level if pod else container_resource
    limits: Amounts = requirements.get("limits", {})
    requests: Amounts = requirements.get("requests", {})
    if limits:
        yield from _amounts(f"{path}.limits", limits, named)
    if requests:
        yield from _amounts(f"{path}.requests", requests, named)
        yield from _against_limits(path, requests, limits)
    if any(is_huge_pages(name) for name in (*limits, *requests)) and not {"cpu", "memory"} & {*limits, *requests}:
        yield not_allowed(path, "HugePages require cpu or memory")
    yield from _claims(f"{path}.claims", requirements.get("claims", ()), claims)


def amount_faults(path: str, name: str, quantity: str) -> Iterator[Fault]:
    """What is wrong with one amount."""
    value = amount(quantity)
    if value < 0:
        yield wrong(path, quantity, NOT_NEGATIVE)
    if (name in _COUNTED or is_extended(name)) and value.denominator != 1:
        yield wrong(path, quantity, "must be an integer")


def container_resource(path: str, name: str) -> Iterator[Fault]:
    """What is wrong with the name of a resource that a container asks for."""
    found = list(_resource(path, name))
    yield from found
    if "/" not in name:
        if name not in _COMPUTE and not is_huge_pages(name):
            yield wrong(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield wrong(path, name, "doesn't follow extended resource name standard")


def quota_resource(path: str, name: str) -> Iterator[Fault]:
    """What is wrong with the name of something that a quota bounds."""
    yield from _resource(path, name)
    if "/" not in name and name not in QUOTA_RESOURCES and not name.startswith(("hugepages-", "requests.hugepages-")):
        yield wrong(path, name, "must be a standard resource for quota")


def _resource(path: str, name: str) -> Iterator[Fault]:
    if details := names.label_key(name):
        yield from each_wrong(path, name, details)
    elif "/" not in name and name not in _STANDARD and not name.startswith(("hugepages-", "requests.hugepages-")):
        yield wrong(path, name, "must be a standard resource type or fully qualified")


def _pod_level(path: str, name: str) -> Iterator[Fault]:
    found = list(_resource(path, name))
    yield from found
    if not found and name not in POD_LEVEL and not is_huge_pages(name):
        yield unsupported(path, name, ("cpu", "hugepages-", "memory"))


def _amounts(path: str, amounts: Amounts, named: Callable[[str, str], Iterator[Fault]]) -> Iterator[Fault]:
    for name, quantity in amounts.items():
        at = f"{path}[{name}]"
        yield from named(at, name)
        yield from amount_faults(at, name, quantity)
        if is_huge_pages(name) and not _fills_pages(name, quantity):
            yield wrong(at, quantity, f"{quantity} is not positive integer multiple of {name}")


def _against_limits(path: str, requests: Amounts, limits: Amounts) -> Iterator[Fault]:
    for name, quantity in requests.items():
        limit = limits.get(name)
        if limit is None:
            if not overcommits(name):
                yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif amount(quantity) != amount(limit) and not overcommits(name):
            yield wrong(f"{path}.requests", quantity, f"must be equal to {name} limit of {limit}")
        elif amount(quantity) > amount(limit):
            yield wrong(f"{path}.requests", quantity, f"must be less than or equal to {name} limit of {limit}")


def _claims(path: str, claims: list[Json], known: frozenset[str]) -> Iterator[Fault]:
    seen: set[tuple[str, str]] = set()
    for number, claim in enumerate(claims):
        name, request = claim["name"], claim.get("request", "")
        at = f"{path}[{number}]"
        if not name:
            yield required(at)
            continue
        overlaps = (name, "") in seen or (not request and any(other == name for other, _ in seen))
        if overlaps or (name, request) in seen:
            yield duplicate(at, f"{name}/{request}" if request else name)
        if request:
            yield from each_wrong(f"{at}.request", request, names.label(request))
        seen.add((name, request))
        if name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            why = f"must be one of the names in pod.spec.resourceClaims{listed}"
            yield Fault(at, "Not found", why, name)


def _fills_pages(name: str, quantity: str) -> bool:
    page = name.removeprefix("hugepages-")
    if not is_quantity(page):
        return False
    size = amount(page)
    return size > 0 and size.denominator == 1 and amount(quantity) % size == 0
