from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext

SYSTEM_CRITICAL = 2_000_000_000


class SystemCriticalGuard(Guard):
    """Pods of system-critical priority."""

    order = 100
    caption = "System-critical"
    on_recovery = True

    def objection(self, pod: Pod, context: GuardContext) -> str:
        return f"its priority {pod.priority} is system-critical" if pod.priority >= SYSTEM_CRITICAL else ""
