"""Tables: the columns that `kubectl get` prints, one list per kind.

kubectl asks the server for rows and prints them. Kinds that are not listed here show their name and age. Custom kinds
show the columns of their definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from kubemini import clock, kinds
from kubemini.custom import columns_of as columns_of_custom
from kubemini.kinds import Kind
from kubemini.refusals import Json

NONE = "<none>"
UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_ROLE_PREFIX = "node-role.kubernetes.io/"

Cell = Callable[[Json], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Priority 1 is shown with `-o wide` only."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0

    @property
    def definition(self) -> Json:
        """The column in the head of a Table."""
        form = "name" if self.name == "Name" else ""
        return {
            "name": self.name,
            "type": self.type,
            "format": form,
            "description": "",
            "priority": self.priority,
        }


def columns_of(kind: Kind) -> list[Column]:
    """The columns of a kind."""
    if kind.custom:
        given = [_custom_column(each) for each in columns_of_custom(kind)]
        return [_NAME, *(given or [_AGE])]
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
    moment = _moment(stamp)
    return INVALID if moment is None else human((clock.now() - moment).total_seconds())


def human(seconds: float) -> str:
    """A duration as kubectl shows it: `3s`, `5m10s`, `2d`; coarser the longer it is."""
    if seconds < -1:
        return INVALID  # a little in the future is a clock that is a little off
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


def _moment(stamp: str) -> datetime | None:
    try:
        moment = clock.moment(stamp)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _custom_column(column: Json) -> Column:
    path = column.get("jsonPath", "").removeprefix(".")
    form = column.get("type", "string")

    def cell(body: Json) -> Any:
        value = dig(body, path)
        if value is None:
            return None
        if form == "date":
            return age(value)
        if form == "string" and not isinstance(value, str):
            return msgspec.json.encode(value).decode()
        return value

    return Column(column.get("name", ""), cell, form, column.get("priority", 0))


def _at(path: str, default: Any = "") -> Cell:
    """A cell that shows a field."""

    def cell(body: Json) -> Any:
        value = dig(body, path)
        return default if value is None else value

    return cell


def _text(name: str, path: str, default: str = "") -> Column:
    return Column(name, _at(path, default))


def _number(name: str, path: str) -> Column:
    return Column(name, _at(path, 0), "integer")


def _wide(name: str, cell: Cell) -> Column:
    return Column(name, cell, priority=1)


def _ready_of(ready: str, wanted: str) -> Cell:
    return lambda body: f"{dig(body, ready) or 0}/{dig(body, wanted) or 0}"


def _condition(body: Json, name: str) -> Json:
    conditions: Iterable[Json] = dig(body, "status.conditions") or ()
    return next((each for each in conditions if each.get("type") == name), {})


def _is_true(body: Json, name: str) -> bool:
    return bool(_condition(body, name).get("status") == "True")


def _is_deleting(body: Json) -> bool:
    return bool(dig(body, "metadata.deletionTimestamp"))


def _labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def _pod_ready(pod: Json) -> str:
    statuses = dig(pod, "status.containerStatuses") or ()
    return f"{sum(bool(each.get('ready')) for each in statuses)}/{len(dig(pod, 'spec.containers') or ())}"


def _pod_status(pod: Json) -> str:
    """The one word for the state of a pod. It is not in the object: phase and containers make it up."""
    phase, reason = dig(pod, "status.phase") or "", dig(pod, "status.reason") or ""
    if _is_deleting(pod) and phase not in ("Succeeded", "Failed"):
        return "Terminating"
    word = reason or phase
    if _condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    for container in reversed(dig(pod, "status.containerStatuses") or []):
        waiting, terminated = dig(container, "state.waiting"), dig(container, "state.terminated")
        if waiting and waiting.get("reason"):
            word = waiting["reason"]
        elif terminated:
            word = terminated.get("reason") or f"ExitCode:{terminated.get('exitCode', 0)}"
    if word == "Completed" and phase == "Running":  # one container has ended, others run
        return "Running" if _is_true(pod, "Ready") else "NotReady"
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
    roles = (key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX))
    return ",".join(sorted(roles)) or NONE


def _node_address(sort: str) -> Cell:
    def cell(node: Json) -> str:
        addresses = dig(node, "status.addresses") or ()
        return next((each["address"] for each in addresses if each["type"] == sort), NONE)

    return cell


def _job_status(job: Json) -> str:
    ended = next((name for name in ("Complete", "Failed") if _is_true(job, name)), "")
    if ended or _is_deleting(job):
        return ended or "Terminating"
    return "Suspended" if _is_true(job, "Suspended") else "Running"


def _job_completions(job: Json) -> str:
    return f"{dig(job, 'status.succeeded') or 0}/{dig(job, 'spec.completions') or 1}"


def _job_duration(job: Json) -> str:
    begun, ended = (_moment(dig(job, f"status.{each}") or "") for each in ("startTime", "completionTime"))
    return "" if begun is None else human(((ended or clock.now()) - begun).total_seconds())


def _bound(path: str) -> Cell:
    return lambda body: str(_at(path, "N/A")(body))


def _event_last_seen(event: Json) -> str:
    series = dig(event, "series.lastObservedTime") or dig(event, "lastTimestamp")
    return age(series or dig(event, "deprecatedLastTimestamp") or dig(event, "eventTime"))


def _event_object(event: Json) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_message(event: Json) -> str:
    return str(event.get("message") or event.get("note") or "").strip()


_NAME = _text("Name", "metadata.name")
_AGE = Column("Age", lambda body: age(dig(body, "metadata.creationTimestamp")))
_EVENTS = [
    Column("Last Seen", _event_last_seen),
    _text("Type", "type"),
    _text("Reason", "reason"),
    Column("Object", _event_object),
    Column("Message", _event_message),
    _wide("Name", _at("metadata.name")),
]
_COLUMNS: dict[str, list[Column]] = {
    kinds.POD.resource: [
        _NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        _AGE,
        _wide("IP", _at("status.podIP", NONE)),
        _wide("Node", _at("spec.nodeName", NONE)),
        _wide("Nominated Node", _at("status.nominatedNodeName", NONE)),
        _wide("Readiness Gates", _readiness_gates),
    ],
    kinds.NODE.resource: [
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        _text("Version", "status.nodeInfo.kubeletVersion"),
        _wide("Internal-IP", _node_address("InternalIP")),
        _wide("External-IP", _node_address("ExternalIP")),
        _wide("OS-Image", _at("status.nodeInfo.osImage", UNKNOWN)),
        _wide("Kernel-Version", _at("status.nodeInfo.kernelVersion", UNKNOWN)),
        _wide("Container-Runtime", _at("status.nodeInfo.containerRuntimeVersion", UNKNOWN)),
    ],
    kinds.NAMESPACE.resource: [_NAME, _text("Status", "status.phase"), _AGE],
    kinds.DEPLOYMENT.resource: [
        _NAME,
        Column("Ready", _ready_of("status.readyReplicas", "spec.replicas")),
        _number("Up-to-date", "status.updatedReplicas"),
        _number("Available", "status.availableReplicas"),
        _AGE,
    ],
    kinds.REPLICA_SET.resource: [
        _NAME,
        _number("Desired", "spec.replicas"),
        _number("Current", "status.replicas"),
        _number("Ready", "status.readyReplicas"),
        _AGE,
    ],
    kinds.STATEFUL_SET.resource: [
        _NAME,
        Column("Ready", _ready_of("status.readyReplicas", "spec.replicas")),
        _AGE,
    ],
    kinds.DAEMON_SET.resource: [
        _NAME,
        _number("Desired", "status.desiredNumberScheduled"),
        _number("Current", "status.currentNumberScheduled"),
        _number("Ready", "status.numberReady"),
        _number("Up-to-date", "status.updatedNumberScheduled"),
        _number("Available", "status.numberAvailable"),
        Column("Node Selector", lambda body: _labels(dig(body, "spec.template.spec.nodeSelector"))),
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
        Column("Min Available", _bound("spec.minAvailable")),
        Column("Max Unavailable", _bound("spec.maxUnavailable")),
        _number("Allowed Disruptions", "status.disruptionsAllowed"),
        _AGE,
    ],
    kinds.LEASE.resource: [_NAME, _text("Holder", "spec.holderIdentity"), _AGE],
    kinds.CORE_EVENT.resource: _EVENTS,
    kinds.EVENT.resource: _EVENTS,
}
