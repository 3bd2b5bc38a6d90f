"""What a cluster looks like after a plan was carried out: a new pod on its target for every one that was moved, those
that were removed gone, nothing else changed.
"""

from __future__ import annotations

import msgspec

from rescheduler.model.objects import HEALTHY, Pod
from rescheduler.model.plan import Method, Plan
from rescheduler.model.snapshot import ClusterSnapshot
from tests.support.pod_migrations import replace

_AGE = 3600.0  # seconds, as the builders' pods: older than minPodAge, which would hide a strategy that doesn't settle


def apply_plan(snapshot: ClusterSnapshot, plan: Plan) -> ClusterSnapshot:
    """The snapshot of a later cycle. No marks are left, so that no cool-down hides a strategy that doesn't settle."""
    moves = {(move.namespace, move.pod): move for move in plan.moves}
    pods: list[Pod] = []
    for pod in snapshot.pods:
        move = moves.get((pod.namespace, pod.name))
        if move is None:
            pods.append(pod)
        elif move.method is not Method.REMOVE:
            pods.append(renew(pod, move.target, snapshot.taken_at))
    return replace(snapshot, pods=tuple(pods))


def renew(pod: Pod, node: str, now: float | None) -> Pod:
    """The pod in its place: without a restart, in no trouble, and young."""
    age = None if now is None else now - _AGE
    healthy = {"trouble": HEALTHY, "ailment": None} if pod.trouble is not HEALTHY or pod.ailment else {}
    younger = {"created": age} if age is None or pod.created is None or pod.created < age else {}
    return msgspec.structs.replace(pod, node=node, held=pod.shape.requests, **healthy, **younger)
