"""Conditions in the status of objects: how they are looked up and written.

A condition's time of transition changes with its status only, which shows since when a pod is Ready or a node
is gone.
"""

from __future__ import annotations

from kubemini import clock
from kubemini.errors import Json


def condition_of(body: Json, kind: str) -> Json:
    """The condition of one type; empty where there is none."""
    conditions = body.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


def set_condition(status: Json, condition: Json) -> bool:
    """Put a condition into a status, in the place of the one of its type; whether that changed anything."""
    conditions: list[Json] = status.setdefault("conditions", [])
    fresh = {"lastTransitionTime": clock.stamp(clock.now())} | condition
    for number, there in enumerate(conditions):
        if there["type"] == condition["type"]:
            if there["status"] == condition["status"] and "lastTransitionTime" in there:
                fresh["lastTransitionTime"] = there["lastTransitionTime"]
            conditions[number] = fresh
            return there != fresh
    conditions.append(fresh)
    return True


def set_pod_condition(pod: Json, kind: str, status: str, reason: str = "", message: str = "") -> None:
    """Put a condition into the status of a pod."""
    condition: Json = {"type": kind, "status": status, "lastProbeTime": None}
    condition |= {key: text for key, text in (("reason", reason), ("message", message)) if text}
    set_condition(pod.setdefault("status", {}), condition)
