from __future__ import annotations

from rescheduler.model import labels
from rescheduler.model.objects import Pod
from rescheduler.model.policy import NoEviction
from rescheduler.planning.guards.base import Guard, GuardContext


class PreferNoEvictionGuard(Guard):
    """Pods that descheduler must spare; if that is only preferred, not those on nodes under maintenance."""

    order = 180
    caption = "Marked as better not evicted"
    changed_by = "`filters.noEvictionPolicy`, the pod's annotation `descheduler.alpha.kubernetes.io/prefer-no-eviction`"

    def objection(self, pod: Pod, context: GuardContext) -> str:
        if not pod.annotations or labels.PREFER_NO_EVICTION not in pod.annotations or context.policy.by_hand:
            return ""
        policy = context.policy.filters.no_eviction_policy
        if policy is NoEviction.PREFERRED and pod.node in context.under_maintenance:
            return ""
        return f"it has the annotation {labels.PREFER_NO_EVICTION} (filters.noEvictionPolicy is {policy.value})"
