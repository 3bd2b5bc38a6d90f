"""Who a pod belongs to, looked up in the cache: as `planning.workloads` does it in a snapshot."""

from __future__ import annotations

from rescheduler.cluster.cache import Cache
from rescheduler.cluster.kinds import WORKLOADS
from rescheduler.model.objects import Owner, Pod, Workload


def workload_of(cache: Cache, pod: Pod) -> str:
    """`Deployment/web`; empty for a pod that nobody manages."""
    if pod.owner is None:
        return ""
    controller = _known(cache, pod.owner, pod.namespace)
    above = _known(cache, controller.owner, pod.namespace) if controller is not None and controller.owner else None
    found = above or controller or pod.owner
    return f"{found.kind}/{found.name}"


def _known(cache: Cache, owner: Owner, namespace: str) -> Workload | None:
    if owner.kind not in WORKLOADS:
        return None  # of a kind that somebody has made up: its name is all that is known
    found: Workload | None = cache.row(owner.kind, (owner.kind, namespace, owner.name))
    return found
