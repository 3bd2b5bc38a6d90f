"""The guard ExcludedPodSelector."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class ExcludedPodSelectorGuard(Guard):
    """Pods that excludedPodSelector selects."""

    name: ClassVar[str] = "ExcludedPodSelector"
    order: ClassVar[int] = 80
    caption: ClassVar[str] = "Excluded by selector"
    changed_by: ClassVar[str] = "`excludedPodSelector`"
    on_removal: ClassVar[bool] = True
    on_recovery: ClassVar[bool] = True

    def objection(self, pod: Pod, context: GuardContext) -> str:
        selector = context.policy.excluded_pods
        return (
            f"excludedPodSelector {selector} selects it"
            if selector is not None and selector.matches(pod.labels)
            else ""
        )
