from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=80, caption="Excluded by selector", changed_by="`excludedPodSelector`", on_removal=True, on_recovery=True)
def excluded_pod_selector(pod: Pod, context: GuardContext) -> str:
    """Pods that excludedPodSelector selects."""
    selector = context.policy.excluded_pods
    return f"excludedPodSelector {selector} selects it" if selector is not None and selector.matches(pod.labels) else ""
