"""Objects from bytes to rows, whatever they came from: files, lists, and later watches.

A Collector takes one object's JSON at a time and keeps only its row. An object that cannot be understood is not the
end: it is named in a warning with its source, and what depends on it is made safe (a pod that cannot be read makes
its node no target, because what it holds there is unknown).
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from rescheduler.cluster import objects, wire
from rescheduler.cluster.kinds import CLUSTER_SCOPED, READ, WORKLOADS
from rescheduler.cluster.pods import PodDecoder
from rescheduler.cluster.sections import SectionError
from rescheduler.model.instant import InstantError
from rescheduler.model.objects import DisruptionBudget, Node, Pod
from rescheduler.model.selector import EVERYTHING
from rescheduler.model.shape import Shape
from rescheduler.model.snapshot import ClusterSnapshot, Rows

Row = TypeVar("Row")
Key = TypeVar("Key")

_DECODERS = {kind: msgspec.json.Decoder(struct) for kind, (_, struct) in READ.items()}
_ANYTHING = msgspec.json.Decoder(wire.Anything)


class Collector:
    """Rows of the objects given so far."""

    def __init__(self) -> None:
        self._rows = Rows()
        self._pods = PodDecoder()
        self._seen: set[str] = set()
        self._warnings: list[str] = []
        self._sources: dict[tuple[str, object], tuple[int, str]] = {}
        self._priority_classes: dict[str, int] = {}
        self._unranked: dict[tuple[str, str], str] = {}
        self._blind: dict[str, str] = {}

    def saw(self, kind: str) -> None:
        """Note that this kind was asked for, even if there is no object of it."""
        self._seen.add(kind)

    def note(self, warning: str) -> None:
        """Keep a warning about the input as a whole."""
        self._warnings.append(warning)

    def add(self, kind: str, raw: bytes | memoryview, source: str) -> None:
        """Take one object of a kind that planning reads."""
        self._seen.add(kind)
        try:
            decoded = _DECODERS[kind].decode(raw)
        except msgspec.ValidationError as error:
            self._unreadable(kind, raw, source, error)
            return
        meta = decoded.metadata
        if meta is None or not meta.name:
            self._warn(source, f"a {kind} without metadata.name is left out")
            return
        namespace = "" if kind in CLUSTER_SCOPED else meta.namespace or "default"
        try:
            self._store(kind, decoded, meta, source)
        except (SectionError, InstantError) as error:
            self._broken(kind, decoded, (namespace, meta.name), f"{source}: {_title(kind, meta)}: {error}")

    def snapshot(self, taken_at: float | None = None) -> ClusterSnapshot:
        """Everything collected, in canonical order."""
        rows = self._rows
        for key, name in self._unranked.items():
            if name in self._priority_classes and key in rows.pods:
                rows.pods[key] = msgspec.structs.replace(rows.pods[key], priority=self._priority_classes[name])
        for node, why in self._blind.items():
            if node in rows.nodes:
                rows.nodes[node] = msgspec.structs.replace(rows.nodes[node], problem=why)
        self._warn_of_strays()
        return rows.snapshot(self._seen, taken_at, sorted(set(self._warnings)))

    def _store(self, kind: str, decoded: Any, meta: wire.Meta, source: str) -> None:
        rows, name = self._rows, meta.name or ""
        namespaced = (meta.namespace or "default", name)
        match kind:
            case "Pod":
                spec = decoded.spec
                if spec is not None and spec.priority is None and spec.priority_class_name:
                    self._unranked[namespaced] = spec.priority_class_name
                self._put(kind, rows.pods, namespaced, self._pods.row(decoded, meta), meta, source)
            case "Node":
                self._put(kind, rows.nodes, name, objects.node(decoded, meta), meta, source)
            case "Namespace":
                self._put(kind, rows.namespaces, name, objects.namespace_labels(meta), meta, source)
            case _ if kind in WORKLOADS:
                row = objects.workload(kind, decoded, meta)
                self._put(kind, rows.workloads, (kind, *namespaced), row, meta, source)
            case "PodDisruptionBudget":
                self._put(kind, rows.budgets, namespaced, objects.budget(decoded, meta), meta, source)
            case "PersistentVolumeClaim":
                self._put(kind, rows.claims, namespaced, objects.claim(decoded, meta), meta, source)
            case "PersistentVolume":
                self._put(kind, rows.volumes, name, objects.volume(decoded, meta), meta, source)
            case "StorageClass":
                self._put(kind, rows.storage_classes, name, objects.storage_class(decoded, meta), meta, source)
            case "CSINode":
                self._put(kind, rows.attach_limits, name, objects.attach_limits(decoded, meta), meta, source)
            case "PriorityClass":
                self._put(kind, self._priority_classes, name, decoded.value or 0, meta, source)
            case "NodeMetrics" | "PodMetrics":
                row_key = (kind, meta.namespace or "", name)
                self._put(kind, rows.usage, row_key, objects.usage(kind, decoded, meta), meta, source)

    def _put(self, kind: str, table: dict[Key, Row], key: Key, row: Row, meta: wire.Meta, source: str) -> None:
        """Keep one row per key. Of two objects with one name the newer counts, whatever their order in the input."""
        written = meta.resource_version or ""
        version = int(written) if written.isdecimal() else 0
        if key in table:
            other_version, other_source = self._sources[(kind, key)]
            where = " and ".join(sorted({source, other_source}))
            self._warnings.append(f"{where}: {_title(kind, meta)} stands there more than once; the newest one counts")
            if (other_version, repr(table[key])) >= (version, repr(row)):
                return
        table[key] = row
        self._sources[(kind, key)] = (version, source)

    def _warn(self, source: str, text: str) -> None:
        self._warnings.append(f"{source}: {text}")

    def _unreadable(self, kind: str, raw: bytes | memoryview, source: str, error: msgspec.ValidationError) -> None:
        """The object has a field of the wrong type: find out at least what it is called and where it runs."""
        what, _, where = str(error).partition(" - at `$.")
        reason = f"{where.rstrip('`')}: {what}" if where else what
        loose = msgspec.json.decode(raw)
        meta = loose.get("metadata") if isinstance(loose, dict) else None
        name = meta.get("name") if isinstance(meta, dict) else None
        if not isinstance(meta, dict) or not isinstance(name, str) or not name:
            self._warn(source, f"a {kind} that cannot be read is left out: {reason}")
            return
        namespace = meta.get("namespace")
        key = ("" if kind in CLUSTER_SCOPED else namespace if isinstance(namespace, str) else "default", name)
        spec = loose.get("spec")
        node = spec.get("nodeName") if isinstance(spec, dict) else None
        stand_in = wire.Pod(spec=wire.PodSpec(node_name=node if isinstance(node, str) else None))
        self._broken(kind, stand_in, key, f"{source}: {_full_name(kind, *key)}: {reason}")

    def _broken(self, kind: str, decoded: Any, key: tuple[str, str], why: str) -> None:
        """Make safe what depends on an object that cannot be understood."""
        match kind:
            case "Node":
                self._rows.nodes[key[1]] = Node(key[1], problem=why)
                self._warnings.append(f"{why}; nothing is moved there")
            case "Pod":
                node = (decoded.spec and decoded.spec.node_name) or ""
                self._rows.pods[key] = Pod(key[0], key[1], "", Shape(), node=node, problem=why)
                self._sources[(kind, key)] = (0, "")
                if node:
                    self._blind[node] = f"holds pod {key[0]}/{key[1]}, which cannot be read"
                self._warnings.append(f"{why}; it is not moved, and nothing is moved to its node")
            case "PodDisruptionBudget":
                # Whatever it protects is unknown, so it protects its whole namespace.
                self._rows.budgets[key] = DisruptionBudget(*key, selector=EVERYTHING, allowed=0)
                self._warnings.append(f"{why}; nothing in its namespace is evicted")
            case _:
                self._warnings.append(f"{why}; it is left out")

    def _warn_of_strays(self) -> None:
        nodes = self._rows.nodes
        strays = sorted(pod.full_name for pod in self._rows.pods.values() if pod.node and pod.node not in nodes)
        if strays and nodes:
            some = ", ".join(strays[:3]) + (f" and {len(strays) - 3} more" if len(strays) > 3 else "")
            self._warnings.append(f"on nodes that the input does not have, so left alone: {some}")


def _title(kind: str, meta: wire.Meta) -> str:
    return _full_name(kind, "" if kind in CLUSTER_SCOPED else meta.namespace or "default", meta.name or "")


def _full_name(kind: str, namespace: str, name: str) -> str:
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
