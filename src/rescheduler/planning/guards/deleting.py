from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext, Lasting


@Guard(order=30, caption="Being deleted", lasting=Lasting.UNTIL_THE_POD_ENDS, on_removal=True)
def deleting(pod: Pod, context: GuardContext) -> str:
    """Pods that are being deleted."""
    return "it is being deleted" if pod.deleting else ""
