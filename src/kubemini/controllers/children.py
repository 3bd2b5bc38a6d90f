"""Who belongs to whom: how a workload's controller finds its children, adopts orphans and lets go of strangers.

ReplicaSets and StatefulSets have pods, Deployments have ReplicaSets. A child belongs to the parent that its controller
reference names; an orphan that a parent's selector matches is adopted, a child that it no longer matches is released,
and neither happens when one of the two is being deleted. `kinship` finds the one for the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import msgspec

from kubemini.api import Api, Target
from kubemini.controllers.kinship import Orphans, Selectors, matcher
from kubemini.controllers.selectors import label_selector
from kubemini.kinds import Kind
from kubemini.refusals import Json, Refusal, conflict
from kubemini.store import Change, Entry, Key
from rescheduler.model.selector import Selector, SelectorError


def controller_reference(body: Json) -> Json:
    """The reference by which a child says who manages it."""
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": body["metadata"]["name"],
        "uid": body["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def selector_in(spec: Json) -> Selector | None:
    """The selector of a workload; None where there is none, or an empty or a wrong one, which select nothing here."""
    try:
        selector = label_selector(spec.get("selector"))
    except SelectorError:
        return None
    return selector if selector is not None and selector.requirements else None


class Family:
    """The children of one kind of all parents of another kind."""

    def __init__(self, api: Api, parent: Kind, child: Kind) -> None:
        self._api = api
        self._store = api.store
        self._parent = parent
        self._child = child
        self._selectors = Selectors()
        self._orphans = Orphans()
        self._telling: set[Key] = set()

    def parent_changed(self, change: Change) -> Iterable[Key]:
        """The parent itself, unless its own controller has just told its status; its selector is remembered."""
        entry = change.entry
        if change.type == "DELETED":
            self._selectors.remove(entry)
        elif self._selectors.of(entry.uid) is None and (selector := selector_in(entry.object()["spec"])):
            self._selectors.add(entry, selector)
        return () if entry.key in self._telling and _is_status_only(change) else (entry.key,)

    @contextlib.contextmanager
    def telling(self, key: Key) -> Iterator[None]:
        """While a parent's status is written: that is no news to whoever writes it."""
        self._telling.add(key)
        try:
            yield
        finally:
            self._telling.discard(key)

    def selector(self, parent: Json) -> Selector | None:
        """What a parent selects; it is read only once."""
        return self._selectors.of(parent["metadata"]["uid"]) or selector_in(parent["spec"])

    def child_changed(self, change: Change) -> Iterator[Key]:
        """The parents that a change of a child concerns: those that have or had it, those that may want an orphan."""
        entry, before = change.entry, change.before
        orphaned = change.type != "DELETED" and entry.controller is None and not entry.deleting
        (self._orphans.add if orphaned else self._orphans.remove)(entry)
        owned_by = self._controlling(entry)
        if owned_by is not None:
            yield owned_by
        left = self._controlling(before) if before is not None and before.owners != entry.owners else None
        if left is not None and left != owned_by:
            yield left
        seen_before = before is not None and before.labels == entry.labels and before.owners == entry.owners
        if orphaned and not seen_before:
            yield from self._selectors.matching(entry)

    def of(self, parent: Json) -> list[Entry]:
        """The children that name a parent as their controller, whatever their labels."""
        uid = parent["metadata"]["uid"]
        return [entry for entry in self._store.owned(self._child, uid) if _is_managed_by(entry, uid)]

    async def claim(
        self, parent: Json, selector: Selector, wanted: Callable[[Entry], bool], candidate: Callable[[Entry], bool]
    ) -> list[Entry]:
        """The children that a parent has now: orphans that match are adopted, its own that don't are released.

        `candidate` says which children are looked at at all, `wanted` what they must be besides selected by labels.
        """
        deleting, matches = "deletionTimestamp" in parent["metadata"], matcher(selector)
        claimed: list[Entry] = []
        for entry in self.of(parent):
            if not candidate(entry):
                continue
            if matches(entry.labels) and wanted(entry):
                claimed.append(entry)
            elif not deleting:
                await self._release(parent, entry)
        if deleting:
            return claimed
        for entry in self._orphans_for(parent["metadata"]["namespace"], selector):
            if candidate(entry) and matches(entry.labels) and wanted(entry):
                adopted = await self._adopt(parent, entry)
                claimed.extend([adopted] if adopted else [])
        return claimed

    async def _adopt(self, parent: Json, entry: Entry) -> Entry | None:
        metadata = parent["metadata"]
        fresh = self._store.get(self._parent, (metadata["namespace"], metadata["name"]))
        if fresh is None or fresh.uid != metadata["uid"] or fresh.deleting:
            raise conflict(self._parent, metadata["name"], "it was deleted, so it adopts nobody")
        reference = controller_reference(parent)

        def owned(body: Json) -> Json:
            found = body["metadata"]
            if found["uid"] != entry.uid:
                raise conflict(self._child, entry.key[1], "another object has its name now")
            references = found.get("ownerReferences", [])
            if any(each.get("controller") and each["uid"] != reference["uid"] for each in references):
                raise conflict(self._child, entry.key[1], "another controller was faster")
            others = [each for each in references if each["uid"] != reference["uid"]]
            found["ownerReferences"] = [*others, reference]
            return body

        return await self._edit(entry, owned)

    async def _release(self, parent: Json, entry: Entry) -> None:
        uid = parent["metadata"]["uid"]

        def left(body: Json) -> Json:
            found = body["metadata"]
            others = [each for each in found.pop("ownerReferences", []) if each["uid"] != uid]
            if others:
                found["ownerReferences"] = others
            return body

        await self._edit(entry, left)

    async def _edit(self, entry: Entry, edit: Callable[[Json], Json]) -> Entry | None:
        """The child's new version; None when it has gone meanwhile."""
        try:
            await self._api.edit(Target(self._child, *entry.key), edit)
        except Refusal as refusal:
            if refusal.code != 404:
                raise
            return None
        return self._store.get(self._child, entry.key)

    def _controlling(self, entry: Entry) -> Key | None:
        """The key of the parent that manages a child, if it is one of ours and is there."""
        owner = entry.controller
        if owner is None or owner.kind != self._parent.name:
            return None
        parent = self._store.get(self._parent, (entry.key[0], owner.name))
        return parent.key if parent is not None and parent.uid == owner.uid else None

    def _orphans_for(self, namespace: str, selector: Selector) -> Iterator[Entry]:
        for key in self._orphans.matching(namespace, selector):
            entry = self._store.get(self._child, key)
            if entry is not None and entry.controller is None and not entry.deleting:
                yield entry


def everyone(_: Entry) -> bool:
    """No child is left out."""
    return True


def _is_managed_by(entry: Entry, uid: str) -> bool:
    for owner in entry.owners:
        if owner.controller:
            return owner.uid == uid
    return False


class _Parts(msgspec.Struct):
    metadata: Json
    spec: msgspec.Raw


_decode = msgspec.json.Decoder(_Parts).decode


def _is_status_only(change: Change) -> bool:
    """Whether nothing but the status is different."""
    if change.before is None:
        return False
    old, new = _decode(change.before.raw), _decode(change.entry.raw)
    for parts in (old, new):
        for key in ("resourceVersion", "managedFields"):
            parts.metadata.pop(key, None)
    return bytes(old.spec) == bytes(new.spec) and old.metadata == new.metadata
