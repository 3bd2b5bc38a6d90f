"""The kinds that the planner reads, and where the API server lists them: one row a kind.

From the Kubernetes API reference to `live.py` (lists) and the reflectors (watches). A kind that is added here is
listed, and appears in the RBAC rules that a refusal names, without any other change in this package.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
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
    Resource("Pod", "v1", "/api/v1/pods"),
    Resource("Node", "v1", "/api/v1/nodes"),
    Resource("Namespace", "v1", "/api/v1/namespaces"),
    Resource("PodDisruptionBudget", "policy/v1", "/apis/policy/v1/poddisruptionbudgets"),
    Resource("Deployment", "apps/v1", "/apis/apps/v1/deployments"),
    Resource("ReplicaSet", "apps/v1", "/apis/apps/v1/replicasets"),
    Resource("StatefulSet", "apps/v1", "/apis/apps/v1/statefulsets"),
    Resource("DaemonSet", "apps/v1", "/apis/apps/v1/daemonsets"),
    Resource("Job", "batch/v1", "/apis/batch/v1/jobs"),
    Resource("HorizontalPodAutoscaler", "autoscaling/v2", "/apis/autoscaling/v2/horizontalpodautoscalers"),
    Resource("PersistentVolumeClaim", "v1", "/api/v1/persistentvolumeclaims"),
    Resource("PersistentVolume", "v1", "/api/v1/persistentvolumes"),
    Resource("StorageClass", "storage.k8s.io/v1", "/apis/storage.k8s.io/v1/storageclasses"),
    Resource("CSINode", "storage.k8s.io/v1", "/apis/storage.k8s.io/v1/csinodes"),
    Resource("PriorityClass", "scheduling.k8s.io/v1", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    Resource("NodeMetrics", "metrics.k8s.io/v1beta1", "/apis/metrics.k8s.io/v1beta1/nodes", optional=True),
    Resource("PodMetrics", "metrics.k8s.io/v1beta1", "/apis/metrics.k8s.io/v1beta1/pods", optional=True),
)
