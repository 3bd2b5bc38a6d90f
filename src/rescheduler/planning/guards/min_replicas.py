"""The guard MinReplicas."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class MinReplicasGuard(Guard):
    """Pods of controllers with fewer replicas than filters.minReplicas."""

    name: ClassVar[str] = "MinReplicas"
    order: ClassVar[int] = 240
    caption: ClassVar[str] = "Too few replicas"
    changed_by: ClassVar[str] = "`filters.minReplicas`"

    def objection(self, pod: Pod, context: GuardContext) -> str:
        least = context.policy.filters.min_replicas
        if least < 2 or pod.owner is None or context.lifts_filters(pod):
            return ""
        count = context.workloads.replicas(pod)
        return f"its controller has {count} replicas, fewer than filters.minReplicas ({least})" if count < least else ""
