"""Guards that the operator sets up (`filters` of the configuration): which pods strategies may move at all.

They are those of descheduler's DefaultEvictor, so that its users find them here. Whoever orders a move by hand knows
what he does: then none of them holds. The pod's mark `evict` lifts those that are about the pod itself; those that are
about where it is (namespaces, nodes) say what the operator lets us touch, which is not for a pod to change.
"""

from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import GuardContext

_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def namespace(pod: Pod, context: GuardContext) -> str:
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


def node(pod: Pod, context: GuardContext) -> str:
    """Pods on nodes that filters.nodeSelector does not select."""
    wanted = context.policy.filters.nodes
    if wanted is None or context.policy.by_hand:
        return ""
    there = context.nodes.get(pod.node)
    fits = there is not None and wanted.matches(there.labels)
    return "" if fits else f"filters.nodeSelector {wanted} does not select its node"


def selector(pod: Pod, context: GuardContext) -> str:
    """Pods that filters.podSelector does not select."""
    wanted = context.policy.filters.pods
    if wanted is None or _is_free(pod, context) or wanted.matches(pod.labels):
        return ""
    return f"filters.podSelector {wanted} does not select it"


def priority(pod: Pod, context: GuardContext) -> str:
    """Pods of filters.priorityThreshold or above."""
    threshold = context.policy.filters.priority_threshold
    if threshold is None or _is_free(pod, context):
        return ""
    if isinstance(threshold, int):
        return (
            f"its priority {pod.priority} is not below filters.priorityThreshold" if pod.priority >= threshold else ""
        )
    known = context.snapshot.priority_classes.get(threshold, _BUILT_IN.get(threshold))
    if known is None:
        return f"PriorityClass {threshold}, which filters.priorityThreshold names, is not known"
    return f"its priority {pod.priority} is not below that of {threshold} ({known})" if pod.priority >= known else ""


def replicas(pod: Pod, context: GuardContext) -> str:
    """Pods of controllers with fewer replicas than filters.minReplicas."""
    least = context.policy.filters.min_replicas
    if least < 2 or pod.owner is None or _is_free(pod, context):
        return ""
    count = context.workloads.replicas(pod)
    return f"its controller has {count} replicas, fewer than filters.minReplicas ({least})" if count < least else ""


def persistent_volumes(pod: Pod, context: GuardContext) -> str:
    """Pods with a PersistentVolumeClaim, where filters.persistentVolumes is false; of protected classes, if any."""
    filters = context.policy.filters
    if filters.persistent_volumes or not pod.shape.claims or _is_free(pod, context):
        return ""
    for name in pod.shape.claims:
        if not filters.storage_classes:
            return f"it uses claim {name}, and filters.persistentVolumes is false"
        claim = context.snapshot.claims.get((pod.namespace, name))
        if claim is None or not claim.storage_class:
            return f"which storage class claim {name} has is not known (filters.protectedStorageClasses)"
        if claim.storage_class in filters.storage_classes:
            return f"claim {name} is of storage class {claim.storage_class} (filters.protectedStorageClasses)"
    return ""


def without_controller(pod: Pod, context: GuardContext) -> str:
    """Pods that nobody manages, where filters.withoutController is false."""
    if pod.owner is not None or context.policy.filters.without_controller or _is_free(pod, context):
        return ""
    return "nobody manages it, and filters.withoutController is false"


def without_disruption_budget(pod: Pod, context: GuardContext) -> str:
    """Pods that no disruption budget selects, where filters.withoutDisruptionBudget is false."""
    if context.policy.filters.without_disruption_budget or _is_free(pod, context):
        return ""
    budgets = context.budgets.get(pod.namespace, ())
    if any(budget.selector is not None and budget.selector.matches(pod.labels) for budget in budgets):
        return ""
    return "no disruption budget selects it, and filters.withoutDisruptionBudget is false"


def _is_free(pod: Pod, context: GuardContext) -> bool:
    """Whether a person has ordered the move, or the pod's mark says that it may be moved all the same."""
    return context.policy.by_hand or context.lifts_caution(pod)
