from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(
    order=270,
    caption="Has persistent volumes",
    changed_by="`filters.persistentVolumes`, `filters.protectedStorageClasses`",
)
def persistent_volumes(pod: Pod, context: GuardContext) -> str:
    """Pods with a PersistentVolumeClaim, where filters.persistentVolumes is false; of protected classes, if any."""
    filters = context.policy.filters
    if filters.persistent_volumes or not pod.shape.claims or context.lifts_filters(pod):
        return ""
    for name in pod.shape.claims:
        if not filters.protected_storage_classes:
            return f"it uses claim {name}, and filters.persistentVolumes is false"
        claim = context.snapshot.claims.get((pod.namespace, name))
        if claim is None or not claim.storage_class:
            return f"which storage class claim {name} has is not known (filters.protectedStorageClasses)"
        if claim.storage_class in filters.protected_storage_classes:
            return f"claim {name} is of storage class {claim.storage_class} (filters.protectedStorageClasses)"
    return ""
