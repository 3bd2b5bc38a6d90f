"""docs/events.md: every reason of an Event.

Reasons have no docstrings in the code, so their texts are here; tests/docs/test_in_step.py checks that all are here.
"""

from __future__ import annotations

from docs.generating.markdown import table

_EVENTS = """\
The controller reports what happens as Kubernetes Events (`events.k8s.io/v1`, `reportingController:
rescheduler.io/rescheduler`) on the affected objects, each once. An Event that cannot be written is logged and
dropped: no move waits for it. By default Kubernetes deletes Events after an hour.

```bash
kubectl events --for deployment/web -n shop
kubectl get events -A --field-selector reason=MigrationFailed
```
"""

_MOVE = "pod, its workload, PodMigration"
_ENDED = f"{_MOVE}, both nodes"
_HELPED = "workload, pod"
_OURS = "the replica's pod; outside of a cluster the Lease"
EVENTS = {
    "Moves": {
        "MigrationStarted": ("Normal", _MOVE, "a move has begun; the note has source, target, method and reason"),
        "MigrationRetried": ("Normal", _MOVE, "a move that was rolled back is tried again"),
        "MigrationRolledBack": (
            "Warning",
            _MOVE,
            "a move could not continue and was rolled back; the note has the reason and the next try",
        ),
        "MigrationCompleted": (
            "Normal",
            f"{_ENDED}, the replacement",
            "the replacement is Ready and the original is gone; the note says if it landed on another node",
        ),
        "MigrationFailed": ("Warning", _ENDED, "a move was given up and rolled back"),
        "MigrationNotPaid": (
            "Warning",
            "PodMigration, workload",
            "the predicted gain of a move did not come true; the workload [rests longer](outcomes.md)",
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
        "PodRestarted": ("Normal", _HELPED, "the same for a DaemonSet's pod, which is recreated on its node"),
        "RetriesExhausted": (
            "Warning",
            _HELPED,
            "the budget of `scheduling-retries` is used up: the pod stays",
        ),
        "NoNodeLeft": ("Warning", _HELPED, "every possible node was tried, or none is possible now"),
        "WorkloadAtFault": (
            "Warning",
            _HELPED,
            "pods fail in the same way on several nodes: recovery stops until the template changes",
        ),
        "Recovered": ("Normal", "workload", "all pods have been Ready for a while: the record is cleared"),
        "RecordTakenOver": (
            "Normal",
            "workload",
            "the record of [kse-rescheduler](failed-pods.md#coming-from-kse-rescheduler) was converted",
        ),
        "RecordUnreadable": (
            "Warning",
            "workload",
            "a record cannot be read: `rescheduler.io/failures` starts again, one of kse-rescheduler is ignored",
        ),
        "RetriesInvalid": ("Warning", _HELPED, "`scheduling-retries` is not a whole number from 0 to 1000"),
        "RetriesMisspelt": (
            "Warning",
            "workload",
            "the annotation is spelled `scheduling-retires`; it works, but please correct it",
        ),
        "RecoveryRefused": ("Warning", _HELPED, "a guard, or the Job's own limits, forbid deleting the pod"),
        "NodesUnreachable": (
            "Warning",
            _HELPED,
            "more than half of all nodes are not ready: lost nodes do not count as failures now",
        ),
    },
    "The controller": {
        "ReschedulingPaused": (
            "Normal",
            "ConfigMap `kube-rescheduler-state`",
            "rescheduling was [paused](approval.md)",
        ),
        "ReschedulingResumed": ("Normal", "ConfigMap `kube-rescheduler-state`", "rescheduling was resumed"),
        "ConfigurationChanged": (
            "Normal",
            _OURS,
            "the configuration file changed and is active; the note names the fields",
        ),
        "ConfigurationAwaitsRestart": ("Warning", _OURS, "a changed field needs a restart"),
        "ConfigurationRefused": (
            "Warning",
            _OURS,
            "the file has errors, all of them in the note; the old configuration stays active",
        ),
        "MaintenanceRequested": ("Normal", "node", "the page's button was pressed; the note names the user"),
        "MaintenanceEnded": ("Normal", "node", "the same for the end of maintenance"),
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
