"""One object, from bytes to its row; and the SnapshotBuilder, which collects rows of a whole cluster.

Files, lists and watches all read objects through ObjectReader, so that they see the same cluster. For an invalid object
a stand-in keeps planning safe (a pod that cannot be read makes its node no target, because its requests are unknown),
and a warning names it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec

from rescheduler.decode import objects, structs
from rescheduler.decode.pods import PodDecoder
from rescheduler.decode.sections import SectionError
from rescheduler.decode.structs import DECODERS, READ, WORKLOADS
from rescheduler.model.objects import DisruptionBudget, Node, Pod, Workload
from rescheduler.model.selector import EVERYTHING
from rescheduler.model.shape import Shape
from rescheduler.model.snapshot import ClusterSnapshot, SnapshotRows
from rescheduler.model.time import InstantError

Bytes = bytes | memoryview | msgspec.Raw

_TABLES = {
    "Pod": "pods",
    "Node": "nodes",
    "Namespace": "namespaces",
    "PodDisruptionBudget": "budgets",
    "PersistentVolumeClaim": "claims",
    "PersistentVolume": "volumes",
    "StorageClass": "storage_classes",
    "CSINode": "attach_limits",
    "PriorityClass": "priority_classes",
    "HorizontalPodAutoscaler": "autoscalers",
    "NodeMetrics": "usage",
    "PodMetrics": "usage",
} | dict.fromkeys(WORKLOADS, "workloads")


class ParsedObject(NamedTuple):
    """A parsed object. Without a name it has no key; an invalid one may have no row."""

    key: Hashable | None
    row: object | None
    version: str = ""
    title: str = ""
    warning: str = ""
    priority_class: str = ""
    """The class of a pod that has no priority of its own; the class may be read later."""


def table_of(rows: SnapshotRows, kind: str) -> dict[Any, Any]:
    """Return the table of a kind."""
    table: dict[Any, Any] = getattr(rows, _TABLES[kind])
    return table


class ObjectReader:
    """Parses objects; equal parts of pods are stored once."""

    def __init__(self) -> None:
        self._pods = PodDecoder()

    def read(self, kind: str, raw: Bytes, source: str) -> ParsedObject:
        """Parse an object of a kind that planning reads."""
        try:
            decoded: Any = DECODERS[kind].decode(raw)
        except msgspec.ValidationError as error:
            return _unreadable(kind, raw, source, error)
        meta = decoded.metadata
        if meta is None or not meta.name:
            version = (meta.resource_version or "") if meta is not None else ""
            return ParsedObject(None, None, version, warning=f"{source}: a {kind} without metadata.name is ignored")
        try:
            row = self._pods.row(decoded, meta) if kind == "Pod" else _ROWS[kind](decoded, meta)
        except (SectionError, InstantError) as error:
            node = decoded.spec.node_name if kind == "Pod" and decoded.spec is not None else None
            return _make_stand_in(kind, meta, node or "", f"{source}: {title_of(kind, meta)}: {error}")
        version, title = meta.resource_version or "", title_of(kind, meta)
        return ParsedObject(key_of(kind, meta), row, version, title, "", _missing_priority(kind, decoded))

    def forget_all_but(self, pods: Collection[Pod]) -> None:
        """Forget shared parts that none of these pods uses."""
        self._pods.forget_all_but(pods)


_ROWS: dict[str, Callable[[Any, structs.ApiMeta], object]] = {
    "Node": objects.node,
    "Namespace": lambda _, meta: objects.namespace_labels(meta),
    "PodDisruptionBudget": objects.budget,
    "HorizontalPodAutoscaler": objects.autoscaler,
    "PersistentVolumeClaim": objects.claim,
    "PersistentVolume": objects.volume,
    "StorageClass": objects.storage_class,
    "CSINode": objects.attach_limits,
    "PriorityClass": lambda found, _: found.value or 0,
    **{kind: partial(objects.workload, kind) for kind in WORKLOADS},
    **{kind: partial(objects.usage, kind) for kind in ("NodeMetrics", "PodMetrics")},
}
"""How to make the row of each kind but pods."""


def _missing_priority(kind: str, decoded: Any) -> str:
    """Return the class of a pod that has no priority of its own."""
    spec = decoded.spec if kind == "Pod" else None
    return spec.priority_class_name or "" if spec is not None and spec.priority is None else ""


def key_of(kind: str, meta: structs.ApiMeta) -> Hashable:
    """Return the key under which the row of an object is stored."""
    name = meta.name or ""
    if kind in ("NodeMetrics", "PodMetrics"):
        return (kind, meta.namespace or "", name)
    if not READ[kind].namespaced:
        return name
    namespace = meta.namespace or "default"
    return (kind, namespace, name) if kind in WORKLOADS else (namespace, name)


def title_of(kind: str, meta: structs.ApiMeta) -> str:
    """Return the name of an object for messages."""
    return f"{kind} {meta.namespace or 'default'}/{meta.name}" if READ[kind].namespaced else f"{kind} {meta.name}"


def _unreadable(kind: str, raw: Bytes, source: str, error: msgspec.ValidationError) -> ParsedObject:
    """Parse an object that has a field of the wrong type: at least its name and node."""
    what, _, where = str(error).partition(" - at `$.")
    reason = f"{where.rstrip('`')}: {what}" if where else what
    loose = msgspec.json.decode(raw)
    name, namespace, version = (text_at(loose, "metadata", key) for key in ("name", "namespace", "resourceVersion"))
    if not name:
        return ParsedObject(None, None, version, warning=f"{source}: a {kind} that cannot be read is ignored: {reason}")
    meta = structs.ApiMeta(name, namespace, resource_version=version)
    return _make_stand_in(kind, meta, text_at(loose, "spec", "nodeName"), f"{source}: {title_of(kind, meta)}: {reason}")


def text_at(loose: object, *path: str) -> str:
    """Return the text at a path of an object that may be invalid; empty if there is none."""
    for key in path:
        loose = loose.get(key) if isinstance(loose, dict) else None
    return loose if isinstance(loose, str) else ""


def _make_stand_in(kind: str, meta: structs.ApiMeta, node: str, why: str) -> ParsedObject:
    """Return a stand-in for an invalid object; `node` is that of a pod."""
    name, namespace = meta.name or "", meta.namespace or "default"
    row: object | None
    match kind:
        case "Node":
            row, warning = Node(name, problem=why), f"{why}; nothing is moved there"
        case "Pod":
            row = Pod(namespace, name, "", Shape(), node=node, problem=why)
            warning = f"{why}; it is not moved, and nothing is moved to its node"
        case "PodDisruptionBudget":
            # Its selector is unknown, so it protects the whole namespace.
            row = DisruptionBudget(namespace, name, selector=EVERYTHING, allowed=0)
            warning = f"{why}; nothing in its namespace is evicted"
        case "Deployment":
            # Its strategy is unknown, so its pods are not run side by side.
            row, warning = Workload(kind, namespace, name, recreate=True), f"{why}; its pods are not handed off"
        case _:
            row, warning = None, f"{why}; it is ignored"
    return ParsedObject(key_of(kind, meta), row, meta.resource_version or "", title_of(kind, meta), warning)


class SnapshotBuilder:
    """Collects the rows of objects for one snapshot."""

    def __init__(self) -> None:
        self._rows = SnapshotRows()
        self._reader = ObjectReader()
        self._kinds: set[str] = set()
        self.warnings: list[str] = []
        self._sources: dict[tuple[str, Hashable], tuple[int, str]] = {}
        self._unranked: dict[tuple[str, str], str] = {}

    def saw(self, kind: str) -> None:
        """Note that a kind was listed, even if it has no objects."""
        self._kinds.add(kind)

    def note(self, warning: str) -> None:
        """Add a warning about the whole input."""
        self.warnings.append(warning)

    def add(self, kind: str, raw: Bytes, source: str) -> None:
        """Add an object of a kind that planning reads."""
        self._kinds.add(kind)
        reading = self._reader.read(kind, raw, source)
        if reading.row is not None and self._put(kind, reading, source) and kind == "Pod":
            remember_priority_class(self._unranked, reading)
        if reading.warning:
            self.warnings.append(reading.warning)

    def snapshot(self, taken_at: float | None = None) -> ClusterSnapshot:
        """Return the collected objects in canonical order."""
        return build_snapshot(self._rows, self._unranked, self._kinds, taken_at, self.warnings)

    def _put(self, kind: str, reading: ParsedObject, source: str) -> bool:
        """Keep one row a key. Of two objects with one name the newer counts, whatever their order in the input."""
        table, key, row = table_of(self._rows, kind), reading.key, reading.row
        written = reading.version
        version = int(written) if written.isdecimal() and len(written) < 20 else 0
        if key in table:
            other_version, other_source = self._sources[(kind, key)]
            where = " and ".join(sorted({source, other_source}))
            self.warnings.append(f"{where}: {reading.title} occurs more than once; the newest one counts")
            if (other_version, _canonical(table[key])) >= (version, _canonical(row)):
                return False
        table[key] = row
        self._sources[(kind, key)] = (version, source)
        return True


def remember_priority_class(unranked: dict[tuple[str, str], str], reading: ParsedObject) -> None:
    """Remember a pod's priority class, whose object may come later."""
    key: tuple[str, str] = reading.key  # type: ignore[assignment]  # a pod's key
    if reading.priority_class:
        unranked[key] = reading.priority_class
    else:
        unranked.pop(key, None)


def build_snapshot(
    rows: SnapshotRows,
    unranked: Mapping[tuple[str, str], str],
    kinds: Iterable[str],
    taken_at: float | None,
    warnings: Iterable[str],
) -> ClusterSnapshot:
    """Finish what concerns several objects (pods' priority classes, unreadable pods of nodes), and freeze the rows."""
    for key, name in unranked.items():
        if name in rows.priority_classes and key in rows.pods:
            rows.pods[key] = msgspec.structs.replace(rows.pods[key], priority=rows.priority_classes[name])
    rows.nodes |= _nodes_of_unreadable_pods(rows)
    return rows.snapshot(kinds, taken_at, sorted({*warnings, *_describe_strays(rows)}))


def _nodes_of_unreadable_pods(rows: SnapshotRows) -> dict[str, Node]:
    """Return the nodes that have an unreadable pod, marked as no targets."""
    found: dict[str, Node] = {}
    unreadable: list[Pod] = [pod for pod in rows.pods.values() if pod.problem]
    for pod in sorted(unreadable, key=lambda pod: pod.full_name, reverse=True):
        if pod.node in rows.nodes:
            why = f"holds pod {pod.full_name}, which cannot be read"
            found[pod.node] = msgspec.structs.replace(rows.nodes[pod.node], problem=why)
    return found


def _describe_strays(rows: SnapshotRows) -> list[str]:
    """Describe pods on nodes that are not in the input."""
    found = sorted(pod.full_name for pod in rows.pods.values() if pod.node and pod.node not in rows.nodes)
    if not found or not rows.nodes:
        return []
    some = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return [f"on nodes that are not in the input, so not moved: {some}"]


def _canonical(row: object) -> bytes:
    """Return a row as bytes that are equal in every process, to choose between otherwise equal rows."""
    return msgspec.json.encode(row, order="sorted")


@contextmanager
def without_gc() -> Iterator[None]:
    """Disable garbage collection in the block, and freeze all objects that exist after it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
