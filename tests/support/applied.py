"""What a cluster looks like after a plan was carried out: every moved pod on its target, nothing else changed."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from rescheduler.model.plan import Plan
from rescheduler.model.snapshot import ClusterSnapshot


def applied(snapshot: ClusterSnapshot, plan: Plan) -> ClusterSnapshot:
    """The snapshot of the next cycle. No marks are left, so that no cool-down hides a strategy that doesn't settle."""
    targets = {(move.namespace, move.pod): move.target for move in plan.moves}
    pods = tuple(
        msgspec.structs.replace(pod, node=targets[key], held=pod.shape.requests)
        if (key := (pod.namespace, pod.name)) in targets
        else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, pods=pods)
