"""The cluster as the watches have told it so far: one row an object, ready to be planned on at any moment.

Each kind's reflector writes through a sink of its own; the loops ask for snapshots and are told of changes. A snapshot
shares its rows with the cache (rows never change), so that it costs one pointer an object and not a copy of the world.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from rescheduler.decode.reader import (
    Bytes,
    ObjectReader,
    ParsedObject,
    apply_priorities,
    describe_strays,
    nodes_of_unreadable_pods,
    remember_priority_class,
    table_of,
)
from rescheduler.model.snapshot import ClusterSnapshot, SnapshotRows

_log = logging.getLogger(__name__)
_READS = 100_000

Changed = Callable[[str, Any, str], None]
"""Told the kind and the key of what has changed or gone, and its version; none for what is gone."""


class ClusterCache:
    """All that is known of the cluster."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._rows = SnapshotRows()
        self._reader = ObjectReader()
        self._reads = 0
        self._kinds: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._warnings: dict[tuple[str, Any], str] = {}
        self._priority_classes: dict[str, int] = {}
        self._unranked: dict[tuple[str, str], str] = {}
        self._listeners: list[Changed] = []

    def sink(self, kind: str) -> KindSink:
        """Where a kind's reflector writes to."""
        return KindSink(self, kind)

    def listen(self, listener: Changed) -> None:
        """Be told of changes from now on."""
        self._listeners.append(listener)

    def row(self, kind: str, key: Any) -> Any:
        """What is known of one object; None when it is not there."""
        return self._table(kind).get(key)

    def rows(self, kind: str) -> list[Any]:
        """All that is known of a kind, in no order; the cache may change meanwhile."""
        table = self._table(kind)
        if table is self._rows.workloads or table is self._rows.usage:  # several kinds in one table
            return [row for row in table.values() if row.kind == kind]
        return list(table.values())

    def count(self, kind: str) -> int:
        """How many objects of a kind are known."""
        return self._counts[kind]

    def snapshot(self, now: float) -> ClusterSnapshot:
        """The cluster as it is known now."""
        return self.copied(now)()

    def copied(self, now: float) -> Callable[[], ClusterSnapshot]:
        """What makes the snapshot of now, whenever it is called, and in whatever thread.

        The tables are copied at once, which is quick; putting them in order takes far longer in a large cluster.
        """
        rows = self._rows
        copied = SnapshotRows(
            nodes=dict(rows.nodes),
            pods=dict(rows.pods),
            namespaces=dict(rows.namespaces),
            workloads=dict(rows.workloads),
            budgets=dict(rows.budgets),
            claims=dict(rows.claims),
            volumes=dict(rows.volumes),
            storage_classes=dict(rows.storage_classes),
            attach_limits=dict(rows.attach_limits),
            usage=dict(rows.usage),
            autoscalers=dict(rows.autoscalers),
            priority_classes=dict(self._priority_classes),
        )
        unranked, classes, kinds = dict(self._unranked), dict(self._priority_classes), frozenset(self._kinds)
        told = set(self._warnings.values())

        def ordered() -> ClusterSnapshot:
            copied.nodes |= nodes_of_unreadable_pods(copied)
            apply_priorities(copied, unranked, classes)
            return copied.snapshot(kinds, now, sorted(told.union(describe_strays(copied))))

        return ordered

    def saw(self, kind: str) -> None:
        """Note that a kind is known, even if there is no object of it."""
        self._kinds.add(kind)

    def read(self, kind: str, raw: Bytes) -> ParsedObject:
        """What an object says, without taking it."""
        self._reads += 1
        if self._reads > max(_READS, 4 * len(self._rows.pods)):
            # A reader remembers what pods have in common, also of those that are long gone. To look through what it
            # remembers takes as long as some reads do, so it's done once in very many.
            self._reader.forget_all_but(self._rows.pods.values())
            self._reads = 0
        try:
            return self._reader.read(kind, raw, self._source)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return ParsedObject(None, None, warning=f"{self._source}: a {kind} that is not JSON is left out: {error}")

    def put(self, kind: str, raw: Bytes) -> ParsedObject:
        """Take a new or changed object."""
        reading = self.read(kind, raw)
        if reading.key is None:  # no API server gives out such a thing, so it's not worth a memory of its own
            _log.warning("%s", reading.warning)
            return reading
        table = self._table(kind)
        before = len(table)
        if reading.row is not None:
            table[reading.key] = reading.row
        else:
            table.pop(reading.key, None)
        self._counts[kind] += len(table) - before
        if kind == "Pod":
            remember_priority_class(self._unranked, reading)
        self._warnings.pop((kind, reading.key), None)
        if reading.warning:
            self._warnings[(kind, reading.key)] = reading.warning
        self._tell(kind, reading.key, reading.version)
        return reading

    def drop(self, kind: str, key: Any) -> None:
        """Forget an object."""
        table = self._table(kind)
        before = len(table)
        table.pop(key, None)
        self._counts[kind] += len(table) - before
        self._warnings.pop((kind, key), None)
        if kind == "Pod":
            self._unranked.pop(key, None)
        self._tell(kind, key, "")

    def drop_others(self, kind: str, kept: set[Any]) -> None:
        """Forget what a new list no longer has."""
        nonsense = {key for warned, key in self._warnings if warned == kind}  # of which there may be no row
        for key in (self._keys(kind) | nonsense) - kept:
            self.drop(kind, key)

    def _table(self, kind: str) -> dict[Any, Any]:
        return self._priority_classes if kind == "PriorityClass" else table_of(self._rows, kind)

    def _keys(self, kind: str) -> set[Any]:
        table = self._table(kind)
        if table is self._rows.workloads or table is self._rows.usage:  # several kinds in one table
            return {key for key in table if key[0] == kind}
        return set(table)

    def _tell(self, kind: str, key: Any, version: str) -> None:
        for listener in self._listeners:
            listener(kind, key, version)


class KindSink:
    """One kind's way into the cache, as `reflector.Sink` wants it."""

    def __init__(self, cache: ClusterCache, kind: str) -> None:
        self._cache = cache
        self._kind = kind
        self._listed: set[Any] | None = None

    def begin(self) -> None:
        """A whole new state follows."""
        self._listed = set()

    def put(self, raw: Bytes) -> str:
        """An object is there, or has changed."""
        reading = self._cache.put(self._kind, raw)
        if self._listed is not None:
            self._listed.add(reading.key)
        return reading.version or _version(raw)

    def drop(self, raw: Bytes) -> str:
        """An object is gone."""
        reading = self._cache.read(self._kind, raw)
        if reading.key is not None:
            self._cache.drop(self._kind, reading.key)
        return reading.version or _version(raw)

    def complete(self) -> None:
        """The new state is whole: what it does not have is gone."""
        self._cache.saw(self._kind)
        if self._listed is not None:
            self._cache.drop_others(self._kind, self._listed)
            self._listed = None


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _Versioned(msgspec.Struct):
    metadata: _Meta


def _version(raw: Bytes) -> str:
    """The version of an object of which nothing else may make sense."""
    try:
        return msgspec.json.decode(raw, type=_Versioned).metadata.resource_version
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
