from __future__ import annotations

from math import inf

from rescheduler.model import labels
from rescheduler.model.move_history import FAILED
from rescheduler.model.objects import Pod
from rescheduler.model.time import MAX_INSTANT, format_instant
from rescheduler.planning.guards.base import Guard, GuardContext, Lasting


@Guard(order=200, caption="Cooling down", changed_by="`coolDown`", lasting=Lasting.WITH_TIME)
def cool_down(pod: Pod, context: GuardContext) -> str:
    """Pods of workloads that a move disturbed less than coolDown ago, unless their node is under maintenance."""
    now, rest = context.snapshot.taken_at, context.policy.cool_down
    if pod.node in context.under_maintenance:
        return ""  # the cool-down prevents moving to and fro; a node that is emptied takes none back
    if now is None:
        return ""
    key = context.workloads.key(pod)
    when, written = context.workloads.last_moves.get(key, (-inf, ""))
    if when is None:
        return f"annotation {labels.MIGRATION_TIME}: {written!r} is not a time such as 2026-11-15T08:30:00Z"
    # An annotation goes with its pod, which may have been replaced since; the PodMigrations remain.
    memory, did = context.snapshot.memories.get(key), "was moved"
    if memory is not None and (ended := min(memory.ended_moves[0].finished, MAX_INSTANT)) > when:
        when, written = ended, format_instant(ended)
        did = "lost a pod to a move that failed" if memory.ended_moves[0].verdict == FAILED else did
    return f"its workload {did} at {written}, less than coolDown ({rest:g}s) ago" if now - when < rest else ""
