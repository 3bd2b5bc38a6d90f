"""The guard StaticPod."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class StaticPodGuard(Guard):
    """Static and mirror pods: the node's kubelet runs them from a file."""

    name: ClassVar[str] = "StaticPod"
    order: ClassVar[int] = 60
    caption: ClassVar[str] = "Static pod"
    on_removal: ClassVar[bool] = True
    on_recovery: ClassVar[bool] = True

    def objection(self, pod: Pod, context: GuardContext) -> str:
        return "it is a static pod of its node" if pod.static else ""
