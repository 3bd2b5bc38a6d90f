from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=120, caption="Filtered by node", changed_by="`filters.nodeSelector`", on_removal=True)
def node_filter(pod: Pod, context: GuardContext) -> str:
    """Pods on nodes that filters.nodeSelector does not select."""
    wanted = context.policy.filters.nodes
    if wanted is None or context.policy.by_hand:
        return ""
    there = context.nodes.get(pod.node)
    fits = there is not None and wanted.matches(there.labels)
    return "" if fits else f"filters.nodeSelector {wanted} does not select its node"
