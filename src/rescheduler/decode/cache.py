"""The cluster as watches have reported it: one row an object, ready for a snapshot at any moment.

The reflector of each kind writes through a sink of its own; listeners are called on every change. A snapshot shares its
immutable rows with the cache, so it costs one pointer an object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from rescheduler.decode.reader import (
    Bytes,
    ObjectReader,
    ParsedObject,
    build_snapshot,
    remember_priority_class,
    table_of,
)
from rescheduler.decode.structs import READ, WORKLOADS
from rescheduler.model.migration import ObjectReference
from rescheduler.model.objects import Owner, Workload
from rescheduler.model.snapshot import ClusterSnapshot, SnapshotRows

_log = structlog.stdlib.get_logger(__name__)
_READS = 100_000

Changed = Callable[[str, Any, str], None]
"""Called with the kind and key of a changed or deleted object, and its resourceVersion; empty for a deleted one."""


class ClusterCache:
    """The cached objects of a cluster."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._tables: dict[str, dict[Any, Any]] = {kind: {} for kind in READ}
        self._reader = ObjectReader()
        self._reads = 0
        self._kinds: set[str] = set()
        self._warnings: dict[tuple[str, Any], str] = {}
        self._unranked: dict[tuple[str, str], str] = {}
        self._listeners: list[Changed] = []

    def sink(self, kind: str) -> KindSink:
        """Return the sink for a kind's reflector."""
        return KindSink(self, kind)

    def listen(self, listener: Changed) -> None:
        """Call a listener on every change from now on."""
        self._listeners.append(listener)

    def row(self, kind: str, key: Any) -> Any:
        """Return the row of an object, or None."""
        return self._tables[kind].get(key)

    def workload(self, namespace: str, owner: Owner | ObjectReference | None) -> Workload | None:
        """Return the row of an owner, by its name; None for a kind that is not known."""
        if owner is None or owner.kind not in WORKLOADS:
            return None
        found: Workload | None = self.row(owner.kind, (owner.kind, namespace, owner.name))
        return found

    def rows(self, kind: str) -> list[Any]:
        """Return all rows of a kind as a new list, in no order."""
        return list(self._tables[kind].values())

    def count(self, kind: str) -> int:
        """Count the objects of a kind."""
        return len(self._tables[kind])

    def snapshot(self, now: float) -> ClusterSnapshot:
        """Return a snapshot of the current state."""
        return self.capture(now)()

    def capture(self, now: float) -> Callable[[], ClusterSnapshot]:
        """Return a function that makes the snapshot of now; it may be called later and in another thread.

        Copying the tables is quick and is done at once; sorting them takes far longer in a large cluster.
        """
        rows = SnapshotRows()
        for kind, table in self._tables.items():
            table_of(rows, kind).update(table)
        unranked, kinds, warnings = dict(self._unranked), frozenset(self._kinds), frozenset(self._warnings.values())
        return lambda: build_snapshot(rows, unranked, kinds, now, warnings)

    def saw(self, kind: str) -> None:
        """Note that a kind was listed, even if it has no objects."""
        self._kinds.add(kind)

    def read(self, kind: str, raw: Bytes) -> ParsedObject:
        """Parse an object without storing it."""
        self._reads += 1
        if self._reads > max(_READS, 4 * self.count("Pod")):
            # The reader remembers parts that pods share, also those of deleted pods. Cleaning that memory takes as long
            # as many reads, so it is done rarely.
            self._reader.forget_all_but(self._tables["Pod"].values())
            self._reads = 0
        try:
            return self._reader.read(kind, raw, self._source)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return ParsedObject(None, None, warning=f"{self._source}: a {kind} that is not JSON is ignored: {error}")

    def put(self, kind: str, raw: Bytes) -> ParsedObject:
        """Store a new or changed object."""
        reading = self.read(kind, raw)
        if reading.key is None:  # no API server sends this, so it is logged but not remembered
            _log.warning("object ignored", kind=kind, reason=reading.warning)
            return reading
        table = self._tables[kind]
        if reading.row is not None:
            table[reading.key] = reading.row
        else:
            table.pop(reading.key, None)
        if kind == "Pod":
            remember_priority_class(self._unranked, reading)
        self._warnings.pop((kind, reading.key), None)
        if reading.warning:
            self._warnings[(kind, reading.key)] = reading.warning
        self._tell(kind, reading.key, reading.version)
        return reading

    def drop(self, kind: str, key: Any) -> None:
        """Remove an object."""
        self._tables[kind].pop(key, None)
        self._warnings.pop((kind, key), None)
        if kind == "Pod":
            self._unranked.pop(key, None)
        self._tell(kind, key, "")

    def drop_others(self, kind: str, kept: set[Any]) -> None:
        """Remove objects that a new list no longer has."""
        invalid = {key for warned, key in self._warnings if warned == kind}  # these may have no row
        for key in (self._tables[kind].keys() | invalid) - kept:
            self.drop(kind, key)

    def _tell(self, kind: str, key: Any, version: str) -> None:
        for listener in self._listeners:
            listener(kind, key, version)


class KindSink:
    """Writes one kind into the cache; a `Sink` for the reflector."""

    def __init__(self, cache: ClusterCache, kind: str) -> None:
        self._cache = cache
        self._kind = kind
        self._listed: set[Any] | None = None

    def begin(self) -> None:
        """Start a new state."""
        self._listed = set()

    def put(self, raw: Bytes) -> str:
        """Add or update an object."""
        reading = self._cache.put(self._kind, raw)
        if self._listed is not None:
            self._listed.add(reading.key)
        return reading.version

    def drop(self, raw: Bytes) -> str:
        """Remove an object."""
        reading = self._cache.read(self._kind, raw)
        if reading.key is not None:
            self._cache.drop(self._kind, reading.key)
        return reading.version

    def complete(self) -> None:
        """Finish the new state: remove objects that it does not have."""
        self._cache.saw(self._kind)
        if self._listed is not None:
            self._cache.drop_others(self._kind, self._listed)
            self._listed = None
