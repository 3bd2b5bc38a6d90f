"""The guard ReschedulingDisabled."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model import labels
from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


class ReschedulingDisabledGuard(Guard):
    """Pods with the label that says never."""

    name: ClassVar[str] = "ReschedulingDisabled"
    order: ClassVar[int] = 90
    caption: ClassVar[str] = "Label says never"
    changed_by: ClassVar[str] = "the pod's label `scheduler.alpha.kubernetes.io/rescheduling`"
    on_removal: ClassVar[bool] = True
    on_recovery: ClassVar[bool] = True

    def objection(self, pod: Pod, context: GuardContext) -> str:
        return f"label {labels.RESCHEDULING} is disabled" if pod.labels.get(labels.RESCHEDULING) == "disabled" else ""
