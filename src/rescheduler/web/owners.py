"""Who a pod belongs to, looked up in the cache: as `planning.workloads` does it in a snapshot."""

from __future__ import annotations

from rescheduler.decode.cache import Cache
from rescheduler.decode.kinds import WORKLOADS
from rescheduler.model.objects import Owner, Pod, Workload
from rescheduler.model.snapshot import WorkloadKey


def workload_of(cache: Cache, pod: Pod) -> str:
    """`Deployment/web`; empty for a pod that nobody manages."""
    if pod.owner is None:
        return ""
    kind, _, name = workload_key(cache, pod)
    return f"{kind}/{name}"


def workload_key(cache: Cache, pod: Pod) -> WorkloadKey:
    """What the pod's workload is called; a pod without a controller is its own."""
    if pod.owner is None:
        return ("Pod", pod.namespace, pod.name)
    controller = _known(cache, pod.owner, pod.namespace)
    above = _known(cache, controller.owner, pod.namespace) if controller is not None and controller.owner else None
    found = above or controller or pod.owner
    return found.kind, pod.namespace, found.name


def _known(cache: Cache, owner: Owner, namespace: str) -> Workload | None:
    if owner.kind not in WORKLOADS:
        return None  # of a kind that somebody has made up: its name is all that is known
    found: Workload | None = cache.row(owner.kind, (owner.kind, namespace, owner.name))
    return found
