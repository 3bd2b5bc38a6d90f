"""The controller for CustomResourceDefinitions: it establishes them, and serves their kinds.

A definition that is deleted takes its objects along: they are deleted first, and the kind is served until the last one
is gone, so that their finalizers can still be removed.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.custom import CustomKind, kind_of
from kubemini.errors import Json
from kubemini.kinds import DEFINITION, Kind
from kubemini.store import Change, Key
from kubemini.validation import DEFINITION_CLEANUP

_RETRY = 0.5  # seconds, while finalizers hold objects


class CrdController:
    """Serves custom kinds."""

    name = "definitions"
    kinds: tuple[Kind, ...] = (DEFINITION,)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._served: dict[str, CustomKind] = {}

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The definition that changed."""
        return (change.entry.key,)

    async def reconcile(self, key: Key) -> float | None:
        """Serve a definition's kind, or stop serving it."""
        name = key[1]
        definition = self._api.find(DEFINITION, key)
        if definition is None:
            self._withdraw(name)
            return None
        self._serve(name, definition)
        if "deletionTimestamp" in definition["metadata"]:
            return await self._finalize(name)
        status = _established(definition)
        if status != definition["status"]:
            await self._api.edit(Target(DEFINITION, "", name, "status"), lambda body: {**body, "status": status})
        return None

    def _serve(self, name: str, definition: Json) -> None:
        kind = kind_of(definition)
        before = self._served.get(name)
        if before is not None and before.api_version != kind.api_version:
            self._api.kinds.remove(before)
        self._api.kinds.add(kind)
        self._served[name] = kind

    def _withdraw(self, name: str) -> None:
        if name in self._served:
            self._api.kinds.remove(self._served.pop(name))

    async def _finalize(self, name: str) -> float | None:
        if await self._delete_objects(name):
            return _RETRY
        self._withdraw(name)
        await self._api.edit(Target(DEFINITION, "", name), _remove_cleanup)
        return None

    async def _delete_objects(self, name: str) -> bool:
        """Delete a definition's objects; whether any are left."""
        kind = self._served[name]
        for entry in self._api.store.entries(kind):
            if not entry.deleting:
                await self._api.delete(Target(kind, *entry.key))
        return bool(self._api.store.entries(kind))


def _established(definition: Json) -> Json:
    """The status of a definition whose names are accepted and whose kind is served."""
    status = definition["status"]
    since = {each["type"]: each["lastTransitionTime"] for each in status.get("conditions") or ()}
    conditions = [
        {
            "type": sort,
            "status": "True",
            "lastTransitionTime": since.get(sort) or clock.stamp(clock.now()),
            "reason": reason,
            "message": message,
        }
        for sort, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    return {**status, "conditions": conditions, "acceptedNames": definition["spec"]["names"]}


def _remove_cleanup(body: Json) -> Json:
    finalizers = body["metadata"].get("finalizers", ())
    body["metadata"]["finalizers"] = [each for each in finalizers if each != DEFINITION_CLEANUP]
    return body
