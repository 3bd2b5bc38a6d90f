from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=10, caption="Not understood", on_removal=True, on_recovery=True)
def unreadable(pod: Pod, context: GuardContext) -> str:
    """Pods that the input describes in a way that cannot be understood."""
    return pod.problem
