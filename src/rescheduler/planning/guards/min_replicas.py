from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=240, caption="Too few replicas", changed_by="`filters.minReplicas`")
def min_replicas(pod: Pod, context: GuardContext) -> str:
    """Pods of controllers with fewer replicas than filters.minReplicas."""
    least = context.policy.filters.min_replicas
    if least < 2 or pod.owner is None or context.lifts_filters(pod):
        return ""
    count = context.workloads.replicas(pod)
    return f"its controller has {count} replicas, fewer than filters.minReplicas ({least})" if count < least else ""
