from __future__ import annotations

from rescheduler.model import labels
from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(
    order=150,
    caption="Marked as not safe to evict",
    changed_by="the pod's annotation `cluster-autoscaler.kubernetes.io/safe-to-evict`",
)
def safe_to_evict(pod: Pod, context: GuardContext) -> str:
    """Pods that the cluster autoscaler must leave alone."""
    if not pod.annotations or context.policy.by_hand or pod.annotations.get(labels.SAFE_TO_EVICT) != "false":
        return ""
    return f"annotation {labels.SAFE_TO_EVICT} is false"
