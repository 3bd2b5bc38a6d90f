from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext, Lasting


@Guard(order=230, caption="Being scaled", changed_by="`when.restAfterScaling`", lasting=Lasting.SOON)
def scaling(pod: Pod, context: GuardContext) -> str:
    """Pods of workloads that their autoscaler scales or has just scaled, unless their node is under maintenance."""
    if pod.owner is None or not context.snapshot.autoscalers or context.policy.by_hand:
        return ""
    if pod.node in context.under_maintenance:
        return ""
    found = context.autoscalers.get(context.workloads.key(pod))
    if found is None:
        found = context.autoscalers.get((pod.owner.kind, pod.namespace, pod.owner.name))
    if found is None:
        return ""
    title = f"HorizontalPodAutoscaler {found.name}"
    if found.active and found.desired and found.desired != found.current:
        return f"{title} scales its workload from {found.current} to {found.desired}"
    now, rest = context.snapshot.taken_at, context.policy.when.rest_after_scaling
    if now is None or found.scaled is None or now - found.scaled >= rest:
        return ""
    return f"{title} has scaled its workload less than when.restAfterScaling ({rest:g}s) ago"
