from __future__ import annotations

from rescheduler.model.objects import SYSTEM_PRIORITIES, Pod
from rescheduler.planning.guards.base import Guard, GuardContext

_LEAST = min(SYSTEM_PRIORITIES.values())


@Guard(order=100, caption="System-critical", on_recovery=True)
def system_critical(pod: Pod, context: GuardContext) -> str:
    """Pods of system-critical priority."""
    return f"its priority {pod.priority} is system-critical" if pod.priority >= _LEAST else ""
