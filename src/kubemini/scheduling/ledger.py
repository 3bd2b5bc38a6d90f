"""What the scheduler knows of the cluster: rows of all objects that matter to it, decoded once per version.

The store tells of every write at once; here it is only noted, and read when the scheduler comes to it (`take`), so a
pod whose status changes ten times meanwhile is decoded once. The rows are those that the planner reads; what only the
scheduler wants (gates, whose pod it is, wishes) is kept beside them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from kubemini.kinds import CLAIM, CSI_NODE, NAMESPACE, NODE, POD, SERVICE, STORAGE_CLASS, VOLUME, Kind
from kubemini.scheduling.wishes import Wishes, wishes_of
from kubemini.store import Change, Entry, Key, Store
from rescheduler.cluster import objects, wire
from rescheduler.cluster.pods import PodDecoder
from rescheduler.cluster.sections import SectionError
from rescheduler.model.instant import InstantError
from rescheduler.model.objects import Node, Pod
from rescheduler.model.selector import Labels
from rescheduler.model.shape import Shape
from rescheduler.model.snapshot import ClusterSnapshot, Rows

SCHEDULER = "default-scheduler"
_log = logging.getLogger(__name__)
_UNREADABLE = (msgspec.ValidationError, SectionError, InstantError)
_NOTHING = Shape()


class _Spec(wire.PodSpec):
    scheduling_gates: list[msgspec.Raw] | None = None
    preemption_policy: str | None = None


class _Pod(wire.Pod):
    spec: _Spec | None = None


class KnownPod(NamedTuple):
    """A pod as the scheduler sees it. Its row says nothing of a nomination: that is not a place yet."""

    row: Pod
    nominated: str = ""
    gated: bool = False
    ours: bool = True
    """Whether it names this scheduler."""
    preempts: bool = True

    @property
    def placed(self) -> bool:
        """Whether it holds room on a node."""
        return bool(self.row.node) and not self.row.finished

    @property
    def waiting(self) -> bool:
        """Whether it is to be scheduled some day, gated or not."""
        return self.ours and not self.row.node and not self.row.finished

    @property
    def schedulable(self) -> bool:
        """Whether it is to be scheduled now."""
        return self.waiting and not self.gated and not self.row.deleting


class PodChange(NamedTuple):
    """What became of a pod since the last look."""

    key: Key
    before: KnownPod | None
    after: KnownPod | None


@dataclass
class Changes:
    """What became of the cluster since the last look."""

    pods: list[PodChange] = field(default_factory=list)
    nodes: bool = False
    storage: bool = False
    claims: set[Key] = field(default_factory=set)
    namespaces: bool = False
    services: set[str] = field(default_factory=set)
    """The namespaces in which one has changed."""


class Ledger:
    """The rows, and what has changed and was not read yet."""

    def __init__(self, store: Store, noticed: Callable[[], None]) -> None:
        self._store = store
        self._noticed = noticed
        self._unread: dict[tuple[str, Key], Kind] = {}
        self._pods = PodDecoder()
        self.rows = Rows()
        self.pods: dict[Key, KnownPod] = {}
        self.wishes: dict[Shape, Wishes] = {_NOTHING: Wishes()}

    def open(self) -> Callable[[], None]:
        """Note every change from now on, and all that is there; the answer ends that."""
        unsubscribe = self._store.subscribe(self._note, *_KINDS)
        for kind in _KINDS:
            for entry in sorted(self._store.entries(kind), key=_age):
                self._unread[kind.resource, entry.key] = kind
        return unsubscribe

    @property
    def behind(self) -> bool:
        """Whether something has changed that was not read yet."""
        return bool(self._unread)

    def take(self, most: int) -> Changes:
        """Read some of what has changed."""
        changes = Changes()
        for resource, key in list(islice(self._unread, most)):
            kind = self._unread.pop((resource, key))
            entry = self._store.get(kind, key)
            if resource == POD.resource:
                self._take_pod(key, entry, changes)
            elif resource == SERVICE.resource:
                changes.services.add(key[0])
            elif self._keep(resource, key if kind.namespaced else key[1], entry):
                changes.nodes |= resource == NODE.resource
                changes.namespaces |= resource == NAMESPACE.resource
                changes.storage |= resource not in (NODE.resource, NAMESPACE.resource)
                if resource == CLAIM.resource:
                    changes.claims.add(key)
        return changes

    def snapshot(self) -> ClusterSnapshot:
        """All rows, for the planner's columns."""
        self.rows.pods = {key: known.row for key, known in self.pods.items()}
        return self.rows.snapshot()

    def _note(self, change: Change) -> None:
        self._unread[change.kind.stored_as, change.entry.key] = change.kind
        self._noticed()

    def _take_pod(self, key: Key, entry: Entry | None, changes: Changes) -> None:
        before = self.pods.get(key)
        after = self._known(entry) if entry is not None else None
        if after is not None:
            self.pods[key] = after
        elif before is not None:
            del self.pods[key]
        changes.pods.append(PodChange(key, before, after))

    def _known(self, entry: Entry) -> KnownPod:
        ours = entry.fields["spec.schedulerName"] == SCHEDULER
        try:
            decoded = _POD_DECODER.decode(entry.raw)
            row = self._pods.row(decoded, decoded.metadata or wire.Meta())
            spec = decoded.spec or _Spec()
            if row.shape not in self.wishes:
                self.wishes[row.shape] = wishes_of(spec)
        except _UNREADABLE as error:
            _log.warning("pod %s cannot be read, and counts as asking for nothing: %s", "/".join(entry.key), error)
            row = Pod(*entry.key, entry.uid, _NOTHING, node=entry.fields["spec.nodeName"], problem=str(error))
            return KnownPod(row, ours=ours)
        nominated = row.nominated
        if nominated:
            row = msgspec.structs.replace(row, nominated="")
        return KnownPod(row, nominated, bool(spec.scheduling_gates), ours, spec.preemption_policy != "Never")

    def _keep(self, resource: str, key: str | Key, entry: Entry | None) -> bool:
        """Keep the newest row of anything but a pod; whether it tells something new."""
        reading = _READ[resource]
        table: dict[str | Key, object] = getattr(self.rows, reading.table)
        before, after = table.get(key), None
        if entry is not None:
            try:
                decoded = reading.decoder.decode(entry.raw)
                after = reading.row(decoded, decoded.metadata)
            except _UNREADABLE as error:
                _log.warning("%s %s cannot be read, and is left out: %s", resource, "/".join(entry.key), error)
        if after is not None:
            table[key] = after
        else:
            table.pop(key, None)
        return before != after


def _age(entry: Entry) -> int:
    return entry.version


def _node(found: wire.Node, meta: wire.Meta) -> Node:
    """A node without what the scheduler doesn't look at: that one isn't Ready it learns from its taints."""
    return msgspec.structs.replace(objects.node(found, meta), ready=True, deleting=False)


def _namespace(_: wire.Namespace, meta: wire.Meta) -> Labels:
    return objects.namespace_labels(meta)


class _Reading(NamedTuple):
    table: str
    decoder: msgspec.json.Decoder[Any]
    row: Callable[[Any, wire.Meta], object]


_POD_DECODER = msgspec.json.Decoder(_Pod)
_READ = {
    NODE.resource: _Reading("nodes", msgspec.json.Decoder(wire.Node), _node),
    NAMESPACE.resource: _Reading("namespaces", msgspec.json.Decoder(wire.Namespace), _namespace),
    STORAGE_CLASS.resource: _Reading("storage_classes", msgspec.json.Decoder(wire.StorageClass), objects.storage_class),
    CSI_NODE.resource: _Reading("attach_limits", msgspec.json.Decoder(wire.CSINode), objects.attach_limits),
    VOLUME.resource: _Reading("volumes", msgspec.json.Decoder(wire.PersistentVolume), objects.volume),
    CLAIM.resource: _Reading("claims", msgspec.json.Decoder(wire.PersistentVolumeClaim), objects.claim),
}
# Nodes first: pods that are read before the nodes that they are on would come as if they were nowhere.
_KINDS = (NODE, NAMESPACE, STORAGE_CLASS, CSI_NODE, VOLUME, CLAIM, SERVICE, POD)
