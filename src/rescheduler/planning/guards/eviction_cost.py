from __future__ import annotations

from rescheduler.model import labels
from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(
    order=170,
    caption="Eviction cost means never",
    changed_by="the pod's annotations `rescheduler.io/eviction-cost` and `scheduling.koordinator.sh/eviction-cost`",
)
def eviction_cost(pod: Pod, context: GuardContext) -> str:
    """Pods whose eviction cost means never."""
    if not pod.annotations or context.policy.by_hand or not (cost := labels.eviction_cost(pod.annotations)).never:
        return ""
    return f"annotation {cost.mark} is {cost.number}, which means never"
