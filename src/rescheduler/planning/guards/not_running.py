from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext, Lasting


class NotRunningGuard(Guard):
    """Pods that are on no node, or have ended."""

    order = 20
    caption = "Not running"
    lasting = Lasting.UNTIL_THE_POD_ENDS

    def objection(self, pod: Pod, context: GuardContext) -> str:
        if pod.finished:
            return f"it has ended ({pod.phase})"
        return "" if pod.node else "it is not on a node yet"
