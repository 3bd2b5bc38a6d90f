"""What the API server derives from a pod's spec: its containers and its first status."""

from __future__ import annotations

from kubemini.conditions import set_condition
from kubemini.errors import Json

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
    return status
