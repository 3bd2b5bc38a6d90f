"""The `scale` view of workloads: how many replicas are wanted and there, without the rest of the object.

The HTTP server answers requests for `…/scale` with it and writes changes back through it. It is pure: it makes an
autoscaling/v1 Scale of an object, and an object of an object and a Scale.
"""

from __future__ import annotations

from kubemini.custom_kind import CustomKind, ScalePaths, at
from kubemini.kinds import Kind
from kubemini.refusals import Fault, Json, conflict, invalid
from kubemini.rules.faults import negative
from kubemini.rules.selectors import matcher
from kubemini.rules.typed import read_as

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: Kind, body: Json) -> Json:
    """The Scale of a workload."""
    metadata, paths = body["metadata"], _paths(kind)
    status: Json = {"replicas": at(body, paths.status) or 0}
    if selector := _selector(kind, body):
        status["selector"] = selector
    replicas = at(body, paths.spec)
    if replicas is None:
        replicas = 0 if kind.custom else 1
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _SHOWN if key in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def rescaled(kind: Kind, body: Json, scale: Json) -> Json:
    """The workload as a changed Scale wants it; a Scale of an older version, or of another object, is a conflict."""
    scale = read_as("Scale", scale)
    metadata, meant = body["metadata"], scale["metadata"]
    name = metadata["name"]
    if meant.get("uid") and meant["uid"] != metadata["uid"]:
        why = f"Precondition failed: UID in precondition: {meant['uid']}, UID in object meta: {metadata['uid']}"
        raise conflict(kind, name, why)
    if meant.get("resourceVersion") and meant["resourceVersion"] != metadata["resourceVersion"]:
        raise conflict(kind, name)
    replicas = scale["spec"].get("replicas", 0)
    faults: list[Fault] = list(negative("spec.replicas", replicas))
    if faults:
        raise invalid(_SCALE, name, faults)
    *way, last = _paths(kind).spec.removeprefix(".").split(".")
    holder = body
    for step in way:
        holder = holder.setdefault(step, {})
    holder[last] = replicas
    return body


def _paths(kind: Kind) -> ScalePaths:
    return kind.scale if isinstance(kind, CustomKind) and kind.scale else _BUILT_IN


def _selector(kind: Kind, body: Json) -> str:
    """Which pods are counted, as text; custom resources say it themselves, in their status."""
    if kind.custom:
        path = _paths(kind).selector
        return str(at(body, path) or "") if path else ""
    selector = matcher(body["spec"].get("selector"))
    return "" if selector is None else str(selector)


_BUILT_IN = ScalePaths(".spec.replicas", ".status.replicas", "")
_SCALE = Kind("autoscaling", "v1", "Scale", "scales")
