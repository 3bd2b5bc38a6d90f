"""Controller references: how a controller finds its dependents, adopts orphans and releases strangers.

ReplicaSets, StatefulSets, DaemonSets and Jobs have pods, Deployments have ReplicaSets. A dependent belongs to the
owner that its controller reference names. An orphan that an owner's selector matches is adopted, a dependent that it
no longer matches is released. Neither happens while one of the two is being deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from kubemini.api import Api, Target
from kubemini.controllers.writes import edit_if_present, without_owners
from kubemini.errors import Json, conflict
from kubemini.kinds import Kind
from kubemini.selectors import matcher, workload_selector
from kubemini.store import Change, Entry, Key
from rescheduler.model.selector import Selector


def controller_reference(owner: Json) -> Json:
    """The reference by which a dependent names its controller."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


class ControllerRefManager:
    """The dependents of one kind, for all owners of another kind."""

    def __init__(self, api: Api, owner: Kind, dependent: Kind) -> None:
        self._api = api
        self._store = api.store
        self._owner = owner
        self._dependent = dependent
        self._orphans: dict[str, set[Key]] = {}
        """By namespace: dependents without a controller. There are few."""

    def owner_changed(self, change: Change) -> Iterable[Key]:
        """The owner itself, unless nothing but its status changed."""
        return (change.entry.key,) if is_generation_changed(change) else ()

    def dependent_changed(self, change: Change) -> Iterator[Key]:
        """The owners that a change of a dependent concerns: those that have or had it, those that may adopt it."""
        entry, before = change.entry, change.before
        orphans = self._orphans.setdefault(entry.key[0], set())
        orphaned = change.type != "DELETED" and entry.controller is None and not entry.deleting
        if orphaned:
            orphans.add(entry.key)
        else:
            orphans.discard(entry.key)
        now = self._owner_of(entry)
        if now is not None:
            yield now
        last = self._owner_of(before) if before is not None and before.owners != entry.owners else None
        if last is not None and last != now:
            yield last
        seen_before = before is not None and (before.labels, before.owners) == (entry.labels, entry.owners)
        if orphaned and not seen_before:
            for owner in self._store.entries(self._owner, entry.key[0]):
                selector = workload_selector(owner.object())
                if selector is not None and selector.matches(entry.labels):
                    yield owner.key

    def owned(self, owner: Json) -> list[Entry]:
        """The dependents that name an owner as their controller, whatever their labels."""
        uid = owner["metadata"]["uid"]
        return [entry for entry in self._store.owned(self._dependent, uid) if _is_controlled_by(entry, uid)]

    async def claim(
        self, owner: Json, selector: Selector, candidate: Callable[[Entry], bool] = lambda _: True
    ) -> list[Entry]:
        """Adopt matching orphans, release dependents that no longer match, and return those that the owner has now.

        `candidate` selects the dependents to consider.
        """
        deleting, matches = "deletionTimestamp" in owner["metadata"], matcher(selector)
        claimed: list[Entry] = []
        for entry in self.owned(owner):
            if not candidate(entry):
                continue
            if matches(entry.labels):
                claimed.append(entry)
            elif not deleting:
                await self._release(owner, entry)
        if deleting:
            return claimed
        for key in sorted(self._orphans.get(owner["metadata"]["namespace"], ())):
            orphan = self._store.get(self._dependent, key)
            if orphan is not None and matches(orphan.labels) and candidate(orphan):
                adopted = await self._adopt(owner, orphan)
                claimed.extend([adopted] if adopted else [])
        return claimed

    async def _adopt(self, owner: Json, orphan: Entry) -> Entry | None:
        metadata = owner["metadata"]
        fresh = self._store.get(self._owner, (metadata["namespace"], metadata["name"]))
        if fresh is None or fresh.uid != metadata["uid"] or fresh.deleting:
            raise conflict(self._owner, metadata["name"], "it was deleted, so it adopts nothing")
        reference = controller_reference(owner)

        def add_reference(body: Json) -> Json:
            references = body["metadata"].get("ownerReferences", [])
            if any(each.get("controller") and each["uid"] != reference["uid"] for each in references):
                raise conflict(self._dependent, orphan.key[1], "another controller has adopted it")
            others = [each for each in references if each["uid"] != reference["uid"]]
            body["metadata"]["ownerReferences"] = [*others, reference]
            return body

        target = Target(self._dependent, *orphan.key)
        if await edit_if_present(self._api, target, orphan.uid, add_reference) is None:
            return None
        return self._store.get(self._dependent, orphan.key)

    async def _release(self, owner: Json, entry: Entry) -> None:
        uids = {owner["metadata"]["uid"]}
        target = Target(self._dependent, *entry.key)
        await edit_if_present(self._api, target, entry.uid, lambda body: without_owners(body, uids))

    def _owner_of(self, entry: Entry) -> Key | None:
        """The key of the owner that controls a dependent, if it is of our kind and exists."""
        reference = entry.controller
        if reference is None or reference.kind != self._owner.name:
            return None
        owner = self._store.get(self._owner, (entry.key[0], reference.name))
        return owner.key if owner is not None and owner.uid == reference.uid else None


def is_generation_changed(change: Change) -> bool:
    """Whether more than the status changed: the spec, the labels or the owners, or the object comes or goes."""
    entry, before = change.entry, change.before
    if before is None or change.type == "DELETED":
        return True
    if (before.labels, before.owners, before.deleting) != (entry.labels, entry.owners, entry.deleting):
        return True
    return _decode(before.raw).metadata.generation != _decode(entry.raw).metadata.generation


class _Metadata(msgspec.Struct):
    generation: int = 0


class _Object(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Object).decode


def _is_controlled_by(entry: Entry, uid: str) -> bool:
    controller = entry.controller
    return controller is not None and controller.uid == uid
