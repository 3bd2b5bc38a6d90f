"""The garbage collector: objects go when the last of their owners is gone.

An owner is an object of that kind, name and uid, in the dependent's namespace or in none. Dependents of owners that
are gone are deleted; an owner that is deleted in the foreground waits for the dependents that block it; one whose
dependents are to be orphaned has itself taken out of their references first. That holds for every kind, also for
those that a CustomResourceDefinition adds, so all changes of all kinds pass by here. Lookups go by the store's index
of owners.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kubemini.api import Api, Deletion, Edit, Target
from kubemini.kinds import Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Entry, Key

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_UNKNOWN_KIND_AGAIN = 5.0  # seconds; the definition of an owner's kind may come yet


@dataclass(slots=True)
class _References:
    """The owners of one object, by how it stands with them."""

    solid: list[Json] = field(default_factory=list)
    """They are there."""
    gone: list[Json] = field(default_factory=list)
    waiting: list[Json] = field(default_factory=list)
    """They are there, but only until their dependents are gone."""


class GarbageController:
    """Deletes what nobody owns any more, and lets owners go."""

    name = "garbage-collector"
    kinds: tuple[Kind, ...] = ()
    """All, and those to come."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._leaving: dict[str, Key] = {}
        """Owners that wait for their dependents: uid and key."""
        self._seen_all = False

    def concerned(self, change: Change) -> Iterable[Key]:
        """The object, if its owners are new or it is leaving; its dependents and owners, if that concerns them.

        A key names the kind, too: its first part is `deployments.apps/namespace`.
        """
        keys = dict.fromkeys(self._concerned(change))
        if not self._seen_all:
            self._seen_all = True  # nobody lists all kinds at the start: the first change brings what was there before
            keys |= dict.fromkeys(self._there_before())
        return keys

    async def reconcile(self, key: Key) -> float | None:
        """Delete an object without owners, or do what the finalizers of one that is leaving ask for."""
        place, name = key
        resource, _, namespace = place.partition("/")
        kind = next((each for each in self._deletable() if each.stored_as == resource), None)
        entry = self._store.get(kind, (namespace, name)) if kind else None
        if kind is None or entry is None:
            return None
        body = entry.object()
        finalizers = body["metadata"].get("finalizers") or ()
        target = Target(kind, namespace, name)
        if not entry.deleting:
            return await self._collect(target, entry, body)
        if ORPHAN in finalizers:
            await self._orphan_dependents(entry.uid)
            await self._let_go(target, entry.uid, ORPHAN)
        elif FOREGROUND in finalizers and not self._is_blocked(entry.uid):
            await self._let_go(target, entry.uid, FOREGROUND)
        return None

    def _concerned(self, change: Change) -> Iterator[Key]:
        entry, before = change.entry, change.before
        for owner in {*entry.owners, *(before.owners if before else ())}:
            if owner.uid in self._leaving:
                yield self._leaving[owner.uid]
        if change.type == "DELETED":
            self._leaving.pop(entry.uid, None)
            yield from self._dependent_keys(entry.uid)
            return
        own = _key(change.kind, entry.key)
        if entry.owners and (before is None or entry.owners != before.owners):
            yield own
        if entry.deleting:
            finalizers = entry.object()["metadata"].get("finalizers") or ()
            if FOREGROUND in finalizers and entry.uid not in self._leaving:
                self._leaving[entry.uid] = own
                yield from self._dependent_keys(entry.uid)
            if FOREGROUND in finalizers or ORPHAN in finalizers:
                yield own

    def _there_before(self) -> Iterator[Key]:
        for kind in self._deletable():
            for entry in self._store.entries(kind):
                yield from self._concerned(Change("ADDED", kind, entry, None))

    def _deletable(self) -> Iterator[Kind]:
        """Every kind once, however many versions or groups show it."""
        seen: set[str] = set()
        for kind in self._api.kinds:
            if not kind.storage and kind.resource not in seen:
                seen.add(kind.resource)
                yield kind

    def _dependents(self, uid: str) -> Iterator[tuple[Kind, Entry]]:
        for kind in self._deletable():
            for entry in self._store.owned(kind, uid):
                yield kind, entry

    def _dependent_keys(self, uid: str) -> Iterator[Key]:
        for kind, entry in self._dependents(uid):
            yield _key(kind, entry.key)

    async def _collect(self, target: Target, entry: Entry, body: Json) -> float | None:
        references = body["metadata"].get("ownerReferences") or []
        if not references:
            return None
        kinds = [self._api.kinds.named(each["apiVersion"], each["kind"]) for each in references]
        known = [kind for kind in kinds if kind is not None]
        if any(kind.namespaced and not target.kind.namespaced for kind in known):
            return None  # what has no namespace cannot have an owner in one: Kubernetes leaves it alone for ever
        if len(known) < len(kinds):
            return _UNKNOWN_KIND_AGAIN
        found = self._sorted(list(zip(references, known, strict=True)), target.namespace)
        if found.solid:
            await self._drop_references(target, entry.uid, {each["uid"] for each in (*found.gone, *found.waiting)})
            return None
        propagation = "Background"
        if found.waiting and any(True for _ in self._dependents(entry.uid)):
            await self._break_circle(target, entry)
            propagation = "Foreground"
        elif ORPHAN in body["metadata"].get("finalizers", ()):
            propagation = "Orphan"
        elif FOREGROUND in body["metadata"].get("finalizers", ()):
            propagation = "Foreground"
        await self._unless_gone(target, entry.uid, propagation)
        return None

    def _sorted(self, references: list[tuple[Json, Kind]], namespace: str) -> _References:
        """How it stands with each owner."""
        found = _References()
        for reference, kind in references:
            owner = self._store.get(kind, (namespace if kind.namespaced else "", reference["name"]))
            if owner is None or owner.uid != reference["uid"]:
                found.gone.append(reference)
            elif owner.deleting and FOREGROUND in (owner.object()["metadata"].get("finalizers") or ()):
                found.waiting.append(reference)
            else:
                found.solid.append(reference)
        return found

    def _is_blocked(self, uid: str) -> bool:
        """Whether a dependent is there that the owner has to wait for."""
        return any(
            reference["uid"] == uid and reference.get("blockOwnerDeletion")
            for _, entry in self._dependents(uid)
            for reference in entry.object()["metadata"]["ownerReferences"]
        )

    async def _break_circle(self, target: Target, entry: Entry) -> None:
        """Objects that own each other would wait for each other for ever: then this one blocks nobody."""
        if not any(dependent.uid in self._leaving for _, dependent in self._dependents(entry.uid)):
            return

        def unblocked(body: Json) -> Json:
            for reference in body["metadata"].get("ownerReferences") or ():
                reference["blockOwnerDeletion"] = False
            return body

        await self._edit(target, entry.uid, unblocked)

    async def _drop_references(self, target: Target, uid: str, owners: set[str]) -> None:
        def without(body: Json) -> Json:
            metadata = body["metadata"]
            kept = [each for each in metadata.pop("ownerReferences", []) if each["uid"] not in owners]
            if kept:
                metadata["ownerReferences"] = kept
            return body

        if owners:
            await self._edit(target, uid, without)

    async def _orphan_dependents(self, uid: str) -> None:
        for kind, entry in list(self._dependents(uid)):
            await self._drop_references(Target(kind, *entry.key), entry.uid, {uid})

    async def _let_go(self, target: Target, uid: str, finalizer: str) -> None:
        def without(body: Json) -> Json:
            metadata = body["metadata"]
            kept = [each for each in metadata.pop("finalizers", []) if each != finalizer]
            if kept:
                metadata["finalizers"] = kept
            return body

        await self._edit(target, uid, without)

    async def _edit(self, target: Target, uid: str, change: Edit) -> None:
        """Change the very object that was looked at, if it is still there."""

        def checked(body: Json) -> Json:
            return change(body) if body["metadata"]["uid"] == uid else body

        try:
            await self._api.edit(target, checked)
        except Refusal as refusal:
            if refusal.code != 404:
                raise

    async def _unless_gone(self, target: Target, uid: str, propagation: str) -> None:
        try:
            await self._api.delete(target, Deletion(uid=uid, propagation=propagation))
        except Refusal as refusal:
            if refusal.code != 404:
                raise


def _key(kind: Kind, key: Key) -> Key:
    return (f"{kind.stored_as}/{key[0]}", key[1])
