"""What the API server derives from a pod's spec: its first status with the quality of service."""

from __future__ import annotations

from kubemini.conditions import set_condition
from kubemini.refusals import Json
from rescheduler.model.quantity import parse_quantity

TERMINAL = ("Failed", "Succeeded")
"""The phases of pods that have ended."""

_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def all_containers(spec: Json) -> list[Json]:
    """Init containers, sidecars and containers."""
    return [*spec.get("initContainers", ()), *spec.get("containers", ())]


def first_status(spec: Json) -> Json:
    """The status of a new pod."""
    status: Json = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        set_condition(status, _GATED)
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
