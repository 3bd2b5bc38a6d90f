from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=60, caption="Static pod", on_removal=True, on_recovery=True)
def static_pod(pod: Pod, context: GuardContext) -> str:
    """Static and mirror pods: the node's kubelet runs them from a file."""
    return "it is a static pod of its node" if pod.static else ""
