from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class ResourceClaimsGuard(Guard):
    """Pods with dynamically claimed devices: whether another node has such free devices cannot be checked."""

    order = 300
    caption = "Claimed devices"

    def objection(self, pod: Pod, context: GuardContext) -> str:
        return (
            "its claimed devices (resourceClaims) cannot be checked on another node"
            if pod.shape.resource_claims
            else ""
        )
