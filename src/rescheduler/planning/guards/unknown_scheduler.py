from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(
    order=64,
    caption="Unknown scheduler",
    changed_by="`filters.schedulers`, the pod's annotation `descheduler.alpha.kubernetes.io/evict`",
)
def unknown_scheduler(pod: Pod, context: GuardContext) -> str:
    """Pods of schedulers that filters.schedulers does not name: whether they honour nominations is not known."""
    scheduler, known = pod.shape.scheduler, context.policy.filters.schedulers
    if not scheduler or not known or scheduler in known or context.lifts_filters(pod):
        return ""
    return f"scheduler {scheduler} places it, which filters.schedulers does not name"
