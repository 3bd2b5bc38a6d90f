"""Namespaces that are deleted: emptied of everything in them, pods first and with their grace, and then let go.

The API refuses new objects in such a namespace, so it is emptied in few passes: one that deletes, and one when all
that was still there has gone. What holds it up is told in its conditions, for `kubectl describe namespace`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kubemini import clock
from kubemini.api import Api, Deletion, Target
from kubemini.controllers.conditions import set_condition
from kubemini.kinds import NAMESPACE, POD, Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Entry, Key

_FINALIZER = "kubernetes"
_FINE = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
)


class NamespaceController:
    """Empties namespaces."""

    name = "namespace-controller"
    kinds: tuple[Kind, ...] = ()
    """All, and those to come: it waits for objects of every kind to go."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._remaining: dict[str, int] = {}
        """Namespaces that are being emptied: how many objects have to go before it is worth to look again."""

    def concerned(self, change: Change) -> Iterable[Key]:
        """A namespace that is deleted, and one of which the last object has gone."""
        entry = change.entry
        if change.kind.resource == NAMESPACE.resource:
            if change.type == "DELETED":
                self._remaining.pop(entry.key[1], None)
            return (entry.key,) if entry.deleting else ()
        namespace = entry.key[0]
        if change.type == "DELETED" and namespace in self._remaining:
            self._remaining[namespace] -= 1
            if self._remaining[namespace] <= 0:
                return (("", namespace),)
        return ()

    async def reconcile(self, key: Key) -> float | None:
        """Delete what is there; finalize the namespace when nothing is."""
        name = key[1]
        entry = self._store.get(NAMESPACE, key)
        if entry is None or not entry.deleting:
            return None
        held = _FINALIZER in (entry.object().get("spec", {}).get("finalizers") or ())
        if not held:
            return None
        left = await self._emptied(name)
        await self._tell(entry, left)
        if left:
            return None
        self._remaining.pop(name, None)
        await self._finalize(name)
        return None

    async def _emptied(self, namespace: str) -> list[tuple[Kind, Entry]]:
        """Delete all that is there and not deleted yet; the answer is what needs more time for it."""
        # Pods first: what they use, or what counts them, shall be there until they are gone.
        for kinds in ([POD], list(self._kinds())):
            for kind in kinds:
                for entry in self._store.entries(kind, namespace):
                    if not entry.deleting:
                        await self._delete(Target(kind, *entry.key))
            left = [(kind, entry) for kind in kinds for entry in self._store.entries(kind, namespace)]
            self._remaining[namespace] = len(left)
            if left:
                return left
        return []

    async def _delete(self, target: Target) -> None:
        try:
            await self._api.delete(target, Deletion(propagation="Background"))
        except Refusal as refusal:
            if refusal.code != 404:
                raise

    def _kinds(self) -> Iterator[Kind]:
        for kind in self._api.kinds:
            if kind.namespaced and not kind.storage and "delete" in kind.verbs:
                yield kind

    async def _finalize(self, name: str) -> None:
        def finalized(body: Json) -> Json:
            spec = body.setdefault("spec", {})
            spec["finalizers"] = [each for each in spec.get("finalizers") or () if each != _FINALIZER]
            return body

        try:
            await self._api.edit(Target(NAMESPACE, name=name, subresource="finalize"), finalized)
        except Refusal as refusal:
            if refusal.code != 404:
                raise

    async def _tell(self, entry: Entry, left: list[tuple[Kind, Entry]]) -> None:
        def told(body: Json) -> Json:
            status = body.setdefault("status", {})
            status["phase"] = "Terminating"
            now = clock.now()
            for kind, reason, message in _FINE:
                condition = {"type": kind, "status": "False", "reason": reason, "message": message}
                set_condition(status, condition | hindrances.get(kind, {}), now)
            return body

        hindrances = _hindrances(left)
        await self._api.edit(Target(NAMESPACE, name=entry.key[1], subresource="status"), told)


def _hindrances(left: list[tuple[Kind, Entry]]) -> dict[str, Json]:
    """What keeps a namespace, as conditions say it."""
    found: dict[str, Json] = {}
    resources = Counter(f"{kind.plural}.{kind.group}" for kind, _ in left)
    if resources:
        listed = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(resources.items()))
        message = f"Some resources are remaining: {listed}"
        found["NamespaceContentRemaining"] = {"status": "True", "reason": "SomeResourcesRemain", "message": message}
    finalizers = Counter(
        finalizer for _, entry in left for finalizer in entry.object()["metadata"].get("finalizers") or ()
    )
    if finalizers:
        listed = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        message = f"Some content in the namespace has finalizers remaining: {listed}"
        found["NamespaceFinalizersRemaining"] = {"status": "True", "reason": "SomeFinalizersRemain", "message": message}
    return found
