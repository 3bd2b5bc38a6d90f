"""Where single objects are in the API: for commands, observations and the journal."""

from __future__ import annotations

from urllib.parse import quote

_GROUPS = {
    "": (
        "api/v1",
        {"Pod": "pods", "Node": "nodes", "Service": "services", "Secret": "secrets", "ConfigMap": "configmaps"},
    ),
    "apps": (
        "apis/apps/v1",
        {
            "Deployment": "deployments",
            "ReplicaSet": "replicasets",
            "StatefulSet": "statefulsets",
            "DaemonSet": "daemonsets",
        },
    ),
    "batch": ("apis/batch/v1", {"Job": "jobs", "CronJob": "cronjobs"}),
    "policy": ("apis/policy/v1", {"PodDisruptionBudget": "poddisruptionbudgets"}),
    "coordination.k8s.io": ("apis/coordination.k8s.io/v1", {"Lease": "leases"}),
    "events.k8s.io": ("apis/events.k8s.io/v1", {"Event": "events"}),
    "rescheduler.io": ("apis/rescheduler.io/v1alpha1", {"PodMigration": "podmigrations"}),
    "apiextensions.k8s.io": (
        "apis/apiextensions.k8s.io/v1",
        {"CustomResourceDefinition": "customresourcedefinitions"},
    ),
}
_PLACES = {kind: (root, plural) for root, kinds in _GROUPS.values() for kind, plural in kinds.items()}


def path_of(kind: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of an object, or of all of a kind in a namespace."""
    root, plural = _PLACES[kind]
    parts = [root, *(("namespaces", quote(namespace, safe="")) if namespace else ()), plural]
    parts += [quote(part, safe="") for part in (name, subresource) if part]
    return "/" + "/".join(parts)
