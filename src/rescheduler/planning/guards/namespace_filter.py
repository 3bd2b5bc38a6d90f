from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(
    order=110,
    caption="Filtered by namespace",
    changed_by="`filters.namespaces`, `filters.namespaceSelector`",
    on_removal=True,
)
def namespace_filter(pod: Pod, context: GuardContext) -> str:
    """Pods outside of filters.namespaces, or whose namespace filters.namespaceSelector does not select."""
    filters = context.policy.filters
    if context.policy.by_hand:
        return ""
    if filters.namespaces and pod.namespace not in filters.namespaces:
        return f"namespace {pod.namespace} is not in filters.namespaces"
    wanted = filters.namespace_labels
    if wanted is None:
        return ""
    labels = context.snapshot.namespaces.get(pod.namespace)
    if labels is None:
        return f"the labels of namespace {pod.namespace}, which filters.namespaceSelector goes by, are not known"
    return "" if wanted.matches(labels) else f"filters.namespaceSelector {wanted} does not select its namespace"
