"""Garbage: objects whose owners are gone, and old Events.

Dependents of owners that are gone are deleted. An owner that is deleted in the foreground waits for the dependents that
block it; one whose dependents are to be orphaned is first taken out of their references. That holds for every kind,
also for those that a CustomResourceDefinition adds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from kubemini.api import Api, Deletion, Target
from kubemini.controllers.writes import delete_if_present, drop_finalizer, edit_if_present, without_owners
from kubemini.kinds import CORE_EVENT, Kind
from kubemini.store import Change, Entry, Key

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_UNKNOWN_KIND_AGAIN = 5.0  # seconds: the definition of an owner's kind may still come
_EVENT_LIFETIME = 3600.0
_EVENTS: Key = ("", "events")


class GarbageCollector:
    """Deletes objects without owners. A key names the kind, too: its first part is `deployments.apps/namespace`."""

    name = "garbage-collector"
    kinds: tuple[Kind, ...] = ()
    """All, and those to come."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._foreground: dict[str, Key] = {}
        """Owners that wait for their dependents: uid and key."""

    def keys_for(self, change: Change) -> Iterator[Key]:
        """The object, if its owners are new or it is being deleted; its dependents and owners, if it concerns them."""
        entry, before = change.entry, change.before
        for owner in {*entry.owners, *(before.owners if before else ())}:
            if owner.uid in self._foreground:
                yield self._foreground[owner.uid]
        if change.type == "DELETED":
            self._foreground.pop(entry.uid, None)
            yield from self._dependent_keys(entry.uid)
            return
        own = _key(change.kind, entry.key)
        if entry.owners and (before is None or entry.owners != before.owners):
            yield own
        if entry.deleting and (finalizers := _finalizers(entry)):
            yield own
            if FOREGROUND in finalizers and entry.uid not in self._foreground:
                self._foreground[entry.uid] = own
                yield from self._dependent_keys(entry.uid)

    async def reconcile(self, key: Key) -> float | None:
        """Delete an object without owners, or run the finalizers of a deleted object."""
        place, name = key
        resource, _, namespace = place.partition("/")
        kind = next((each for each in self._all_kinds() if each.stored_as == resource), None)
        entry = self._store.get(kind, (namespace, name)) if kind else None
        if kind is None or entry is None:
            return None
        target = Target(kind, namespace, name)
        if not entry.deleting:
            return await self._collect(target, entry)
        finalizers = _finalizers(entry)
        if ORPHAN in finalizers:
            for dependent_kind, dependent in list(self._dependents(entry.uid)):
                await self._drop_owners(Target(dependent_kind, *dependent.key), dependent.uid, {entry.uid})
            await drop_finalizer(self._api, target, entry.uid, ORPHAN)
        elif FOREGROUND in finalizers and not self._is_blocked(entry.uid):
            await drop_finalizer(self._api, target, entry.uid, FOREGROUND)
        return None

    def _all_kinds(self) -> Iterator[Kind]:
        """Every stored kind once, however many versions or groups show it."""
        seen: set[str] = set()
        for kind in self._api.kinds:
            if not kind.storage and kind.resource not in seen:
                seen.add(kind.resource)
                yield kind

    def _dependents(self, uid: str) -> Iterator[tuple[Kind, Entry]]:
        for kind in self._all_kinds():
            for entry in self._store.owned(kind, uid):
                yield kind, entry

    def _dependent_keys(self, uid: str) -> Iterator[Key]:
        for kind, entry in self._dependents(uid):
            yield _key(kind, entry.key)

    async def _collect(self, target: Target, entry: Entry) -> float | None:
        """Delete an object if none of its owners is left; drop owners that are gone if another one is."""
        staying: set[str] = set()
        gone: set[str] = set()
        is_awaited = False
        for reference in entry.object()["metadata"].get("ownerReferences", ()):
            kind = self._api.kinds.named(reference["apiVersion"], reference["kind"])
            if kind is None or (kind.namespaced and not target.kind.namespaced):
                return _UNKNOWN_KIND_AGAIN  # and what has no namespace cannot have an owner in one
            owner = self._store.get(kind, (target.namespace if kind.namespaced else "", reference["name"]))
            is_there = owner is not None and owner.uid == reference["uid"]
            is_ending = owner is not None and is_there and owner.deleting and FOREGROUND in _finalizers(owner)
            is_awaited = is_awaited or is_ending
            (staying if is_there and not is_ending else gone).add(reference["uid"])
        if staying:
            await self._drop_owners(target, entry.uid, gone)
        elif gone:
            has_dependents = any(True for _ in self._dependents(entry.uid))
            propagation = "Foreground" if is_awaited and has_dependents else "Background"
            await delete_if_present(self._api, target, Deletion(uid=entry.uid, propagation=propagation))
        return None

    def _is_blocked(self, uid: str) -> bool:
        """Whether a dependent is there that the owner has to wait for."""
        return any(
            reference["uid"] == uid and reference.get("blockOwnerDeletion")
            for _, entry in self._dependents(uid)
            for reference in entry.object()["metadata"]["ownerReferences"]
        )

    async def _drop_owners(self, target: Target, uid: str, owners: set[str]) -> None:
        if owners:
            await edit_if_present(self._api, target, uid, lambda body: without_owners(body, owners))


class EventExpiry:
    """Deletes Events that have not been written for an hour, as the API server's lease in etcd does."""

    name = "event-expiry"
    kinds: tuple[Kind, ...] = (CORE_EVENT,)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._written: dict[Key, float] = {}
        """When each Event was last written, the oldest first."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """One key for all Events, queued when the first one comes; after that it is queued by time."""
        was_empty = not self._written
        self._written.pop(change.entry.key, None)
        if change.type != "DELETED":
            self._written[change.entry.key] = asyncio.get_running_loop().time()
        return (_EVENTS,) if was_empty else ()

    async def reconcile(self, key: Key) -> float | None:
        """Delete what is too old. Returns when the next Event will be."""
        now = asyncio.get_running_loop().time()
        for oldest, written in list(self._written.items()):
            if written + _EVENT_LIFETIME > now:
                return written + _EVENT_LIFETIME - now
            await delete_if_present(self._api, Target(CORE_EVENT, *oldest), Deletion())
        return None


def _finalizers(entry: Entry) -> list[str]:
    found: list[str] = entry.object()["metadata"].get("finalizers") or []
    return found


def _key(kind: Kind, key: Key) -> Key:
    return (f"{kind.stored_as}/{key[0]}", key[1])
