from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=70, caption="Excluded namespace", changed_by="`excludedNamespaces`", on_removal=True, on_recovery=True)
def excluded_namespace(pod: Pod, context: GuardContext) -> str:
    """Pods in excludedNamespaces."""
    excluded = pod.namespace in context.policy.excluded_namespaces
    return f"namespace {pod.namespace} is in excludedNamespaces" if excluded else ""
