"""The guard WithoutController."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class WithoutControllerGuard(Guard):
    """Pods that nobody manages, where filters.withoutController is false."""

    name: ClassVar[str] = "WithoutController"
    order: ClassVar[int] = 250
    caption: ClassVar[str] = "Nobody manages it"
    changed_by: ClassVar[str] = "`filters.withoutController`"

    def objection(self, pod: Pod, context: GuardContext) -> str:
        if pod.owner is not None or context.policy.filters.without_controller or context.lifts_filters(pod):
            return ""
        return "nobody manages it, and filters.withoutController is false"
