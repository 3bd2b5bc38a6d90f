"""The guard WithoutController."""

from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class WithoutControllerGuard(Guard):
    """Pods that nobody manages, where filters.withoutController is false."""

    name = "WithoutController"
    order = 250
    caption = "Nobody manages it"
    changed_by = "`filters.withoutController`"

    def objection(self, pod: Pod, context: GuardContext) -> str:
        if pod.owner is not None or context.policy.filters.without_controller or context.lifts_filters(pod):
            return ""
        return "nobody manages it, and filters.withoutController is false"
