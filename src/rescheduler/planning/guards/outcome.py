from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext, Lasting


@Guard(
    order=210,
    caption="Resting after bad moves",
    changed_by="`coolDown`, `outcomes.longestRest`",
    lasting=Lasting.WITH_TIME,
)
def outcome(pod: Pod, context: GuardContext) -> str:
    """Pods of workloads whose last moves did not pay, came back or failed, unless their node is under maintenance."""
    now = context.snapshot.taken_at
    if now is None or not context.snapshot.memories or pod.node in context.under_maintenance:
        return ""
    memory = context.snapshot.memories.get(context.workloads.key(pod))
    rest = memory.rest(context.policy) if memory is not None else None
    return rest.why if rest is not None and now < rest.until else ""
