from __future__ import annotations

from rescheduler.model import labels
from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(
    order=90,
    caption="Label says never",
    changed_by="the pod's label `scheduler.alpha.kubernetes.io/rescheduling`",
    on_removal=True,
    on_recovery=True,
)
def rescheduling_disabled(pod: Pod, context: GuardContext) -> str:
    """Pods with the label that says never."""
    return f"label {labels.RESCHEDULING} is disabled" if pod.labels.get(labels.RESCHEDULING) == "disabled" else ""
