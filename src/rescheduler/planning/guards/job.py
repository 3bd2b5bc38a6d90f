"""The guard Job."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class JobGuard(Guard):
    """Pods of Jobs, unless allow.jobs: moving one starts its work again."""

    name: ClassVar[str] = "Job"
    order: ClassVar[int] = 310
    caption: ClassVar[str] = "Pod of a Job"
    changed_by: ClassVar[str] = "`allow.jobs`"

    def objection(self, pod: Pod, context: GuardContext) -> str:
        if pod.owner is None or pod.owner.kind != "Job" or context.policy.allow.jobs or context.lifts_caution(pod):
            return ""
        return f"Job {pod.owner.name} would start its work again (allow.jobs lets it)"
