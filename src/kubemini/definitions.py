"""Serves custom resources: a definition whose names are free is established, and its kinds enter the catalogue.

A definition that is deleted takes its objects with it: they are deleted first, and the kinds are served until the last
of them is gone, so that whoever holds one by a finalizer can still let go of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from kubemini.api import Api, Target
from kubemini.custom_kind import CustomKind, kinds_of
from kubemini.definition_rules import CLEANUP, is_established, with_condition
from kubemini.kinds import DEFINITION, Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Entry, Key

_LOOK_AGAIN = 0.5  # seconds, while objects are held by finalizers


class Definitions:
    """The controller for CustomResourceDefinitions."""

    name = "definitions"
    kinds: tuple[Kind, ...] = (DEFINITION,)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._served: dict[str, list[CustomKind]] = {}
        self._stored: dict[str, CustomKind] = {}
        """In which form the objects of a definition are kept, also of one that is served no longer."""

    def concerned(self, change: Change) -> Iterable[Key]:
        """The definition, and those of its group, which may wait for a name of it."""
        group = change.entry.key[1].partition(".")[2]
        others = (entry.key for entry in self._api.store.entries(DEFINITION) if entry.key[1].endswith(f".{group}"))
        return dict.fromkeys([change.entry.key, *others])

    async def reconcile(self, key: Key) -> float | None:
        """Serve a definition, or see it off."""
        definition = self._api.find(DEFINITION, key)
        if definition is None:
            await self._forget(key[1])
            return None
        if "deletionTimestamp" in definition["metadata"]:
            return await self._see_off(key[1], definition)
        status = self._judged(definition)
        if status != definition["status"]:
            definition = await self._api.edit(_status_of(key[1]), lambda body: {**body, "status": status})
        if is_established(definition):
            self._serve(key[1], definition)
        return None

    def _judged(self, definition: Json) -> Json:
        """The status that a definition has by its names and those of others."""
        names, status = definition["spec"]["names"], definition["status"]
        accepted, refusal = _accepted(names, self._names_of_others(definition), status["acceptedNames"])
        if refusal is None:
            status = with_condition(status, "NamesAccepted", "True", "NoConflicts", "no conflicts found")
        else:
            status = with_condition(status, "NamesAccepted", "False", *refusal)
        if refusal is None and not is_established(definition):
            told = "the initial names have been accepted"
            status = with_condition(status, "Established", "True", "InitialNamesAccepted", told)
        elif not is_established(definition):
            status = with_condition(status, "Established", "False", "NotAccepted", "not all names are accepted")
        return {**status, "acceptedNames": accepted}

    def _names_of_others(self, definition: Json) -> dict[str, set[str]]:
        """What others of the same group are called."""
        taken: dict[str, set[str]] = {"names": set(), "kinds": set()}
        for entry in self._api.store.entries(DEFINITION):
            other = entry.object()
            ours = entry.uid == definition["metadata"]["uid"]
            if ours or other["spec"]["group"] != definition["spec"]["group"]:
                continue
            names = other["status"]["acceptedNames"]
            taken["names"].update([names.get("plural", ""), names.get("singular", ""), *names.get("shortNames", ())])
            taken["kinds"].update([names.get("kind", ""), names.get("listKind", "")])
        return taken

    def _serve(self, name: str, definition: Json) -> None:
        kinds = kinds_of(definition)
        places = {(kind.version, kind.name) for kind in kinds}
        for kind in self._served.get(name, ()):
            if (kind.version, kind.name) not in places:
                self._api.kinds.remove(kind)
        for kind in kinds:
            self._api.kinds.add(kind)
        self._served[name] = kinds
        if kinds:
            self._stored[name] = kinds[0]
            self._migrate(kinds[0])

    def _migrate(self, kind: CustomKind) -> None:
        """Objects are kept in one version: when that is another, those that are there follow at once."""
        for entry in self._api.store.entries(kind):
            body = entry.object()
            if body["apiVersion"] != kind.api_version:
                self._api.store.replace(kind, {**body, "apiVersion": kind.api_version}, entry.version)

    async def _see_off(self, name: str, definition: Json) -> float | None:
        status = definition["status"]
        if is_established(definition):
            self._serve(name, definition)
        left = await self._delete_objects(name)
        if left:
            told = "CustomResource deletion is in progress"
            status = with_condition(status, "Terminating", "True", "InstanceDeletionInProgress", told)
            if status != definition["status"]:
                await self._api.edit(_status_of(name), lambda body: {**body, "status": status})
            return _LOOK_AGAIN
        self._withdraw(name)
        await self._api.edit(Target(DEFINITION, "", name), _without_cleanup)
        return None

    async def _forget(self, name: str) -> None:
        """It has gone without waiting for its objects, because somebody took the finalizer off."""
        await self._delete_objects(name)
        self._withdraw(name)

    def _withdraw(self, name: str) -> None:
        self._stored.pop(name, None)
        for kind in self._served.pop(name, ()):
            self._api.kinds.remove(kind)

    async def _delete_objects(self, name: str) -> list[Entry]:
        """Delete a definition's objects; the answer is those that are still there."""
        kind = self._stored.get(name)
        if kind is None:
            return []
        for entry in self._api.store.entries(kind):
            if not entry.deleting:
                with _allowed_to_be_gone():
                    await self._api.delete(Target(kind, *entry.key))
        return self._api.store.entries(kind)


@contextlib.contextmanager
def _allowed_to_be_gone() -> Iterator[None]:
    """Somebody else may have been faster, while a webhook was asked."""
    try:
        yield
    except Refusal as refusal:
        if refusal.code != 404:
            raise


def _accepted(names: Json, taken: dict[str, set[str]], before: Json) -> tuple[Json, tuple[str, str] | None]:
    """The names that a definition may have, and why it may not have the others; of several reasons the last counts."""
    accepted = dict(before)
    refusal: tuple[str, str] | None = None
    for key, sort, reason in (
        ("plural", "names", "PluralConflict"),
        ("singular", "names", "SingularConflict"),
        ("shortNames", "names", "ShortNamesConflict"),
        ("kind", "kinds", "KindConflict"),
        ("listKind", "kinds", "ListKindConflict"),
    ):
        wanted = names.get(key) or ([] if key == "shortNames" else "")
        used = [each for each in (wanted if isinstance(wanted, list) else [wanted]) if each in taken[sort]]
        if used:
            refusal = (reason, ", ".join(f'"{each}" is already in use' for each in used))
        elif wanted:
            accepted[key] = wanted
        else:
            accepted.pop(key, None)
    if names.get("categories"):
        accepted["categories"] = names["categories"]
    return accepted, refusal


def _without_cleanup(body: Json) -> Json:
    body["metadata"]["finalizers"] = [each for each in body["metadata"].get("finalizers", ()) if each != CLEANUP]
    return body


def _status_of(name: str) -> Target:
    return Target(DEFINITION, "", name, "status")
