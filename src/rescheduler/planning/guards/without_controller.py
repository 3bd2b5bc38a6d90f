from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class WithoutControllerGuard(Guard):
    """Pods without a controller, where filters.withoutController is false."""

    order = 250
    caption = "No controller"
    changed_by = "`filters.withoutController`"

    def objection(self, pod: Pod, context: GuardContext) -> str:
        if pod.owner is not None or context.policy.filters.without_controller or context.lifts_filters(pod):
            return ""
        return "it has no controller, and filters.withoutController is false"
