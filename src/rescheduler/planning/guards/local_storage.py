from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=280, caption="Data on its node", changed_by="`allow.localStorage`")
def local_storage(pod: Pod, context: GuardContext) -> str:
    """Pods with data on their node, unless allow.localStorage."""
    kept = pod.shape.local_storage
    if not kept or context.policy.allow.local_storage or context.lifts_caution(pod):
        return ""
    return f"it has local storage ({', '.join(kept)})"
