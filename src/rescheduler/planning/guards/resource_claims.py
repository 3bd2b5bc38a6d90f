from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=300, caption="Claimed devices")
def resource_claims(pod: Pod, context: GuardContext) -> str:
    """Pods with dynamically claimed devices: whether another node has such free devices cannot be checked."""
    return "its claimed devices (resourceClaims) cannot be checked on another node" if pod.shape.resource_claims else ""
