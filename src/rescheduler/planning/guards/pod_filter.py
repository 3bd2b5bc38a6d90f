from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=130, caption="Filtered by labels", changed_by="`filters.podSelector`", on_removal=True)
def pod_filter(pod: Pod, context: GuardContext) -> str:
    """Pods that filters.podSelector does not select."""
    wanted = context.policy.filters.pods
    if wanted is None or context.lifts_filters(pod) or wanted.matches(pod.labels):
        return ""
    return f"filters.podSelector {wanted} does not select it"
