from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext, Lasting


@Guard(order=190, caption="Too young", changed_by="`minPodAge`", lasting=Lasting.WITH_TIME)
def min_pod_age(pod: Pod, context: GuardContext) -> str:
    """Pods younger than minPodAge."""
    now, least = context.snapshot.taken_at, context.policy.min_pod_age
    if now is None or pod.created is None or now - pod.created >= least or context.lifts_caution(pod):
        return ""
    return f"it is younger than minPodAge ({least:g}s)"
