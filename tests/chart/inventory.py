"""Everything that a cluster holds, of every kind that its API server has: what is new, what has changed, what is ours.

A test takes it before something is installed and after it is gone. Kinds come from discovery, so that none is
forgotten. Events are left out: they tell what was, and the API server removes them by itself, after an hour by default.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from rescheduler.model import labels
from rescheduler.model.json import Json
from tests.testbed.api import Api, ApiError
from tests.testbed.processes import until

Key = tuple[str, str, str]
"""Kind with its group, namespace, name."""
_WHAT_IS_MARKED = ("labels", "annotations", "finalizers", "ownerReferences")
_OF_PEOPLE = (labels.RESCHEDULING, labels.MAINTENANCE, labels.MIGRATION_METHOD)


class Inventory:
    """All objects, as they were in one moment."""

    def __init__(self, api: Api) -> None:
        self.objects = {key: body for path, kind in _kinds(api) for key, body in _listed(api, path, kind)}

    def new_since(self, before: Inventory) -> set[Key]:
        return self.objects.keys() - before.objects.keys()

    def changed_since(self, before: Inventory) -> dict[Key, tuple[Json, Json]]:
        """What is wanted of an object, or is written on it, and not how it fares; Leases are renewed all the time."""
        kept = {key for key in self.objects.keys() & before.objects.keys() if not key[0].startswith("Lease")}
        both = {key: (_wanted(before.objects[key]), _wanted(self.objects[key])) for key in kept}
        return {key: (was, now) for key, (was, now) in both.items() if was != now}

    def ours(self) -> dict[Key, str]:
        """What we made, or wrote on: by name, mark, finalizer, taint, or as the manager of a field."""
        found = {key: _seen_of_us(body) for key, body in self.objects.items()}
        return {key: why for key, why in found.items() if why}


def taken(api: Api) -> Inventory | None:
    """None while a kind is on its way out: it is still told of, and can't be listed any more."""
    try:
        return Inventory(api)
    except ApiError as error:
        if error.code not in (404, 503):
            raise
        return None


def settled(api: Api, namespace: str) -> Inventory:
    """As soon as nothing comes by itself any more: what each new node and namespace gets comes a little after it."""
    last: list[Inventory] = []

    def is_settled() -> Inventory | None:
        now, before = taken(api), last.pop() if last else None
        if now is None:
            return None
        last.append(now)
        whole = ("ConfigMap", namespace, "kube-root-ca.crt") in now.objects
        same = before is not None and not now.new_since(before) and not now.changed_since(before)
        return now if whole and same else None

    return until("nothing comes by itself any more", is_settled, every=1.0)


def _kinds(api: Api) -> Iterator[tuple[str, str]]:
    groups = [each["preferredVersion"]["groupVersion"] for each in api.get("/apis")["groups"]]
    for root in ("/api/v1", *(f"/apis/{each}" for each in groups)):
        group = root.removeprefix("/api/v1").removeprefix("/apis/").partition("/")[0]
        for each in api.get(root)["resources"]:
            if "list" in each["verbs"] and each["kind"] != "Event":
                yield f"{root}/{each['name']}", f"{each['kind']}.{group}".rstrip(".")


def _listed(api: Api, path: str, kind: str) -> Iterator[tuple[Key, Json]]:
    for body in api.get(path)["items"]:
        yield (kind, body["metadata"].get("namespace", ""), body["metadata"]["name"]), body


def _wanted(body: Json) -> Json:
    metadata = {key: body["metadata"].get(key) or None for key in (*_WHAT_IS_MARKED, "uid")}
    rest = {key: value for key, value in body.items() if key not in ("metadata", "status", "kind", "apiVersion")}
    return rest | metadata


def _seen_of_us(body: Json) -> str:
    text, metadata = json.dumps(body), body["metadata"]
    if at := text.find("rescheduler") + 1:
        return text[max(0, at - 80) : at + 80]
    marked = [*(metadata.get("labels") or {}), *(metadata.get("annotations") or {})]
    return ", ".join(key for key in marked if key.startswith(labels.PREFIX) and key not in _OF_PEOPLE)
