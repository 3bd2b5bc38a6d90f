"""Guards of workloads that are not at rest, and of pods that other tools were told to leave alone.

A pod that is moved while its workload is rolled out or scaled may be deleted a moment later, or stand in its own
workload's way. A node that an operator empties is another matter: `kubectl drain` does not wait for that, either, and
what protects the pods are disruption budgets. (A migration still waits for a rollout before it begins, as long as its
time-out allows.) Marks of other tools hold for a node that is emptied, too: they are the pod's owner's word. Whoever
orders a move by hand has seen them.
"""

from __future__ import annotations

from rescheduler.model import labels
from rescheduler.model.objects import Pod
from rescheduler.model.policy import NoEviction
from rescheduler.model.time import DurationError, format_instant, parse_duration
from rescheduler.planning.guards.base import GuardContext


def rolling_out(pod: Pod, context: GuardContext) -> str:
    """Pods of workloads that are just rolled out or scaled by their owner, unless their node is under maintenance."""
    changing = context.changing
    if not changing or pod.owner is None or context.policy.by_hand or pod.node in context.under_maintenance:
        return ""
    controller = (pod.owner.kind, pod.namespace, pod.owner.name)
    return changing.get(controller) or changing.get(context.workloads.key(pod), "")


def scaling(pod: Pod, context: GuardContext) -> str:
    """Pods of workloads that their autoscaler scales or has just scaled, unless their node is under maintenance."""
    if pod.owner is None or not context.snapshot.autoscalers or context.policy.by_hand:
        return ""
    if pod.node in context.under_maintenance:
        return ""
    found = context.autoscalers.get(context.workloads.key(pod))
    if found is None:
        found = context.autoscalers.get((pod.owner.kind, pod.namespace, pod.owner.name))
    if found is None:
        return ""
    title = f"HorizontalPodAutoscaler {found.name}"
    if found.active and found.desired and found.desired != found.current:
        return f"{title} scales its workload from {found.current} to {found.desired}"
    now, rest = context.snapshot.taken_at, context.policy.timing.rest_after_scaling
    if now is None or found.scaled is None or now - found.scaled >= rest:
        return ""
    return f"{title} has scaled its workload less than when.restAfterScaling ({rest:g}s) ago"


def not_safe_to_evict(pod: Pod, context: GuardContext) -> str:
    """Pods that the cluster autoscaler is told to leave alone."""
    if not pod.annotations or context.policy.by_hand or pod.annotations.get(labels.SAFE_TO_EVICT) != "false":
        return ""
    return f"annotation {labels.SAFE_TO_EVICT} is false"


def not_to_be_disrupted(pod: Pod, context: GuardContext) -> str:
    """Pods that Karpenter is told to leave alone, for good or for so long after their start."""
    said = pod.annotations.get(labels.DO_NOT_DISRUPT, "false") if pod.annotations else "false"
    if said == "false" or context.policy.by_hand:
        return ""
    mark = f"annotation {labels.DO_NOT_DISRUPT} is"
    if said == "true":
        return f"{mark} true"
    lasting = disruption_delay(pod)
    if lasting is None:
        # Karpenter itself ignores it, but whoever wrote it wanted the pod to be left alone.
        return f"{mark} {said[:40]!r}, which is neither true nor false nor a duration such as 4h: it counts as true"
    now = context.snapshot.taken_at
    if now is None or pod.started is None:
        return f"{mark} {said}, and nothing says {'what time it is' if now is None else 'when the pod started'}"
    if now >= pod.started + lasting:
        return ""
    return f"{mark} {said}, and the pod started at {format_instant(pod.started)}"


def disruption_delay(pod: Pod) -> float | None:
    """For how long after its start Karpenter is told to leave a pod alone; None if no such time is told."""
    try:
        return parse_duration(pod.annotations[labels.DO_NOT_DISRUPT])
    except (KeyError, DurationError):
        return None


def too_costly(pod: Pod, context: GuardContext) -> str:
    """Pods whose eviction cost means never."""
    if not pod.annotations or context.policy.by_hand or not (cost := labels.eviction_cost(pod.annotations)).never:
        return ""
    return f"annotation {cost.mark} is {cost.number}, which means never"


def prefers_no_eviction(pod: Pod, context: GuardContext) -> str:
    """Pods that descheduler is told to spare; if that is only preferred, not those on nodes under maintenance."""
    if not pod.annotations or labels.PREFER_NO_EVICTION not in pod.annotations or context.policy.by_hand:
        return ""
    policy = context.policy.filters.no_eviction
    if policy is NoEviction.PREFERRED and pod.node in context.under_maintenance:
        return ""
    return f"it has the annotation {labels.PREFER_NO_EVICTION} (filters.noEvictionPolicy is {policy.value})"
