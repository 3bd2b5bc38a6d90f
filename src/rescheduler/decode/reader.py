"""One object, from bytes to its row: what is kept of it, under which key, and what there is to say about it.

Files and lists (`decode`) and watches (`cache`) read objects through it, so that all of them see the same cluster. An
object that cannot be understood is not the end: a stand-in makes safe what depends on it (a pod that cannot be read
makes its node no target, because what it holds there is unknown), and a warning names it.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from rescheduler.decode import objects, structs
from rescheduler.decode.pods import PodDecoder
from rescheduler.decode.sections import SectionError
from rescheduler.decode.structs import CLUSTER_SCOPED, READ, WORKLOADS
from rescheduler.model.objects import DisruptionBudget, Node, Pod, Workload
from rescheduler.model.selector import EVERYTHING
from rescheduler.model.shape import Shape
from rescheduler.model.snapshot import ClusterSnapshot, SnapshotRows
from rescheduler.model.time import InstantError

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


class ParsedObject(NamedTuple):
    """What was read of one object. Without a name it has no key, and without sense it may have no row."""

    key: Hashable | None
    row: object | None
    version: str = ""
    title: str = ""
    warning: str = ""
    priority_class: str = ""
    """Of a pod whose priority only its class tells; the class may be read later."""


def table_of(rows: SnapshotRows, kind: str) -> dict[Any, Any]:
    """Where rows of a kind are kept; priorities, the only ones that are no rows, aren't."""
    table: dict[Any, Any] = getattr(rows, _TABLES[kind])
    return table


class ObjectReader:
    """Reads objects; equal parts of pods are kept once."""

    def __init__(self) -> None:
        self._pods = PodDecoder()

    def read(self, kind: str, raw: Bytes, source: str) -> ParsedObject:
        """One object of a kind that planning reads."""
        try:
            decoded = _DECODERS[kind].decode(raw)
        except msgspec.ValidationError as error:
            return _unreadable(kind, raw, source, error)
        meta = decoded.metadata
        if meta is None or not meta.name:
            return ParsedObject(None, None, warning=f"{source}: a {kind} without metadata.name is left out")
        key = key_of(kind, meta)
        try:
            row, priority_class = self._row(kind, decoded, meta)
        except (SectionError, InstantError) as error:
            node = decoded.spec.node_name if isinstance(decoded, structs.ApiPod) and decoded.spec is not None else None
            return _broken(kind, meta, source, (str(error), node or ""))
        return ParsedObject(key, row, meta.resource_version or "", title_of(kind, meta), "", priority_class)

    def forget_all_but(self, pods: Collection[Pod]) -> None:
        """Remember only the parts of these pods."""
        self._pods.forget_all_but(pods)

    def _row(self, kind: str, decoded: Any, meta: structs.ApiMeta) -> tuple[object, str]:
        match kind:
            case "Pod":
                spec = decoded.spec
                apply_priorities = spec is None or spec.priority is not None or not spec.priority_class_name
                return self._pods.row(decoded, meta), "" if apply_priorities else spec.priority_class_name
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


def key_of(kind: str, meta: structs.ApiMeta) -> Hashable:
    """Under which key the row of an object is kept."""
    name = meta.name or ""
    if kind in ("NodeMetrics", "PodMetrics"):
        return (kind, meta.namespace or "", name)
    if kind in CLUSTER_SCOPED:
        return name
    namespace = meta.namespace or "default"
    return (kind, namespace, name) if kind in WORKLOADS else (namespace, name)


def title_of(kind: str, meta: structs.ApiMeta) -> str:
    """The object as people name it."""
    namespace = "" if kind in CLUSTER_SCOPED else meta.namespace or "default"
    return f"{kind} {namespace}/{meta.name}" if namespace else f"{kind} {meta.name}"


def _unreadable(kind: str, raw: Bytes, source: str, error: msgspec.ValidationError) -> ParsedObject:
    """The object has a field of the wrong type: find out at least what it is called and where it runs."""
    what, _, where = str(error).partition(" - at `$.")
    reason = f"{where.rstrip('`')}: {what}" if where else what
    loose = msgspec.json.decode(raw)
    meta = loose.get("metadata") if isinstance(loose, dict) else None
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(meta, dict) or not isinstance(name, str) or not name:
        return ParsedObject(None, None, warning=f"{source}: a {kind} that cannot be read is left out: {reason}")
    spec = loose.get("spec")
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    texts = {key: meta.get(key) for key in ("namespace", "resourceVersion")}
    known = {key: text if isinstance(text, str) else None for key, text in texts.items()}
    stand_in = structs.ApiMeta(name, known["namespace"], resource_version=known["resourceVersion"])
    return _broken(kind, stand_in, source, (reason, node if isinstance(node, str) else ""))


def _broken(kind: str, meta: structs.ApiMeta, source: str, problem: tuple[str, str]) -> ParsedObject:
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
    return ParsedObject(key_of(kind, meta), row, meta.resource_version or "", title, warning)


class SnapshotBuilder:
    """Rows of the objects given so far."""

    def __init__(self) -> None:
        self._rows = SnapshotRows()
        self._reader = ObjectReader()
        self._seen: set[str] = set()
        self._warnings: list[str] = []
        self._sources: dict[tuple[str, Hashable], tuple[int, str]] = {}
        self._priority_classes: dict[str, int] = {}
        self._unranked: dict[tuple[str, str], str] = {}

    def saw(self, kind: str) -> None:
        """Note that this kind was asked for, even if there is no object of it."""
        self._seen.add(kind)

    def note(self, warning: str) -> None:
        """Keep a warning about the input as a whole."""
        self._warnings.append(warning)

    def add(self, kind: str, raw: bytes | memoryview, source: str) -> None:
        """Take one object of a kind that planning reads."""
        self._seen.add(kind)
        reading = self._reader.read(kind, raw, source)
        if reading.row is not None and self._put(kind, reading, source) and kind == "Pod":
            remember_priority_class(self._unranked, reading)
        if reading.warning:
            self._warnings.append(reading.warning)

    def snapshot(self, taken_at: float | None = None) -> ClusterSnapshot:
        """Everything collected, in canonical order."""
        rows = self._rows
        apply_priorities(rows, self._unranked, self._priority_classes)
        rows.priority_classes.update(self._priority_classes)
        rows.nodes.update(nodes_of_unreadable_pods(rows))
        self._warnings.extend(describe_strays(rows))
        return rows.snapshot(self._seen, taken_at, sorted(set(self._warnings)))

    def _put(self, kind: str, reading: ParsedObject, source: str) -> bool:
        """Keep one row per key. Of two objects with one name the newer counts, whatever their order in the input."""
        table: dict[Any, Any] = self._priority_classes if kind == "PriorityClass" else table_of(self._rows, kind)
        key, row = reading.key, reading.row
        written = reading.version
        version = int(written) if written.isdecimal() and len(written) < 20 else 0
        if key in table:
            other_version, other_source = self._sources[(kind, key)]
            where = " and ".join(sorted({source, other_source}))
            self._warnings.append(f"{where}: {reading.title} stands there more than once; the newest one counts")
            if (other_version, _canonical(table[key])) >= (version, _canonical(row)):
                return False
        table[key] = row
        self._sources[(kind, key)] = (version, source)
        return True


def remember_priority_class(unranked: dict[tuple[str, str], str], reading: ParsedObject) -> None:
    """Remember that a pod's priority is its class's, whose object may come after it."""
    key: tuple[str, str] = reading.key  # type: ignore[assignment]  # of a pod it is namespace and name
    if reading.priority_class:
        unranked[key] = reading.priority_class
    else:
        unranked.pop(key, None)


def apply_priorities(rows: SnapshotRows, unranked: dict[tuple[str, str], str], classes: dict[str, int]) -> None:
    """Give pods the priority of their class, where only that tells it."""
    for key, name in unranked.items():
        if name in classes and key in rows.pods:
            rows.pods[key] = msgspec.structs.replace(rows.pods[key], priority=classes[name])


def nodes_of_unreadable_pods(rows: SnapshotRows) -> dict[str, Node]:
    """The nodes that hold a pod which cannot be read, marked as no targets."""
    found: dict[str, Node] = {}
    unreadable: list[Pod] = [pod for pod in rows.pods.values() if pod.problem]
    for pod in sorted(unreadable, key=lambda pod: pod.full_name, reverse=True):
        if pod.node in rows.nodes:
            why = f"holds pod {pod.full_name}, which cannot be read"
            found[pod.node] = msgspec.structs.replace(rows.nodes[pod.node], problem=why)
    return found


def describe_strays(rows: SnapshotRows) -> list[str]:
    """A word about pods on nodes that nobody told us of."""
    found = sorted(pod.full_name for pod in rows.pods.values() if pod.node and pod.node not in rows.nodes)
    if not found or not rows.nodes:
        return []
    some = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return [f"on nodes that the input does not have, so left alone: {some}"]


def _canonical(row: object) -> bytes:
    """A row as bytes that are the same in every process, to choose between rows that nothing else sets apart."""
    return msgspec.json.encode(row, order="sorted")


@contextmanager
def without_gc() -> Iterator[None]:
    """No garbage collection in the block; what there is after it is never looked at again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
