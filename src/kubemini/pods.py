"""What the API server derives from a pod's spec: its first status, its quality of service and its total requests.

`update_condition` is for all who write conditions of pods: the scheduler, kubelets and evictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from kubemini import clock
from kubemini.refusals import Json
from rescheduler.model.quantity import parse_quantity

Totals = dict[str, Fraction]

TERMINAL = ("Failed", "Succeeded")
"""The phases of pods that have ended."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def all_containers(spec: Json) -> list[Json]:
    """Init containers, sidecars and containers."""
    return [*spec.get("initContainers", ()), *spec.get("containers", ())]


def update_condition(status: Json, condition: Json) -> bool:
    """Put a condition into a status. Its time is that of the last change of its status; whether anything changed."""
    conditions: list[Json] = status.setdefault("conditions", [])
    fresh = {"lastProbeTime": None, "lastTransitionTime": clock.stamp(clock.now())} | condition
    for number, there in enumerate(conditions):
        if there["type"] == condition["type"]:
            if there["status"] == condition["status"]:
                fresh["lastTransitionTime"] = there.get("lastTransitionTime")
            conditions[number] = fresh
            return there != fresh
    conditions.append(fresh)
    return True


def first_status(spec: Json) -> Json:
    """The status of a new pod."""
    status: Json = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        update_condition(status, _GATED)
    return status | {"qosClass": quality_of_service(spec)}


def quality_of_service(spec: Json) -> str:
    """Guaranteed, Burstable or BestEffort."""
    found = {_quality(container["resources"]) for container in all_containers(spec)}
    return found.pop() if len(found) == 1 else "Burstable" if found else "BestEffort"


def _quality(resources: Json) -> str:
    found = set()
    for name in ("cpu", "memory"):
        request = parse_quantity(resources.get("requests", {}).get(name, "0"))
        limit = parse_quantity(resources.get("limits", {}).get(name, "0"))
        found.add("Burstable" if request != limit else "Guaranteed" if request else "BestEffort")
    return found.pop() if len(found) == 1 else "Burstable"


def total_requests(spec: Json) -> Totals:
    """What a pod requests: the sum of its containers and sidecars, or its largest init container if that is more."""
    running: Totals = {}
    starting: Totals = {}
    for container in spec.get("initContainers", ()):
        own = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(running, own)
            own = dict(running)
        else:
            _add(own, running)
        _raise_to(starting, own)
    for container in spec.get("containers", ()):
        _add(running, _requests(container))
    _raise_to(running, starting)
    for name, quantity in (spec.get("resources") or {}).get("requests", {}).items():
        running[name] = parse_quantity(quantity)
    _add(running, {name: parse_quantity(quantity) for name, quantity in spec.get("overhead", {}).items()})
    return running


def _requests(container: Json) -> Totals:
    requests = container.get("resources", {}).get("requests", {})
    return {name: parse_quantity(quantity) for name, quantity in requests.items()}


def _add(into: Totals, more: Totals) -> None:
    for name, value in more.items():
        into[name] = into.get(name, Fraction(0)) + value


def _raise_to(into: Totals, other: Totals) -> None:
    for name, value in other.items():
        into[name] = max(into.get(name, value), value)


def merge_label_keys(spec: Json, labels: Mapping[str, str]) -> None:
    """Put the pod's own values for `matchLabelKeys` and `mismatchLabelKeys` into the selectors beside them."""
    affinity = spec.get("affinity", {})
    owners = list(spec.get("topologySpreadConstraints", ()))
    for sort in ("podAffinity", "podAntiAffinity"):
        owners += affinity.get(sort, {}).get(_REQUIRED, ())
        owners += [each["podAffinityTerm"] for each in affinity.get(sort, {}).get(_PREFERRED, ())]
    for owner in owners:
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            for key in owner.get(field, ()):
                if key in labels and "labelSelector" in owner:
                    required = {"key": key, "operator": operator, "values": [labels[key]]}
                    owner["labelSelector"].setdefault("matchExpressions", []).append(required)
