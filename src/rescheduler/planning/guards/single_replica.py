from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.model.plan import Method
from rescheduler.planning.guards.base import Guard, GuardContext

_LONG = 600.0  # seconds after which nothing waits any more for a pod to become Ready
_CRASHES = 3  # restarts after which a pod that is not Ready crashes again and again, also while it runs for a moment


@Guard(order=330, caption="Single replica", changed_by="`allow.singleReplica`, `migrationMethod`")
def single_replica(pod: Pod, context: GuardContext) -> str:
    """Single replicas that cannot be handed off, unless allow.singleReplica: there would be a moment of none."""
    if context.policy.allow.single_replica or pod.owner is None or pod.owner.kind in ("Job", "DaemonSet", "Node"):
        return ""
    if context.methods.choose(pod) is not Method.EVICT or context.lifts_caution(pod):
        return ""
    if not pod.ready and (pod.ailment is not None or pod.trouble.restarts >= _CRASHES or _long_unready(pod, context)):
        return ""  # it crashes, cannot start, or serves no requests: there is no running replica already
    workloads = context.workloads
    only = "replica" if workloads.replicas(pod) <= 1 else "Ready replica" if workloads.only_ready(pod) else ""
    if not only:
        return ""
    why = context.methods.cannot_hand_off(pod) or "evict is the method chosen for it"
    return f"it is the only {only}, and {why} (allow.singleReplica lets it)"


def _long_unready(pod: Pod, context: GuardContext) -> bool:
    now = context.snapshot.taken_at
    since = (each.since for each in pod.trouble.conditions if each.type == "Ready" and each.since is not None)
    return now is not None and any(now - when >= _LONG for when in since)
