from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=310, caption="Pod of a Job", changed_by="`allow.jobs`")
def job(pod: Pod, context: GuardContext) -> str:
    """Pods of Jobs, unless allow.jobs: moving one starts its work again."""
    if pod.owner is None or pod.owner.kind != "Job" or context.policy.allow.jobs or context.lifts_caution(pod):
        return ""
    return f"Job {pod.owner.name} would start its work again (allow.jobs lets it)"
