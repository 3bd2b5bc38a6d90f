"""Conditions in the status of objects, as the controllers of Kubernetes look them up and write them.

A condition's time of transition changes with its status only, so that one can tell since when a pod is Ready or a node
is gone. The controllers for nodes, evictions, budgets and jobs use it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kubemini import clock
from kubemini.refusals import Json


def condition_of(body: Json, kind: str) -> Json:
    """The condition of one type; empty where there is none."""
    conditions = body.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


def set_condition(status: Json, condition: Json, now: datetime) -> bool:
    """Put a condition into a status, in the place of the one of its type; whether that changed anything."""
    conditions: list[Json] = status.setdefault("conditions", [])
    there = next((each for each in conditions if each["type"] == condition["type"]), None)
    if there is None:
        conditions.append({**condition, "lastTransitionTime": clock.stamp(now)})
        return True
    before = dict(there)
    changed = there["status"] != condition["status"]
    since = clock.stamp(now) if changed else there.get("lastTransitionTime", clock.stamp(now))
    there.clear()
    there.update({**condition, "lastTransitionTime": since})
    return there != before


def set_pod_condition(pod: Json, kind: str, status: str, **said: Any) -> bool:
    """Say something about a pod, and of which generation of it if its status tells generations apart."""
    found = pod.setdefault("status", {})
    written: Json = {"type": kind, "status": status, "lastProbeTime": None, **said}
    if found.get("observedGeneration"):
        written["observedGeneration"] = pod["metadata"].get("generation", 0)
    return set_condition(found, written, clock.now())
