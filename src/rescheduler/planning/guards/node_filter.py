"""The guard NodeFilter."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class NodeFilterGuard(Guard):
    """Pods on nodes that filters.nodeSelector does not select."""

    name: ClassVar[str] = "NodeFilter"
    order: ClassVar[int] = 120
    caption: ClassVar[str] = "Filtered by node"
    changed_by: ClassVar[str] = "`filters.nodeSelector`"
    on_removal: ClassVar[bool] = True

    def objection(self, pod: Pod, context: GuardContext) -> str:
        wanted = context.policy.filters.nodes
        if wanted is None or context.policy.by_hand:
            return ""
        there = context.nodes.get(pod.node)
        fits = there is not None and wanted.matches(there.labels)
        return "" if fits else f"filters.nodeSelector {wanted} does not select its node"
