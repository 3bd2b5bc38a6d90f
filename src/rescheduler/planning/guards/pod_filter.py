"""The guard PodFilter."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class PodFilterGuard(Guard):
    """Pods that filters.podSelector does not select."""

    name: ClassVar[str] = "PodFilter"
    order: ClassVar[int] = 130
    caption: ClassVar[str] = "Filtered by labels"
    changed_by: ClassVar[str] = "`filters.podSelector`"
    on_removal: ClassVar[bool] = True

    def objection(self, pod: Pod, context: GuardContext) -> str:
        wanted = context.policy.filters.pods
        if wanted is None or context.lifts_filters(pod) or wanted.matches(pod.labels):
            return ""
        return f"filters.podSelector {wanted} does not select it"
