"""Namespaces: new ones get the service account `default`, deleted ones are emptied and then removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubemini.api import Api, Deletion, Target
from kubemini.controllers.writes import delete_if_present, edit_if_present
from kubemini.errors import Json
from kubemini.kinds import NAMESPACE, SERVICE_ACCOUNT, Kind
from kubemini.store import Change, Key

_ACCOUNT = "default"


class NamespaceController:
    """Empties namespaces that are being deleted."""

    name = "namespace-controller"
    kinds: tuple[Kind, ...] = ()
    """All, and those to come: it waits until objects of every kind are gone."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store

    def keys_for(self, change: Change) -> Iterable[Key]:
        """A namespace that is deleted, also when an object in it is gone."""
        entry = change.entry
        if change.kind.resource == NAMESPACE.resource:
            return (entry.key,) if entry.deleting else ()
        key = ("", entry.key[0])
        namespace = self._store.get(NAMESPACE, key) if change.type == "DELETED" else None
        return (key,) if namespace is not None and namespace.deleting else ()

    async def reconcile(self, key: Key) -> float | None:
        """Delete what is there; when nothing is left, take the finalizer off the namespace."""
        entry = self._store.get(NAMESPACE, key)
        if entry is None or not entry.deleting or not entry.object().get("spec", {}).get("finalizers"):
            return None
        for kind in self._namespaced_kinds():
            for each in self._store.entries(kind, key[1]):
                if not each.deleting:
                    await delete_if_present(self._api, Target(kind, *each.key), Deletion())
        if not any(self._store.entries(kind, key[1]) for kind in self._namespaced_kinds()):
            target = Target(NAMESPACE, name=key[1], subresource="finalize")
            await edit_if_present(self._api, target, entry.uid, _without_finalizers)
        return None

    def _namespaced_kinds(self) -> Iterator[Kind]:
        for kind in self._api.kinds:
            if kind.namespaced and not kind.storage and "delete" in kind.verbs:
                yield kind


class ServiceAccountController:
    """Creates the service account `default` in every namespace, again if it is deleted."""

    name = "serviceaccount-controller"
    kinds: tuple[Kind, ...] = (NAMESPACE, SERVICE_ACCOUNT)

    def __init__(self, api: Api) -> None:
        self._api = api

    def keys_for(self, change: Change) -> Iterable[Key]:
        """A new namespace, and one whose account was deleted."""
        namespace, name = change.entry.key
        if change.kind.resource == NAMESPACE.resource:
            return (change.entry.key,) if change.type == "ADDED" else ()
        return (("", namespace),) if change.type == "DELETED" and name == _ACCOUNT else ()

    async def reconcile(self, key: Key) -> float | None:
        """Create the account if it is missing."""
        namespace = self._api.store.get(NAMESPACE, key)
        if namespace is None or namespace.deleting or self._api.store.get(SERVICE_ACCOUNT, (key[1], _ACCOUNT)):
            return None
        await self._api.create(Target(SERVICE_ACCOUNT, key[1]), {"metadata": {"name": _ACCOUNT}})
        return None


def _without_finalizers(body: Json) -> Json:
    body["spec"]["finalizers"] = []
    return body
