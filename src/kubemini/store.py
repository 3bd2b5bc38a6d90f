"""The store: the objects of the embedded cluster with their versions, history and subscribers.

Like etcd it keeps bytes. Each reader decodes an object of its own, lists and watches copy bytes, and 30,000 pods fit
into the memory of a laptop. Labels, owners and selectable fields, by which objects are looked up, are kept beside the
bytes.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from sys import intern
from typing import Any, NamedTuple

import msgspec

from kubemini.errors import Json, already_exists, conflict, expired, not_found
from kubemini.kinds import Kind

Key = tuple[str, str]
"""Namespace ("" for what has none) and name."""

HISTORY = 10_000
"""How many changes of one kind can be watched from; older ones are 410 Gone, as in a compacted etcd."""

_SWITCHES = frozenset({"spec.unschedulable"})  # not set is the same as false

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Owner(NamedTuple):
    """An owner reference, as far as others look things up by it."""

    uid: str
    kind: str
    name: str
    controller: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of one object."""

    key: Key
    version: int
    raw: bytes
    uid: str
    labels: dict[str, str]
    owners: tuple[Owner, ...]
    fields: dict[str, str]
    """The values of the kind's selectable fields; what is not set is the empty text."""
    deleting: bool

    def object(self) -> Json:
        """The object, freshly decoded: the caller may change it."""
        decoded: Json = _decode(self.raw)
        return decoded

    @property
    def controller(self) -> Owner | None:
        """The owner that manages it."""
        return next((owner for owner in self.owners if owner.controller), None)


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one object. `entry` is how it is now; a deleted one's last state, with a version of its own."""

    type: str
    """ADDED, MODIFIED or DELETED."""
    kind: Kind
    entry: Entry
    before: Entry | None

    @property
    def version(self) -> int:
        return self.entry.version


Subscriber = Callable[[Change], None]


@dataclass
class _Table:
    entries: dict[Key, Entry] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    history: deque[Change] = field(default_factory=lambda: deque(maxlen=HISTORY))
    forgotten: int = 0
    """The version of the newest change that is no longer in the history."""
    by_owner: dict[str, set[Key]] = field(default_factory=dict)
    by_namespace: dict[str, set[Key]] = field(default_factory=dict)


class Store:
    """All objects, by kind."""

    def __init__(self) -> None:
        self.version = 1
        self._tables: dict[str, _Table] = {}
        self._subscribers: dict[str, list[Subscriber]] = {}
        """By table. Subscribers to all kinds are under the empty name, and are called first."""

    def get(self, kind: Kind, key: Key) -> Entry | None:
        """The newest version of an object."""
        return self._table(kind).entries.get(key)

    def entries(self, kind: Kind, namespace: str = "") -> list[Entry]:
        """All objects of a kind, or those of one namespace, in the order of their keys."""
        table = self._table(kind)
        if not namespace:
            return [table.entries[key] for key in table.keys]
        return [table.entries[key] for key in sorted(table.by_namespace.get(namespace, ()))]

    def owned(self, kind: Kind, uid: str) -> list[Entry]:
        """The objects of a kind that name this owner, managing or not."""
        table = self._table(kind)
        return [table.entries[key] for key in sorted(table.by_owner.get(uid, ()))]

    def since(self, kind: Kind, version: int) -> list[Change]:
        """The changes of a kind after a version, oldest first; refused when they are no longer kept."""
        table = self._table(kind)
        if version < table.forgotten:
            raise expired(f"too old resource version: {version} ({table.forgotten})")
        changes: list[Change] = []
        for change in reversed(table.history):
            if change.version <= version:
                break
            changes.append(change)
        changes.reverse()
        return changes

    def subscribe(self, subscriber: Subscriber, *kinds: Kind) -> Callable[[], None]:
        """Call a function with each change, inside the write. Returns a function that ends this. No kinds mean all."""
        names = {kind.stored_as for kind in kinds} or {""}
        for name in names:
            self._subscribers[name] = [*self._subscribers.get(name, ()), subscriber]

        def unsubscribe() -> None:
            for name in names:
                self._subscribers[name] = [each for each in self._subscribers[name] if each != subscriber]

        return unsubscribe

    def create(self, kind: Kind, body: Json) -> Entry:
        """Add an object; it gets its version."""
        key = key_of(body)
        table = self._table(kind)
        if key in table.entries:
            raise already_exists(kind, key[1])
        entry = self._entry(kind, body)
        table.entries[key] = entry
        bisect.insort(table.keys, key)
        table.by_namespace.setdefault(key[0], set()).add(key)
        self._own(table, entry, None)
        self._publish(table, Change("ADDED", kind, entry, None))
        return entry

    def replace(self, kind: Kind, body: Json, expected: int) -> Entry:
        """Add a new version of an object, if `expected` is still its newest one."""
        key = key_of(body)
        table = self._table(kind)
        before = self._expect(kind, key, expected)
        entry = self._entry(kind, body)
        table.entries[key] = entry
        self._own(table, entry, before)
        self._publish(table, Change("MODIFIED", kind, entry, before))
        return entry

    def delete(self, kind: Kind, body: Json, expected: int) -> Entry:
        """Remove an object, if `expected` is still its newest version; `body` is its last state."""
        key = key_of(body)
        table = self._table(kind)
        before = self._expect(kind, key, expected)
        entry = self._entry(kind, body)
        del table.entries[key]
        del table.keys[bisect.bisect_left(table.keys, key)]
        table.by_namespace[key[0]].discard(key)
        self._own(table, None, before)
        self._publish(table, Change("DELETED", kind, entry, before))
        return entry

    def _table(self, kind: Kind) -> _Table:
        name = kind.stored_as
        if name not in self._tables:
            self._tables[name] = _Table(forgotten=self.version)  # nothing before this version was kept
        return self._tables[name]

    def _expect(self, kind: Kind, key: Key, expected: int) -> Entry:
        before = self._table(kind).entries.get(key)
        if before is None:
            raise not_found(kind, key[1])
        if before.version != expected:
            raise conflict(kind, key[1])
        return before

    def _entry(self, kind: Kind, body: Json) -> Entry:
        self.version += 1
        metadata = body["metadata"]
        metadata["resourceVersion"] = str(self.version)
        return Entry(
            key_of(body),
            self.version,
            _encode(body),
            metadata["uid"],
            {intern(key): intern(value) for key, value in metadata.get("labels", {}).items()},
            tuple(_owners(metadata)),
            {path: intern(_field(body, path)) for path in kind.fields},
            "deletionTimestamp" in metadata,
        )

    def _own(self, table: _Table, entry: Entry | None, before: Entry | None) -> None:
        for owner in before.owners if before else ():
            table.by_owner[owner.uid].discard(before.key if before else ("", ""))
            if not table.by_owner[owner.uid]:
                del table.by_owner[owner.uid]
        for owner in entry.owners if entry else ():
            table.by_owner.setdefault(owner.uid, set()).add(entry.key if entry else ("", ""))

    def _publish(self, table: _Table, change: Change) -> None:
        if len(table.history) == HISTORY:
            table.forgotten = table.history[0].version
        table.history.append(change)
        for name in ("", change.kind.stored_as):  # indexes of all kinds first: other subscribers read them
            for subscriber in self._subscribers.get(name, ()):
                subscriber(change)


def key_of(body: Json) -> Key:
    """Where an object is kept."""
    metadata = body["metadata"]
    return (intern(metadata.get("namespace") or ""), metadata["name"])


def _owners(metadata: Json) -> Iterator[Owner]:
    for owner in metadata.get("ownerReferences", ()):
        yield Owner(owner["uid"], owner["kind"], owner["name"], bool(owner.get("controller")))


def _field(body: Json, path: str) -> str:
    value: Any = body
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool) or path in _SWITCHES:
        return str(bool(value)).lower()
    return "" if value is None else str(value)
