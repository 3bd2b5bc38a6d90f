from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=50, caption="DaemonSet pod", on_removal=True)
def daemon_set(pod: Pod, context: GuardContext) -> str:
    """DaemonSet pods: their place is their node."""
    return f"DaemonSet {pod.owner.name} runs it on this node" if pod.owner and pod.owner.kind == "DaemonSet" else ""
