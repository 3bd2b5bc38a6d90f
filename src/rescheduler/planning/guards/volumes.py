from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=290, caption="Volumes cannot follow")
def volumes(pod: Pod, context: GuardContext) -> str:
    """Pods whose volumes cannot follow them, or are missing in the input."""
    if pod.shape.inline_disks:
        return f"inline disk {pod.shape.inline_disks[0]} cannot be checked; use a PersistentVolumeClaim"
    snapshot = context.snapshot
    for name in pod.shape.claims:
        for kind in ("PersistentVolumeClaim", "PersistentVolume"):
            if kind not in snapshot.kinds:
                return f"it uses claim {name}, but the input has no {kind} objects"
        claim = snapshot.claims.get((pod.namespace, name))
        volume = snapshot.volumes.get(claim.volume) if claim is not None else None
        if volume is not None and volume.local:
            return f"volume {volume.name} of claim {name} is on its node and cannot follow"
        if pod.owner is None and not context.methods.shareable(pod, name):
            return f"claim {name} cannot be used on two nodes at once, and no controller would replace the pod"
    return ""
