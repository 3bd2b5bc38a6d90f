"""Which kinds planning reads, and what a cluster description without one of them weakens."""

from __future__ import annotations

from dataclasses import dataclass

from rescheduler.decode import structs

READ: dict[str, tuple[str, type[structs.ApiObject]]] = {
    "Node": ("", structs.ApiNode),
    "Pod": ("", structs.ApiPod),
    "Namespace": ("", structs.ApiNamespace),
    "PersistentVolumeClaim": ("", structs.ApiPersistentVolumeClaim),
    "PersistentVolume": ("", structs.ApiPersistentVolume),
    "PodDisruptionBudget": ("policy", structs.ApiPodDisruptionBudget),
    "Deployment": ("apps", structs.ApiWorkload),
    "ReplicaSet": ("apps", structs.ApiWorkload),
    "StatefulSet": ("apps", structs.ApiWorkload),
    "DaemonSet": ("apps", structs.ApiWorkload),
    "Job": ("batch", structs.ApiWorkload),
    "CronJob": ("batch", structs.ApiWorkload),
    "HorizontalPodAutoscaler": ("autoscaling", structs.ApiHorizontalPodAutoscaler),
    "StorageClass": ("storage.k8s.io", structs.ApiStorageClass),
    "CSINode": ("storage.k8s.io", structs.ApiCsiNode),
    "PriorityClass": ("scheduling.k8s.io", structs.ApiPriorityClass),
    "NodeMetrics": ("metrics.k8s.io", structs.ApiMetrics),
    "PodMetrics": ("metrics.k8s.io", structs.ApiMetrics),
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


@dataclass(frozen=True, slots=True)
class ApiResource:
    """`path` lists the kind over all namespaces. `optional` kinds may be missing from a cluster."""

    kind: str
    api_version: str
    path: str
    optional: bool = False

    @property
    def group(self) -> str:
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""

    @property
    def plural(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def absent_statuses(self) -> frozenset[int]:
        """404: no such API. 503: it is registered, but what serves it (metrics-server) does not run."""
        return frozenset({404, 503}) if self.optional else frozenset()


# Pods first: they take the longest, so the others are listed beside them.
RESOURCES = (
    ApiResource("Pod", "v1", "/api/v1/pods"),
    ApiResource("Node", "v1", "/api/v1/nodes"),
    ApiResource("Namespace", "v1", "/api/v1/namespaces"),
    ApiResource("PodDisruptionBudget", "policy/v1", "/apis/policy/v1/poddisruptionbudgets"),
    ApiResource("Deployment", "apps/v1", "/apis/apps/v1/deployments"),
    ApiResource("ReplicaSet", "apps/v1", "/apis/apps/v1/replicasets"),
    ApiResource("StatefulSet", "apps/v1", "/apis/apps/v1/statefulsets"),
    ApiResource("DaemonSet", "apps/v1", "/apis/apps/v1/daemonsets"),
    ApiResource("Job", "batch/v1", "/apis/batch/v1/jobs"),
    ApiResource("HorizontalPodAutoscaler", "autoscaling/v2", "/apis/autoscaling/v2/horizontalpodautoscalers"),
    ApiResource("PersistentVolumeClaim", "v1", "/api/v1/persistentvolumeclaims"),
    ApiResource("PersistentVolume", "v1", "/api/v1/persistentvolumes"),
    ApiResource("StorageClass", "storage.k8s.io/v1", "/apis/storage.k8s.io/v1/storageclasses"),
    ApiResource("CSINode", "storage.k8s.io/v1", "/apis/storage.k8s.io/v1/csinodes"),
    ApiResource("PriorityClass", "scheduling.k8s.io/v1", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    ApiResource("NodeMetrics", "metrics.k8s.io/v1beta1", "/apis/metrics.k8s.io/v1beta1/nodes", optional=True),
    ApiResource("PodMetrics", "metrics.k8s.io/v1beta1", "/apis/metrics.k8s.io/v1beta1/pods", optional=True),
)
