from __future__ import annotations

from rescheduler.model import labels
from rescheduler.model.objects import Pod
from rescheduler.model.policy import MigrationMethod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(
    order=320,
    caption="No fitting method",
    changed_by=f"`migrationMethod`, the workload's annotation `{labels.MIGRATION_METHOD}`",
)
def migration_method(pod: Pod, context: GuardContext) -> str:
    """Pods with the method handoff that cannot be handed off, or with an unknown method."""
    wanted = context.workloads.annotation(pod, labels.MIGRATION_METHOD)
    if wanted is not None and wanted not in set(MigrationMethod):
        return f"annotation {labels.MIGRATION_METHOD} is {wanted!r}, not one of {', '.join(MigrationMethod)}"
    if (wanted or context.policy.migration_method) != MigrationMethod.HANDOFF or pod.owner is None:
        return ""
    why = context.methods.cannot_hand_off(pod)
    return f"handoff is the method chosen for it, and {why}" if why else ""
