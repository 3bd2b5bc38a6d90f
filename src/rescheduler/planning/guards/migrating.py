from __future__ import annotations

from rescheduler.model import labels
from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext, Lasting


@Guard(order=40, caption="Being moved already", lasting=Lasting.SOON, on_removal=True, on_recovery=True)
def migrating(pod: Pod, context: GuardContext) -> str:
    """Pods that a migration is moving already, or failed to move a short while ago."""
    if why := context.snapshot.spoken_for.get((pod.namespace, pod.name)):
        return why
    status = pod.labels.get(labels.MIGRATION_STATUS, "")
    return (
        f"migration {pod.labels.get(labels.MIGRATION_ID, '')} is {status}"
        if status in labels.RUNNING_MIGRATIONS
        else ""
    )
