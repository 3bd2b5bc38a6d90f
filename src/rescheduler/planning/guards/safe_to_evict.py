"""The guard SafeToEvict."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model import labels
from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class SafeToEvictGuard(Guard):
    """Pods that the cluster autoscaler is told to leave alone."""

    name: ClassVar[str] = "SafeToEvict"
    order: ClassVar[int] = 150
    caption: ClassVar[str] = "Marked as not safe to evict"
    changed_by: ClassVar[str] = "the pod's annotation `cluster-autoscaler.kubernetes.io/safe-to-evict`"

    def objection(self, pod: Pod, context: GuardContext) -> str:
        if not pod.annotations or context.policy.by_hand or pod.annotations.get(labels.SAFE_TO_EVICT) != "false":
            return ""
        return f"annotation {labels.SAFE_TO_EVICT} is false"
