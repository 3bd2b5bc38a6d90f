"""The `scale` subresource of workloads: an autoscaling/v1 Scale made from an object, and written back into it."""

from __future__ import annotations

from kubemini.kinds import Kind
from kubemini.refusals import Fault, Json, conflict, invalid
from kubemini.selectors import matcher

_SCALE = Kind("autoscaling", "v1", "Scale", "scales")
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: Kind, body: Json) -> Json:
    """The Scale of a workload."""
    metadata = body["metadata"]
    status: Json = {"replicas": body["status"].get("replicas", 0)}
    selector = matcher(body["spec"].get("selector"))
    if selector is not None:
        status["selector"] = str(selector)
    replicas = body["spec"].get("replicas", 1)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _SHOWN if key in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def rescaled(kind: Kind, body: Json, scale: Json) -> Json:
    """The workload as a changed Scale wants it; a Scale of an older version, or of another object, is a conflict."""
    metadata, meant = body["metadata"], scale.get("metadata") or {}
    name = metadata["name"]
    if meant.get("uid") and meant["uid"] != metadata["uid"]:
        why = f"Precondition failed: UID in precondition: {meant['uid']}, UID in object meta: {metadata['uid']}"
        raise conflict(kind, name, why)
    if meant.get("resourceVersion") and meant["resourceVersion"] != metadata["resourceVersion"]:
        raise conflict(kind, name)
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if not isinstance(replicas, int) or replicas < 0:
        why = "must be greater than or equal to 0"
        raise invalid(_SCALE, name, [Fault("spec.replicas", "Invalid value", why, replicas)])
    body["spec"]["replicas"] = replicas
    return body
