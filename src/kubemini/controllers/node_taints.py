"""The taints that stand for a node's own condition, as the node controller puts them on and takes them off.

Other taints are people's, and are left alone. Pure: from a node to the node as it should be.
"""

from __future__ import annotations

from datetime import datetime

from kubemini import clock
from kubemini.refusals import Json

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OURS = {(key, "NoSchedule") for key in (*_BY_CONDITION.values(), UNSCHEDULABLE)} | {
    (NOT_READY, "NoExecute"),
    (UNREACHABLE, "NoExecute"),
}


def retainted(node: Json, driving_off: str, now: datetime) -> Json:
    """The node with the taints that it should have; `driving_off` is the key of its NoExecute taint, if it has one."""
    wanted = dict.fromkeys(_keeping_away(node))
    if driving_off:
        wanted[(driving_off, "NoExecute")] = None
    spec: Json = node.setdefault("spec", {})
    there = spec.get("taints") or []
    kept = [taint for taint in there if (one := (taint["key"], taint["effect"])) not in _OURS or one in wanted]
    known = {(taint["key"], taint["effect"]) for taint in kept}
    new = [
        {"key": key, "effect": effect, "timeAdded": clock.stamp(now)}
        for key, effect in wanted
        if (key, effect) not in known
    ]
    if kept or new:
        spec["taints"] = [*kept, *new]
    else:
        spec.pop("taints", None)
    return node


def _keeping_away(node: Json) -> list[tuple[str, str]]:
    """What keeps new pods away."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    keys = [_BY_CONDITION.get((each["type"], each["status"]), "") for each in conditions]
    if (node.get("spec") or {}).get("unschedulable"):
        keys.append(UNSCHEDULABLE)
    return [(key, "NoSchedule") for key in keys if key]
