from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext, Lasting


@Guard(order=20, caption="Not running", lasting=Lasting.UNTIL_THE_POD_ENDS)
def not_running(pod: Pod, context: GuardContext) -> str:
    """Pods that are on no node, or have ended."""
    if pod.finished:
        return f"it has ended ({pod.phase})"
    return "" if pod.node else "it is not on a node yet"
