"""Tables: the columns that `kubectl get` prints, one list per kind.

kubectl asks the server for rows and prints them. Kinds that are not listed here show their name and age. Custom kinds
show the columns of their definition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from kubemini import clock, kinds
from kubemini.custom import CustomKind
from kubemini.errors import Json
from kubemini.kinds import Kind

NONE = "<none>"
UNKNOWN = "<unknown>"

_MINUTE, _HOUR, _DAY = 60, 3600, 86400

Cell = Callable[[Json], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Priority 1 is shown with `-o wide` only."""

    name: str
    cell: Cell
    priority: int = 0

    @property
    def definition(self) -> Json:
        """The column in the head of a Table. kubectl prints cells of all types as they are."""
        form = "name" if self.name == "Name" else ""
        return {"name": self.name, "type": "string", "format": form, "description": "", "priority": self.priority}


def columns_of(kind: Kind) -> list[Column]:
    """The columns of a kind."""
    if isinstance(kind, CustomKind):
        return [_NAME, *(map(_custom_column, kind.columns) if kind.columns else [_AGE])]
    return _COLUMNS.get(kind.resource, [_NAME, _AGE])


def dig(body: Any, path: str) -> Any:
    """What is at a dotted path of fields; None if it ends before."""
    for step in path.split("."):
        if not isinstance(body, dict):
            return None
        body = body.get(step)
    return body


def age(stamp: str | None) -> str:
    """How long ago a time stamp is."""
    if not stamp:
        return UNKNOWN
    try:
        return human((clock.now() - clock.moment(stamp)).total_seconds())
    except (TypeError, ValueError):
        return "<invalid>"


def human(seconds: float) -> str:
    """A duration as kubectl shows it: `3s`, `5m10s`, `2d`; coarser the longer it is."""
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two_units(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two_units(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    return f"{whole // _DAY}d"


def _two_units(seconds: int, large: int, sign: str, small: int, small_sign: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{sign}" + (f"{rest}{small_sign}" if rest else "")


def _custom_column(column: Json) -> Column:
    path = column["jsonPath"].removeprefix(".")

    def cell(body: Json) -> Any:
        value = dig(body, path)
        if column["type"] == "date" and value is not None:
            return age(value)
        return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value

    return Column(column["name"], cell, column.get("priority", 0))


def _field(name: str, path: str, default: Any = "", priority: int = 0) -> Column:
    """A column that shows a field."""

    def cell(body: Json) -> Any:
        value = dig(body, path)
        return default if value is None else value

    return Column(name, cell, priority)


def _count(name: str, path: str) -> Column:
    return _field(name, path, 0)


def _wide(name: str, path: str) -> Column:
    return _field(name, path, NONE, 1)


def _condition(body: Json, name: str) -> Json:
    return next((each for each in dig(body, "status.conditions") or () if each.get("type") == name), {})


def _is_true(body: Json, name: str) -> bool:
    return bool(_condition(body, name).get("status") == "True")


def _replicas_ready(workload: Json) -> str:
    return f"{dig(workload, 'status.readyReplicas') or 0}/{dig(workload, 'spec.replicas') or 0}"


def _pod_ready(pod: Json) -> str:
    statuses = dig(pod, "status.containerStatuses") or ()
    return f"{sum(bool(each.get('ready')) for each in statuses)}/{len(dig(pod, 'spec.containers') or ())}"


def _pod_status(pod: Json) -> str:
    """The one word for the state of a pod. It is not in the object: phase and containers make it up."""
    phase = dig(pod, "status.phase") or ""
    if "deletionTimestamp" in pod["metadata"] and phase not in ("Succeeded", "Failed"):
        return "Terminating"
    word = dig(pod, "status.reason") or phase
    if _condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    for container in reversed(dig(pod, "status.containerStatuses") or []):
        waiting, terminated = dig(container, "state.waiting"), dig(container, "state.terminated")
        if waiting and waiting.get("reason"):
            word = waiting["reason"]
        elif terminated:
            word = terminated.get("reason") or f"ExitCode:{terminated.get('exitCode', 0)}"
    return str(word)


def _pod_restarts(pod: Json) -> str:
    statuses = dig(pod, "status.containerStatuses") or ()
    count = sum(each.get("restartCount", 0) for each in statuses)
    last = max((dig(each, "lastState.terminated.finishedAt") or "" for each in statuses), default="")
    return f"{count} ({age(last)} ago)" if count and last else str(count)


def _readiness_gates(pod: Json) -> str:
    gates = dig(pod, "spec.readinessGates") or ()
    return f"{sum(_is_true(pod, each['conditionType']) for each in gates)}/{len(gates)}" if gates else NONE


def _node_status(node: Json) -> str:
    ready = _condition(node, "Ready").get("status")
    word = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if dig(node, "spec.unschedulable") else word


def _node_roles(node: Json) -> str:
    labels = dig(node, "metadata.labels") or {}
    roles = [role for prefix, _, role in (key.partition("/") for key in labels) if prefix == "node-role.kubernetes.io"]
    return ",".join(sorted(roles)) or NONE


def _node_selector(daemons: Json) -> str:
    labels = dig(daemons, "spec.template.spec.nodeSelector") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def _job_status(job: Json) -> str:
    return next((name for name in ("Complete", "Failed") if _is_true(job, name)), "Running")


def _job_completions(job: Json) -> str:
    return f"{dig(job, 'status.succeeded') or 0}/{dig(job, 'spec.completions') or 1}"


def _job_duration(job: Json) -> str:
    begun, ended = (dig(job, f"status.{each}") for each in ("startTime", "completionTime"))
    if not begun:
        return ""
    return human(((clock.moment(ended) if ended else clock.now()) - clock.moment(begun)).total_seconds())


def _event_object(event: Json) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


_NAME = _field("Name", "metadata.name")
_AGE = Column("Age", lambda body: age(dig(body, "metadata.creationTimestamp")))
_EVENTS = [
    Column("Last Seen", lambda event: age(event.get("lastTimestamp") or event.get("eventTime"))),
    _field("Type", "type"),
    _field("Reason", "reason"),
    Column("Object", _event_object),
    Column("Message", lambda event: str(event.get("message") or event.get("note") or "").strip()),
]
_COLUMNS: dict[str, list[Column]] = {
    kinds.POD.resource: [
        _NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        _AGE,
        _wide("IP", "status.podIP"),
        _wide("Node", "spec.nodeName"),
        _wide("Nominated Node", "status.nominatedNodeName"),
        Column("Readiness Gates", _readiness_gates, 1),
    ],
    kinds.NODE.resource: [
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        _field("Version", "status.nodeInfo.kubeletVersion"),
    ],
    kinds.NAMESPACE.resource: [_NAME, _field("Status", "status.phase"), _AGE],
    kinds.DEPLOYMENT.resource: [
        _NAME,
        Column("Ready", _replicas_ready),
        _count("Up-to-date", "status.updatedReplicas"),
        _count("Available", "status.availableReplicas"),
        _AGE,
    ],
    kinds.REPLICA_SET.resource: [
        _NAME,
        _count("Desired", "spec.replicas"),
        _count("Current", "status.replicas"),
        _count("Ready", "status.readyReplicas"),
        _AGE,
    ],
    kinds.STATEFUL_SET.resource: [_NAME, Column("Ready", _replicas_ready), _AGE],
    kinds.DAEMON_SET.resource: [
        _NAME,
        _count("Desired", "status.desiredNumberScheduled"),
        _count("Current", "status.currentNumberScheduled"),
        _count("Ready", "status.numberReady"),
        _count("Up-to-date", "status.updatedNumberScheduled"),
        _count("Available", "status.numberAvailable"),
        Column("Node Selector", _node_selector),
        _AGE,
    ],
    kinds.JOB.resource: [
        _NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        _AGE,
    ],
    kinds.BUDGET.resource: [
        _NAME,
        _field("Min Available", "spec.minAvailable", "N/A"),
        _field("Max Unavailable", "spec.maxUnavailable", "N/A"),
        _count("Allowed Disruptions", "status.disruptionsAllowed"),
        _AGE,
    ],
    kinds.LEASE.resource: [_NAME, _field("Holder", "spec.holderIdentity"), _AGE],
    kinds.CORE_EVENT.resource: _EVENTS,
    kinds.EVENT.resource: _EVENTS,
}
