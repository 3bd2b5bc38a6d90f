"""Which kinds planning reads, and what a cluster description without one of them weakens."""

from __future__ import annotations

from rescheduler.cluster import wire

READ: dict[str, tuple[str, type[wire.Anything]]] = {
    "Node": ("", wire.Node),
    "Pod": ("", wire.Pod),
    "Namespace": ("", wire.Namespace),
    "PersistentVolumeClaim": ("", wire.PersistentVolumeClaim),
    "PersistentVolume": ("", wire.PersistentVolume),
    "PodDisruptionBudget": ("policy", wire.PodDisruptionBudget),
    "Deployment": ("apps", wire.Workload),
    "ReplicaSet": ("apps", wire.Workload),
    "StatefulSet": ("apps", wire.Workload),
    "DaemonSet": ("apps", wire.Workload),
    "Job": ("batch", wire.Workload),
    "CronJob": ("batch", wire.Workload),
    "HorizontalPodAutoscaler": ("autoscaling", wire.HorizontalPodAutoscaler),
    "StorageClass": ("storage.k8s.io", wire.StorageClass),
    "CSINode": ("storage.k8s.io", wire.CSINode),
    "PriorityClass": ("scheduling.k8s.io", wire.PriorityClass),
    "NodeMetrics": ("metrics.k8s.io", wire.Metrics),
    "PodMetrics": ("metrics.k8s.io", wire.Metrics),
}
"""Kind → API group and the struct it is decoded into."""

WORKLOADS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"})
CLUSTER_SCOPED = frozenset(
    {"Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "PriorityClass", "NodeMetrics"}
)


def group_of(api_version: str) -> str:
    """The group of `apps/v1`; the core group is the empty text."""
    return api_version.rpartition("/")[0]


def known_kind(api_version: str | None, kind: str | None) -> str | None:
    """The kind, if it is one that planning reads: another group's Job is not ours."""
    if kind not in READ:
        return None
    return kind if api_version is None or group_of(api_version) == READ[kind][0] else None
