from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=250, caption="No controller", changed_by="`filters.withoutController`")
def without_controller(pod: Pod, context: GuardContext) -> str:
    """Pods without a controller, where filters.withoutController is false."""
    if pod.owner is not None or context.policy.filters.without_controller or context.lifts_filters(pod):
        return ""
    return "it has no controller, and filters.withoutController is false"
