from __future__ import annotations

from rescheduler.model import labels
from rescheduler.model.objects import Pod
from rescheduler.model.policy import NoEviction
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(
    order=180,
    caption="Marked as better not evicted",
    changed_by="`filters.noEvictionPolicy`, the pod's annotation `descheduler.alpha.kubernetes.io/prefer-no-eviction`",
)
def prefer_no_eviction(pod: Pod, context: GuardContext) -> str:
    """Pods that descheduler must spare; if that is only preferred, not those on nodes under maintenance."""
    if not pod.annotations or labels.PREFER_NO_EVICTION not in pod.annotations or context.policy.by_hand:
        return ""
    policy = context.policy.filters.no_eviction_policy
    if policy is NoEviction.PREFERRED and pod.node in context.under_maintenance:
        return ""
    return f"it has the annotation {labels.PREFER_NO_EVICTION} (filters.noEvictionPolicy is {policy.value})"
