"""The guard SystemCritical."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext

SYSTEM_CRITICAL = 2_000_000_000


class SystemCriticalGuard(Guard):
    """Pods of system-critical priority."""

    name: ClassVar[str] = "SystemCritical"
    order: ClassVar[int] = 100
    caption: ClassVar[str] = "System-critical"
    on_recovery: ClassVar[bool] = True

    def objection(self, pod: Pod, context: GuardContext) -> str:
        return f"its priority {pod.priority} is system-critical" if pod.priority >= SYSTEM_CRITICAL else ""
