"""The guard MinPodAge."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext, Lasting


class MinPodAgeGuard(Guard):
    """Pods younger than minPodAge."""

    name: ClassVar[str] = "MinPodAge"
    order: ClassVar[int] = 190
    caption: ClassVar[str] = "Too young"
    changed_by: ClassVar[str] = "`minPodAge`"
    lasting: ClassVar[Lasting] = Lasting.WITH_TIME

    def objection(self, pod: Pod, context: GuardContext) -> str:
        now, least = context.snapshot.taken_at, context.policy.min_pod_age
        if now is None or pod.created is None or now - pod.created >= least or context.lifts_caution(pod):
            return ""
        return f"it is younger than minPodAge ({least:g}s)"
