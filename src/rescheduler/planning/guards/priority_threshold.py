from __future__ import annotations

from rescheduler.model.objects import SYSTEM_PRIORITIES, Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=140, caption="Priority too high", changed_by="`filters.priorityThreshold`")
def priority_threshold(pod: Pod, context: GuardContext) -> str:
    """Pods of filters.priorityThreshold or above."""
    threshold = context.policy.filters.priority_threshold
    if threshold is None or context.lifts_filters(pod):
        return ""
    if isinstance(threshold, int):
        return (
            f"its priority {pod.priority} is not below filters.priorityThreshold" if pod.priority >= threshold else ""
        )
    known = context.snapshot.priority_classes.get(threshold, SYSTEM_PRIORITIES.get(threshold))
    if known is None:
        return f"PriorityClass {threshold}, which filters.priorityThreshold names, is not known"
    return f"its priority {pod.priority} is not below that of {threshold} ({known})" if pod.priority >= known else ""
