"""What people are told about failed pods: Kubernetes Events, as data.

Whoever looks at the workload or at the pod finds it there. The occasion makes that nobody is told the same twice:
`cluster.events` names an Event by it.
"""

from __future__ import annotations

from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.model.json import Json

RESCHEDULED = "PodRescheduled"
RESTARTED = "PodRestarted"
EXHAUSTED = "RetriesExhausted"
NO_NODE_LEFT = "NoNodeLeft"
AT_FAULT = "WorkloadAtFault"
RECOVERED = "Recovered"
UNREADABLE = "RecordUnreadable"
TAKEN_OVER = "RecordTakenOver"
INVALID = "RetriesInvalid"
MISSPELT = "RetriesMisspelt"
REFUSED = "RecoveryRefused"
DOUBTED = "NodesUnreachable"
_GOOD = (RESCHEDULED, RESTARTED, RECOVERED, TAKEN_OVER)


def make_events(workload: Json, pod: Json | None, reason: str, note: str, occasion: str) -> list[ObjectEvent]:
    """The news for the workload, and for the pod if it is about one."""
    owner = subject(workload, "")
    one = subject(pod, "Pod") if pod is not None else owner
    pairs = dict.fromkeys([(owner, one), (one, owner)])
    warning = reason not in _GOOD
    return [ObjectEvent(about, other, reason, "Recover", note, occasion, warning) for about, other in pairs]


def subject(body: Json, kind: str) -> Subject:
    """An object, as news name it; items of a list do not say their kind."""
    metadata = body["metadata"]
    return Subject(kind or body["kind"], metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))
