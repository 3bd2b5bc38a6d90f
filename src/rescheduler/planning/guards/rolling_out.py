from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext, Lasting


@Guard(order=220, caption="Being rolled out", lasting=Lasting.SOON)
def rolling_out(pod: Pod, context: GuardContext) -> str:
    """Pods of workloads that are being rolled out or scaled by their owner, unless their node is under maintenance."""
    changing = context.changing
    if not changing or pod.owner is None or context.policy.by_hand or pod.node in context.under_maintenance:
        return ""
    controller = (pod.owner.kind, pod.namespace, pod.owner.name)
    return changing.get(controller) or changing.get(context.workloads.key(pod), "")
