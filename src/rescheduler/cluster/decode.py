"""Objects from files and lists, collected into a snapshot.

A Collector takes one object's JSON at a time and keeps only its row (`reading`). Of two objects with one name the
newer counts, whatever their order, so that the same input gives the same plan.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from rescheduler.cluster.reading import Reader, Reading, table_of
from rescheduler.model.objects import Node, Pod
from rescheduler.model.snapshot import ClusterSnapshot, Rows


class Collector:
    """Rows of the objects given so far."""

    def __init__(self) -> None:
        self._rows = Rows()
        self._reader = Reader()
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
            rank_later(self._unranked, reading)
        if reading.warning:
            self._warnings.append(reading.warning)

    def snapshot(self, taken_at: float | None = None) -> ClusterSnapshot:
        """Everything collected, in canonical order."""
        rows = self._rows
        ranked(rows, self._unranked, self._priority_classes)
        rows.priority_classes.update(self._priority_classes)
        rows.nodes.update(tainted_by_unreadable_pods(rows))
        self._warnings.extend(strays(rows))
        return rows.snapshot(self._seen, taken_at, sorted(set(self._warnings)))

    def _put(self, kind: str, reading: Reading, source: str) -> bool:
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


def rank_later(unranked: dict[tuple[str, str], str], reading: Reading) -> None:
    """Remember that a pod's priority is its class's, whose object may come after it."""
    key: tuple[str, str] = reading.key  # type: ignore[assignment]  # of a pod it is namespace and name
    if reading.priority_class:
        unranked[key] = reading.priority_class
    else:
        unranked.pop(key, None)


def ranked(rows: Rows, unranked: dict[tuple[str, str], str], classes: dict[str, int]) -> None:
    """Give pods the priority of their class, where only that tells it."""
    for key, name in unranked.items():
        if name in classes and key in rows.pods:
            rows.pods[key] = msgspec.structs.replace(rows.pods[key], priority=classes[name])


def tainted_by_unreadable_pods(rows: Rows) -> dict[str, Node]:
    """The nodes that hold a pod which cannot be read, marked as no targets."""
    found: dict[str, Node] = {}
    unreadable: list[Pod] = [pod for pod in rows.pods.values() if pod.problem]
    for pod in sorted(unreadable, key=lambda pod: pod.full_name, reverse=True):
        if pod.node in rows.nodes:
            why = f"holds pod {pod.full_name}, which cannot be read"
            found[pod.node] = msgspec.structs.replace(rows.nodes[pod.node], problem=why)
    return found


def strays(rows: Rows) -> list[str]:
    """A word about pods on nodes that nobody told us of."""
    found = sorted(pod.full_name for pod in rows.pods.values() if pod.node and pod.node not in rows.nodes)
    if not found or not rows.nodes:
        return []
    some = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return [f"on nodes that the input does not have, so left alone: {some}"]


def _canonical(row: object) -> bytes:
    """A row as bytes that are the same in every process, to choose between rows that nothing else sets apart."""
    return msgspec.json.encode(row, order="sorted")
