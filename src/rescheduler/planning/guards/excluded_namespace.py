"""The guard ExcludedNamespace."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class ExcludedNamespaceGuard(Guard):
    """Pods in excludedNamespaces."""

    name: ClassVar[str] = "ExcludedNamespace"
    order: ClassVar[int] = 70
    caption: ClassVar[str] = "Excluded namespace"
    changed_by: ClassVar[str] = "`excludedNamespaces`"
    on_removal: ClassVar[bool] = True
    on_recovery: ClassVar[bool] = True

    def objection(self, pod: Pod, context: GuardContext) -> str:
        excluded = pod.namespace in context.policy.excluded_namespaces
        return f"namespace {pod.namespace} is in excludedNamespaces" if excluded else ""
