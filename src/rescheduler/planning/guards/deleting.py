"""The guard Deleting."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext, Lasting


class DeletingGuard(Guard):
    """Pods that are being deleted."""

    name: ClassVar[str] = "Deleting"
    order: ClassVar[int] = 30
    caption: ClassVar[str] = "Being deleted"
    lasting: ClassVar[Lasting] = Lasting.UNTIL_THE_POD_ENDS
    on_removal: ClassVar[bool] = True

    def objection(self, pod: Pod, context: GuardContext) -> str:
        return "it is being deleted" if pod.deleting else ""
