from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class UnreadableGuard(Guard):
    """Pods that the input describes in a way that cannot be understood."""

    order = 10
    caption = "Not understood"
    on_removal = True
    on_recovery = True

    def objection(self, pod: Pod, context: GuardContext) -> str:
        return pod.problem
