"""One object, from bytes to its row: what is kept of it, under which key, and what there is to say about it.

Files and lists (`decode`) and watches (`cache`) read objects through it, so that all of them see the same cluster. An
object that cannot be understood is not the end: a stand-in makes safe what depends on it (a pod that cannot be read
makes its node no target, because what it holds there is unknown), and a warning names it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any, NamedTuple

import msgspec

from rescheduler.cluster import objects, wire
from rescheduler.cluster.kinds import CLUSTER_SCOPED, READ, WORKLOADS
from rescheduler.cluster.pods import PodDecoder
from rescheduler.cluster.sections import SectionError
from rescheduler.model.instant import InstantError
from rescheduler.model.objects import DisruptionBudget, Node, Pod, Workload
from rescheduler.model.selector import EVERYTHING
from rescheduler.model.shape import Shape
from rescheduler.model.snapshot import Rows

Bytes = bytes | memoryview | msgspec.Raw

_DECODERS = {kind: msgspec.json.Decoder(struct) for kind, (_, struct) in READ.items()}
_TABLES = {
    "Pod": "pods",
    "Node": "nodes",
    "Namespace": "namespaces",
    "PodDisruptionBudget": "budgets",
    "PersistentVolumeClaim": "claims",
    "PersistentVolume": "volumes",
    "StorageClass": "storage_classes",
    "CSINode": "attach_limits",
    "HorizontalPodAutoscaler": "autoscalers",
    "NodeMetrics": "usage",
    "PodMetrics": "usage",
} | dict.fromkeys(WORKLOADS, "workloads")


class Reading(NamedTuple):
    """What was read of one object. Without a name it has no key, and without sense it may have no row."""

    key: Hashable | None
    row: object | None
    version: str = ""
    title: str = ""
    warning: str = ""
    priority_class: str = ""
    """Of a pod whose priority only its class tells; the class may be read later."""


def table_of(rows: Rows, kind: str) -> dict[Any, Any]:
    """Where rows of a kind are kept; priorities, the only ones that are no rows, aren't."""
    table: dict[Any, Any] = getattr(rows, _TABLES[kind])
    return table


class Reader:
    """Reads objects; equal parts of pods are kept once."""

    def __init__(self) -> None:
        self._pods = PodDecoder()

    def read(self, kind: str, raw: Bytes, source: str) -> Reading:
        """One object of a kind that planning reads."""
        try:
            decoded = _DECODERS[kind].decode(raw)
        except msgspec.ValidationError as error:
            return _unreadable(kind, raw, source, error)
        meta = decoded.metadata
        if meta is None or not meta.name:
            return Reading(None, None, warning=f"{source}: a {kind} without metadata.name is left out")
        key = key_of(kind, meta)
        try:
            row, priority_class = self._row(kind, decoded, meta)
        except (SectionError, InstantError) as error:
            node = decoded.spec.node_name if isinstance(decoded, wire.Pod) and decoded.spec is not None else None
            return _broken(kind, meta, source, (str(error), node or ""))
        return Reading(key, row, meta.resource_version or "", title_of(kind, meta), "", priority_class)

    def forget_all_but(self, pods: Collection[Pod]) -> None:
        """Remember only the parts of these pods."""
        self._pods.forget_all_but(pods)

    def _row(self, kind: str, decoded: Any, meta: wire.Meta) -> tuple[object, str]:
        match kind:
            case "Pod":
                spec = decoded.spec
                ranked = spec is None or spec.priority is not None or not spec.priority_class_name
                return self._pods.row(decoded, meta), "" if ranked else spec.priority_class_name
            case "Node":
                return objects.node(decoded, meta), ""
            case "Namespace":
                return objects.namespace_labels(meta), ""
            case _ if kind in WORKLOADS:
                return objects.workload(kind, decoded, meta), ""
            case "PodDisruptionBudget":
                return objects.budget(decoded, meta), ""
            case "HorizontalPodAutoscaler":
                return objects.autoscaler(decoded, meta), ""
            case "PersistentVolumeClaim":
                return objects.claim(decoded, meta), ""
            case "PersistentVolume":
                return objects.volume(decoded, meta), ""
            case "StorageClass":
                return objects.storage_class(decoded, meta), ""
            case "CSINode":
                return objects.attach_limits(decoded, meta), ""
            case "PriorityClass":
                return decoded.value or 0, ""
            case _:
                return objects.usage(kind, decoded, meta), ""


def key_of(kind: str, meta: wire.Meta) -> Hashable:
    """Under which key the row of an object is kept."""
    name = meta.name or ""
    if kind in ("NodeMetrics", "PodMetrics"):
        return (kind, meta.namespace or "", name)
    if kind in CLUSTER_SCOPED:
        return name
    namespace = meta.namespace or "default"
    return (kind, namespace, name) if kind in WORKLOADS else (namespace, name)


def title_of(kind: str, meta: wire.Meta) -> str:
    """The object as people name it."""
    namespace = "" if kind in CLUSTER_SCOPED else meta.namespace or "default"
    return f"{kind} {namespace}/{meta.name}" if namespace else f"{kind} {meta.name}"


def _unreadable(kind: str, raw: Bytes, source: str, error: msgspec.ValidationError) -> Reading:
    """The object has a field of the wrong type: find out at least what it is called and where it runs."""
    what, _, where = str(error).partition(" - at `$.")
    reason = f"{where.rstrip('`')}: {what}" if where else what
    loose = msgspec.json.decode(raw)
    meta = loose.get("metadata") if isinstance(loose, dict) else None
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(meta, dict) or not isinstance(name, str) or not name:
        return Reading(None, None, warning=f"{source}: a {kind} that cannot be read is left out: {reason}")
    spec = loose.get("spec")
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    texts = {key: meta.get(key) for key in ("namespace", "resourceVersion")}
    known = {key: text if isinstance(text, str) else None for key, text in texts.items()}
    stand_in = wire.Meta(name, known["namespace"], resource_version=known["resourceVersion"])
    return _broken(kind, stand_in, source, (reason, node if isinstance(node, str) else ""))


def _broken(kind: str, meta: wire.Meta, source: str, problem: tuple[str, str]) -> Reading:
    """Make safe what depends on an object that cannot be understood: why it can't, and its node if it is a pod."""
    title = title_of(kind, meta)
    why = f"{source}: {title}: {problem[0]}"
    name, namespace = meta.name or "", meta.namespace or "default"
    row: object | None
    match kind:
        case "Node":
            row, warning = Node(name, problem=why), f"{why}; nothing is moved there"
        case "Pod":
            row = Pod(namespace, name, "", Shape(), node=problem[1], problem=why)
            warning = f"{why}; it is not moved, and nothing is moved to its node"
        case "PodDisruptionBudget":
            # Whatever it protects is unknown, so it protects its whole namespace.
            row = DisruptionBudget(namespace, name, selector=EVERYTHING, allowed=0)
            warning = f"{why}; nothing in its namespace is evicted"
        case "Deployment":
            # Its strategy is unknown, so two of its pods are not run side by side.
            row, warning = Workload(kind, namespace, name, recreate=True), f"{why}; its pods are not handed off"
        case _:
            row, warning = None, f"{why}; it is left out"
    return Reading(key_of(kind, meta), row, meta.resource_version or "", title, warning)
