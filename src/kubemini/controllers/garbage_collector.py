"""Garbage: objects whose owners are gone, and old Events.

Dependents of owners that are gone are deleted. An owner that is deleted in the foreground waits for the dependents that
block it; one whose dependents are to be orphaned is first taken out of their references. That holds for every kind,
also for those that a CustomResourceDefinition adds.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator

from kubemini.api import Api, Deletion, Target
from kubemini.controllers.writes import delete_if_present, edit_if_present, without_item, without_owners
from kubemini.kinds import CORE_EVENT, Kind
from kubemini.refusals import Json
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
        self._started = False

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The object, if its owners are new or it is being deleted; its dependents and owners, if it concerns them."""
        keys = dict.fromkeys(self._keys_for(change))
        if not self._started:
            self._started = True  # all kinds are watched and none is listed: the first change brings what was there
            for kind in self._all_kinds():
                for entry in self._store.entries(kind):
                    keys |= dict.fromkeys(self._keys_for(Change("ADDED", kind, entry, None)))
        return keys

    async def reconcile(self, key: Key) -> float | None:
        """Delete an object without owners, or do what the finalizers of a deleted object ask for."""
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
            await self._drop_finalizer(target, entry.uid, ORPHAN)
        elif FOREGROUND in finalizers and not self._is_blocked(entry.uid):
            await self._drop_finalizer(target, entry.uid, FOREGROUND)
        return None

    def _keys_for(self, change: Change) -> Iterator[Key]:
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
        references: list[Json] = entry.object()["metadata"].get("ownerReferences") or []
        if not references:
            return None
        kinds = [self._api.kinds.named(each["apiVersion"], each["kind"]) for each in references]
        known = [kind for kind in kinds if kind is not None]
        if any(kind.namespaced and not target.kind.namespaced for kind in known):
            return None  # an object without a namespace cannot have an owner in one: Kubernetes leaves it alone
        if len(known) < len(kinds):
            return _UNKNOWN_KIND_AGAIN
        gone: set[str] = set()
        waiting: set[str] = set()
        for reference, kind in zip(references, known, strict=True):
            owner = self._store.get(kind, (target.namespace if kind.namespaced else "", reference["name"]))
            if owner is None or owner.uid != reference["uid"]:
                gone.add(reference["uid"])
            elif owner.deleting and FOREGROUND in _finalizers(owner):
                waiting.add(reference["uid"])
        if len(gone) + len(waiting) < len(references):
            if gone or waiting:
                await self._drop_owners(target, entry.uid, gone | waiting)
            return None
        has_dependents = any(True for _ in self._dependents(entry.uid))
        propagation = "Foreground" if waiting and has_dependents else "Background"
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
        await edit_if_present(self._api, target, uid, lambda body: without_owners(body, owners))

    async def _drop_finalizer(self, target: Target, uid: str, finalizer: str) -> None:
        def without_finalizer(body: Json) -> Json:
            without_item(body["metadata"], "finalizers", finalizer)
            return body

        await edit_if_present(self._api, target, uid, without_finalizer)


class EventExpiry:
    """Deletes Events that have not been written for an hour, as the API server's lease in etcd does."""

    name = "event-expiry"
    kinds: tuple[Kind, ...] = (CORE_EVENT,)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._written: OrderedDict[Key, float] = OrderedDict()
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
