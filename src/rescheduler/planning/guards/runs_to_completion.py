from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=255, caption="Runs to completion", changed_by="`allow.jobs`")
def runs_to_completion(pod: Pod, context: GuardContext) -> str:
    """Pods without a controller that run to completion, unless allow.jobs: a copy would do their work twice."""
    if pod.owner is not None or not pod.shape.to_completion:
        return ""
    if context.policy.allow.jobs or context.lifts_caution(pod):
        return ""
    return "it runs to completion, and a copy would do its work twice (allow.jobs lets it)"
