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
from rescheduler.model.objects import DisruptionBudget, Node, Pod, Workload
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
        try:
            self._store(kind, decoded, meta, source)
        except (SectionError, InstantError) as error:
            node = decoded.spec.node_name if isinstance(decoded, wire.Pod) and decoded.spec is not None else None
            self._broken(kind, meta, source, (str(error), node or ""))

    def snapshot(self, taken_at: float | None = None) -> ClusterSnapshot:
        """Everything collected, in canonical order."""
        rows = self._rows
        for key, name in self._unranked.items():
            if name in self._priority_classes and key in rows.pods:
                rows.pods[key] = msgspec.structs.replace(rows.pods[key], priority=self._priority_classes[name])
        unreadable = [pod for pod in rows.pods.values() if pod.problem]
        for pod in sorted(unreadable, key=lambda pod: pod.full_name, reverse=True):
            if pod.node in rows.nodes:
                why = f"holds pod {pod.full_name}, which cannot be read"
                rows.nodes[pod.node] = msgspec.structs.replace(rows.nodes[pod.node], problem=why)
        self._warn_of_strays()
        return rows.snapshot(self._seen, taken_at, sorted(set(self._warnings)))

    def _store(self, kind: str, decoded: Any, meta: wire.Meta, source: str) -> None:
        rows, name = self._rows, meta.name or ""
        namespaced = (meta.namespace or "default", name)
        match kind:
            case "Pod":
                spec = decoded.spec
                ranked = spec is None or spec.priority is not None or not spec.priority_class_name
                if self._put(kind, rows.pods, namespaced, self._pods.row(decoded, meta), meta, source):
                    self._rank_later(namespaced, "" if ranked else spec.priority_class_name)
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

    def _put(self, kind: str, table: dict[Key, Row], key: Key, row: Row, meta: wire.Meta, source: str) -> bool:
        """Keep one row per key. Of two objects with one name the newer counts, whatever their order in the input."""
        written = meta.resource_version or ""
        version = int(written) if written.isdecimal() and len(written) < 20 else 0
        if key in table:
            other_version, other_source = self._sources[(kind, key)]
            where = " and ".join(sorted({source, other_source}))
            self._warnings.append(f"{where}: {_title(kind, meta)} stands there more than once; the newest one counts")
            if (other_version, _canonical(table[key])) >= (version, _canonical(row)):
                return False
        table[key] = row
        self._sources[(kind, key)] = (version, source)
        return True

    def _rank_later(self, pod: tuple[str, str], priority_class: str) -> None:
        """Remember that a pod's priority is its class's, whose object may come after it."""
        if priority_class:
            self._unranked[pod] = priority_class
        else:
            self._unranked.pop(pod, None)

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
        spec = loose.get("spec")
        node = spec.get("nodeName") if isinstance(spec, dict) else None
        texts = {key: meta.get(key) for key in ("namespace", "resourceVersion")}
        known = {key: text if isinstance(text, str) else None for key, text in texts.items()}
        stand_in = wire.Meta(name, known["namespace"], resource_version=known["resourceVersion"])
        self._broken(kind, stand_in, source, (reason, node if isinstance(node, str) else ""))

    def _broken(self, kind: str, meta: wire.Meta, source: str, problem: tuple[str, str]) -> None:
        """Make safe what depends on an object that cannot be understood: why it can't, and its node if it is a pod."""
        why = f"{source}: {_title(kind, meta)}: {problem[0]}"
        name = meta.name or ""
        key = (meta.namespace or "default", name)
        match kind:
            case "Node":
                self._put(kind, self._rows.nodes, name, Node(name, problem=why), meta, source)
                self._warnings.append(f"{why}; nothing is moved there")
            case "Pod":
                row = Pod(*key, "", Shape(), node=problem[1], problem=why)
                if self._put(kind, self._rows.pods, key, row, meta, source):
                    self._rank_later(key, "")
                self._warnings.append(f"{why}; it is not moved, and nothing is moved to its node")
            case "PodDisruptionBudget":
                # Whatever it protects is unknown, so it protects its whole namespace.
                row_of_all = DisruptionBudget(*key, selector=EVERYTHING, allowed=0)
                self._put(kind, self._rows.budgets, key, row_of_all, meta, source)
                self._warnings.append(f"{why}; nothing in its namespace is evicted")
            case "Deployment":
                # Its strategy is unknown, so two of its pods are not run side by side.
                row_alone = Workload(kind, *key, recreate=True)
                self._put(kind, self._rows.workloads, (kind, *key), row_alone, meta, source)
                self._warnings.append(f"{why}; its pods are not handed off")
            case _:
                self._warnings.append(f"{why}; it is left out")

    def _warn_of_strays(self) -> None:
        nodes = self._rows.nodes
        strays = sorted(pod.full_name for pod in self._rows.pods.values() if pod.node and pod.node not in nodes)
        if strays and nodes:
            some = ", ".join(strays[:3]) + (f" and {len(strays) - 3} more" if len(strays) > 3 else "")
            self._warnings.append(f"on nodes that the input does not have, so left alone: {some}")


def _canonical(row: object) -> bytes:
    """A row as bytes that are the same in every process, to choose between rows that nothing else sets apart."""
    return msgspec.json.encode(row, order="sorted")


def _title(kind: str, meta: wire.Meta) -> str:
    return _full_name(kind, "" if kind in CLUSTER_SCOPED else meta.namespace or "default", meta.name or "")


def _full_name(kind: str, namespace: str, name: str) -> str:
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
