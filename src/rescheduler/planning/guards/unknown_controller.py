from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext

# What other controllers do when a pod of theirs goes is not known: some start their work again, some do nothing.
_KNOWN = frozenset({"ReplicaSet", "StatefulSet", "Job", "DaemonSet", "Node"})


@Guard(
    order=62,
    caption="Unknown controller",
    changed_by="`filters.controllers`, the pod's annotation `descheduler.alpha.kubernetes.io/evict`",
)
def unknown_controller(pod: Pod, context: GuardContext) -> str:
    """Pods of other controllers than ReplicaSets, StatefulSets and Jobs, unless filters.controllers names them."""
    owner = pod.owner
    if owner is None or owner.kind in _KNOWN or context.lifts_filters(pod):
        return ""
    if not {owner.kind, "*"}.isdisjoint(context.policy.filters.controllers):
        return ""
    return f"what {owner.kind} {owner.name} does without it is not known (filters.controllers lets it go)"
