"""The guard Unreadable."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class UnreadableGuard(Guard):
    """Pods that the input describes in a way that cannot be understood."""

    name: ClassVar[str] = "Unreadable"
    order: ClassVar[int] = 10
    caption: ClassVar[str] = "Not understood"
    on_removal: ClassVar[bool] = True
    on_recovery: ClassVar[bool] = True

    def objection(self, pod: Pod, context: GuardContext) -> str:
        return pod.problem
