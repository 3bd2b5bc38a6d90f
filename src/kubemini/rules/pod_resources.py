"""What a whole pod asks for: the sum over its containers, what that makes of its quality of service, and defaults.

`pod` writes them into new pods, `pod_spec` compares them, and quota counts them.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from kubemini.refusals import Json
from kubemini.rules.quantities import amount, text_of
from kubemini.rules.resources import POD_LEVEL, is_huge_pages, overcommits

Totals = dict[str, Fraction]


def all_containers(spec: Json) -> list[Json]:
    """Init containers, sidecars and containers."""
    return [*spec.get("initContainers", ()), *(spec["containers"] or ())]


def totals(spec: Json, part: str) -> Totals:
    """What the containers of a pod need together at any one time: `requests` or `limits`."""
    found: Totals = {}
    for container in spec["containers"] or ():
        _add(found, _part(container, part))
    sidecars: Totals = {}
    most: Totals = {}
    for container in spec.get("initContainers", ()):
        own = _part(container, part)
        if container.get("restartPolicy") == "Always":
            _add(found, own)
            _add(sidecars, own)
            own = dict(sidecars)
        else:
            _add(own, sidecars)
        _at_least(most, own)
    _at_least(found, most)
    return found


def pod_totals(spec: Json, part: str) -> Totals:
    """What the pod counts for: what is said for all of it, else the sum; with its overhead."""
    found = totals(spec, part)
    for name, quantity in (spec.get("resources") or {}).get(part, {}).items():
        if is_pod_level(name):
            found[name] = amount(quantity)
    for name, quantity in spec.get("overhead", {}).items():
        if part == "requests" or name in found:
            found[name] = found.get(name, Fraction(0)) + amount(quantity)
    return found


def is_pod_level(name: str) -> bool:
    """Whether a resource can be asked for by a pod as a whole."""
    return name in POD_LEVEL or is_huge_pages(name)


def default_requests(spec: Json) -> None:
    """In a pod, though not in a template, whoever is limited asks for as much as the limit if he says nothing else."""
    for container in all_containers(spec):
        resources = container["resources"]
        if "limits" in resources:
            requests = resources.setdefault("requests", {})
            for name, quantity in resources["limits"].items():
                requests.setdefault(name, quantity)


def default_pod_level(spec: Json) -> None:
    """Fill in what a pod that says something for all of its containers leaves open."""
    resources = spec.get("resources") or {}
    if not resources.get("requests") and not resources.get("limits"):
        return
    requests, limits = dict(resources.get("requests", {})), dict(resources.get("limits", {}))
    summed = totals(spec, "limits")
    for name, value in summed.items():
        if is_huge_pages(name) and name not in requests:
            limits.setdefault(name, text_of(value, _as_written(spec, "limits", name)))
    for name, value in totals(spec, "requests").items():
        if is_pod_level(name) and overcommits(name):
            requests.setdefault(name, text_of(value, _as_written(spec, "requests", name)))
    for name, quantity in limits.items():
        if is_pod_level(name):
            requests.setdefault(name, quantity)
    for name, quantity in requests.items():
        bounded = all(name in container["resources"].get("limits", {}) for container in all_containers(spec))
        if is_pod_level(name) and name not in limits and name in summed and bounded:
            limit = text_of(summed[name], _as_written(spec, "limits", name))
            limits[name] = quantity if amount(quantity) > summed[name] else limit
    for part, amounts in (("requests", requests), ("limits", limits)):
        if amounts:
            resources[part] = amounts


def quality_of_service(spec: Json) -> str:
    """Guaranteed, Burstable or BestEffort."""
    whole = spec.get("resources") or {}
    if any(is_pod_level(name) for part in ("requests", "limits") for name in whole.get(part, ())):
        return _quality(whole)
    found = {_quality(container["resources"]) for container in all_containers(spec)}
    return found.pop() if len(found) == 1 else "Burstable" if found else "BestEffort"


def _quality(resources: Json) -> str:
    found = set()
    for name in ("cpu", "memory"):
        request = amount(resources.get("requests", {}).get(name, "0"))
        limit = amount(resources.get("limits", {}).get(name, "0"))
        found.add("Burstable" if request != limit else "Guaranteed" if request else "BestEffort")
    return found.pop() if len(found) == 1 else "Burstable"


def _part(container: Json, part: str) -> Totals:
    return {name: amount(quantity) for name, quantity in container["resources"].get(part, {}).items()}


def _add(into: Totals, more: Totals) -> None:
    for name, value in more.items():
        into[name] = into.get(name, Fraction(0)) + value


def _at_least(into: Totals, other: Totals) -> None:
    for name, value in other.items():
        if name not in into or value > into[name]:
            into[name] = value


def _as_written(spec: Json, part: str, name: str) -> str:
    """How the first container that asks for a resource writes its amount: sums are written the same way."""
    written: Iterable[str] = (
        container["resources"][part][name]
        for container in [*(spec["containers"] or ()), *spec.get("initContainers", ())]
        if name in container["resources"].get(part, {})
    )
    return next(iter(written), "")
