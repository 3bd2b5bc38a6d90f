"""The scheduler's cache of the cluster: the planner's rows of all objects that matter, decoded once per version.

The store reports every write at once. Here it is only noted, and decoded when the scheduler gets to it, so a pod whose
status changes ten times meanwhile is decoded once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import msgspec

from kubemini.kinds import CLAIM, CSI_NODE, NAMESPACE, NODE, POD, STORAGE_CLASS, VOLUME, Kind
from kubemini.store import Change, Entry, Key, Store
from rescheduler.decode.reader import ObjectReader, table_of
from rescheduler.model.objects import Pod
from rescheduler.model.snapshot import ClusterSnapshot, SnapshotRows

SCHEDULER = "default-scheduler"
_SOURCE = "embedded scheduler"
# Nodes first: pods that are read before their nodes would count as being nowhere.
_KINDS = (NODE, NAMESPACE, STORAGE_CLASS, CSI_NODE, VOLUME, CLAIM, POD)
_log = logging.getLogger(__name__)


class CachedPod(NamedTuple):
    """A pod as the scheduler sees it. Its row carries no nomination: that is not a place yet."""

    row: Pod
    nominated: str = ""
    schedulable: bool = False
    """Whether it is to be scheduled now: it names this scheduler, and has no node and no gate."""

    @property
    def footprint(self) -> tuple[object, ...] | None:
        """All of the pod that matters to other pods; None for a pod that takes no room."""
        row = self.row
        if row.finished or not (row.node or self.nominated):
            return None
        return (row.node, self.nominated, id(row.shape), id(row.labels), row.held, row.deleting, row.priority)


class PodChange(NamedTuple):
    """What became of a pod since the last look."""

    key: Key
    before: CachedPod | None
    after: CachedPod | None


@dataclass
class ClusterChanges:
    """What became of the cluster since the last look."""

    pods: list[PodChange] = field(default_factory=list)
    others: bool = False
    """Whether a node, a namespace or anything about volumes has changed."""


class Cache:
    """The rows, and what has changed and was not decoded yet."""

    def __init__(self, store: Store, notify: Callable[[], None]) -> None:
        self._store = store
        self._notify = notify
        self._reader = ObjectReader()
        self._rows = SnapshotRows()
        self._unread: dict[tuple[str, Key], Kind] = {}
        self.pods: dict[Key, CachedPod] = {}

    def open(self) -> Callable[[], None]:
        """Note every change from now on, and all that is there; the returned function ends that."""
        unsubscribe = self._store.subscribe(self._note, *_KINDS)
        for kind in _KINDS:
            for entry in sorted(self._store.entries(kind), key=lambda entry: entry.version):
                self._unread[kind.name, entry.key] = kind
        return unsubscribe

    @property
    def behind(self) -> bool:
        """Whether something has changed that was not decoded yet."""
        return bool(self._unread)

    def read(self, most: int) -> ClusterChanges:
        """Decode some of what has changed."""
        changes = ClusterChanges()
        for name, key in list(islice(self._unread, most)):
            kind = self._unread.pop((name, key))
            entry = self._store.get(kind, key)
            if kind.name == POD.name:
                before, after = self.pods.pop(key, None), self._read_pod(entry)
                if after is not None:
                    self.pods[key] = after
                changes.pods.append(PodChange(key, before, after))
            else:
                changes.others |= self._read_other(kind, key, entry)
        return changes

    def snapshot(self) -> ClusterSnapshot:
        """All rows, for the planner's columns."""
        self._rows.pods = {key: pod.row for key, pod in self.pods.items()}
        return self._rows.snapshot()

    def _note(self, change: Change) -> None:
        self._unread[change.kind.name, change.entry.key] = change.kind
        self._notify()

    def _read_pod(self, entry: Entry | None) -> CachedPod | None:
        if entry is None:
            return None
        reading = self._reader.read(POD.name, entry.raw, _SOURCE)
        if not isinstance(reading.row, Pod):
            raise TypeError(reading.warning)  # only a pod without a name has no row, and none is stored
        row = reading.row
        if row.problem:
            _log.warning("%s; the pod counts as requesting nothing", row.problem)
            row = msgspec.structs.replace(row, uid=entry.uid)
        nominated = "" if row.node else row.nominated
        if row.nominated:
            row = msgspec.structs.replace(row, nominated="")
        pending = not (row.node or row.finished or entry.deleting)
        ours = pending and entry.fields["spec.schedulerName"] == SCHEDULER
        return CachedPod(row, nominated, ours and not entry.object()["spec"].get("schedulingGates"))

    def _read_other(self, kind: Kind, key: Key, entry: Entry | None) -> bool:
        """Keep the newest row of anything but a pod; whether it differs from the one before."""
        table, name = table_of(self._rows, kind.name), key if kind.namespaced else key[1]
        before, after = table.pop(name, None), None
        if entry is not None:
            reading = self._reader.read(kind.name, entry.raw, _SOURCE)
            after = reading.row
            if reading.warning:
                _log.warning("%s", reading.warning)
        if after is not None:
            table[name] = after
        return bool(before != after)
