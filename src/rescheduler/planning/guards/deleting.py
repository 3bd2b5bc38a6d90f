from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext, Lasting


class DeletingGuard(Guard):
    """Pods that are being deleted."""

    order = 30
    caption = "Being deleted"
    lasting = Lasting.UNTIL_THE_POD_ENDS
    on_removal = True

    def objection(self, pod: Pod, context: GuardContext) -> str:
        return "it is being deleted" if pod.deleting else ""
