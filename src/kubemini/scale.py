"""The `scale` subresource of workloads: how many replicas are wanted and there, without the rest of the object."""

from __future__ import annotations

from kubemini.errors import Json, conflict
from kubemini.kinds import Kind
from kubemini.selectors import label_selector

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(body: Json) -> Json:
    """The Scale of a workload."""
    metadata, selector = body["metadata"], label_selector(body["spec"].get("selector"))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _SHOWN if key in metadata},
        "spec": {"replicas": body["spec"].get("replicas", 1)},
        "status": {"replicas": body.get("status", {}).get("replicas", 0), "selector": str(selector or "")},
    }


def rescaled(kind: Kind, body: Json, scale: Json) -> Json:
    """Apply a changed Scale to the workload. A Scale of another version or another object is a conflict."""
    metadata, given = body["metadata"], scale.get("metadata") or {}
    for key in ("uid", "resourceVersion"):
        if given.get(key) and given[key] != metadata[key]:
            raise conflict(kind, metadata["name"])
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    body["spec"]["replicas"] = replicas
    return body
