"""docs/events.md: every reason of an Event. They are worded here, and tests/docs/test_in_step.py asks the source.

A reason has no docstring in the code; the test sees to it that the table has all of them, and no other.
"""

from __future__ import annotations

from docs.generating.markdown import table

_EVENTS = """\
The controller tells what happens as Kubernetes Events (`events.k8s.io/v1`, `reportingController:
rescheduler.io/rescheduler`), on the objects that it happens to. The same is told once. An Event that cannot be written
is logged and forgotten: no move waits for it. Kubernetes forgets Events after an hour, if nothing else is set there.

```bash
kubectl events --for deployment/web -n shop
kubectl get events -A --field-selector reason=MigrationFailed
```
"""

_MOVE = "pod, its workload, PodMigration"
_ENDED = f"{_MOVE}, both nodes"
_HELPED = "workload, pod"
_OURS = "the replica's pod; outside of a cluster its Lease"
EVENTS = {
    "Moves": {
        "MigrationStarted": ("Normal", _MOVE, "a move has begun; the note says from where to where, how and why"),
        "MigrationRetried": ("Normal", _MOVE, "a move that was rolled back is tried again"),
        "MigrationRolledBack": (
            "Warning",
            _MOVE,
            "a move could not go on, and everything is as it was; the note says why, and what is tried next",
        ),
        "MigrationCompleted": (
            "Normal",
            f"{_ENDED}, the replacement",
            "the replacement is Ready and the original gone; the note says if it landed elsewhere than planned",
        ),
        "MigrationFailed": ("Warning", _ENDED, "a move is given up; what it had done is taken back"),
        "MigrationNotPaid": (
            "Warning",
            "PodMigration, workload",
            "the gain that a move was made for did not come true; the workload [rests longer](outcomes.md)",
        ),
        "MigrationCameBack": (
            "Warning",
            "PodMigration, workload",
            "a moved pod is on its old node again; the workload [rests longer](outcomes.md)",
        ),
    },
    "Failed pods": {
        "PodRescheduled": (
            "Normal",
            _HELPED,
            "a pod failed on its node; it was deleted, and its replacement avoids the node",
        ),
        "PodRestarted": ("Normal", _HELPED, "the same of a DaemonSet's pod, which is made again on its node"),
        "RetriesExhausted": (
            "Warning",
            _HELPED,
            "the budget of `scheduling-retries` is used up: the pod stays as it is",
        ),
        "NoNodeLeft": ("Warning", _HELPED, "every node that would do has been tried, or none would do now"),
        "WorkloadAtFault": (
            "Warning",
            _HELPED,
            "pods fail in the same way on several nodes: nothing more is done until the template changes",
        ),
        "Recovered": ("Normal", "workload", "all pods have been well for a while: the record is cleared"),
        "RecordTakenOver": (
            "Normal",
            "workload",
            "the record of [kse-rescheduler](failed-pods.md#coming-from-kse-rescheduler) is in ours now",
        ),
        "RecordUnreadable": (
            "Warning",
            "workload",
            "a record cannot be read: `rescheduler.io/failures` is started anew, one of kse-rescheduler is left",
        ),
        "RetriesInvalid": ("Warning", _HELPED, "the value of `scheduling-retries` is no whole number from 0 to 1000"),
        "RetriesMisspelt": (
            "Warning",
            "workload",
            "the annotation is written `scheduling-retires`; it counts, and should be corrected",
        ),
        "RecoveryRefused": ("Warning", _HELPED, "a guard, or the Job's own limits, forbid to delete the pod"),
        "NodesUnreachable": (
            "Warning",
            _HELPED,
            "more than half of all nodes are not ready: a lost node does not count now",
        ),
    },
    "The controller": {
        "ReschedulingPaused": (
            "Normal",
            "ConfigMap `kube-rescheduler-state`",
            "somebody has [paused](approval.md) rescheduling",
        ),
        "ReschedulingResumed": ("Normal", "ConfigMap `kube-rescheduler-state`", "it goes on"),
        "ConfigurationChanged": (
            "Normal",
            _OURS,
            "the configuration's file has changed and is in force; the note names the fields",
        ),
        "ConfigurationAwaitsRestart": ("Warning", _OURS, "a field has changed that needs a restart"),
        "ConfigurationRefused": (
            "Warning",
            _OURS,
            "the file has mistakes, all of them in the note; what was in force stays",
        ),
        "MaintenanceRequested": ("Normal", "node", "somebody has pressed the page's button; the note says who"),
        "MaintenanceEnded": ("Normal", "node", "the same, for the end of maintenance"),
    },
}
"""By chapter and reason: the type, on which objects, and when."""


def events() -> str:
    """Every reason of an Event, by chapter."""
    parts = ["# Events\n", _EVENTS]
    for chapter, reasons in EVENTS.items():
        rows = [(f"`{reason}`", *words) for reason, words in reasons.items()]
        parts += [f"## {chapter}\n", table(("reason", "type", "on", "when"), rows)]
    return "\n".join(parts)
