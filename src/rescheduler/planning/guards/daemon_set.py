"""The guard DaemonSet."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class DaemonSetGuard(Guard):
    """DaemonSet pods: their place is their node."""

    name: ClassVar[str] = "DaemonSet"
    order: ClassVar[int] = 50
    caption: ClassVar[str] = "DaemonSet pod"
    on_removal: ClassVar[bool] = True

    def objection(self, pod: Pod, context: GuardContext) -> str:
        return f"DaemonSet {pod.owner.name} runs it on this node" if pod.owner and pod.owner.kind == "DaemonSet" else ""
