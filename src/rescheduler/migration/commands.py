"""Writes to the cluster as data; `kube.writer` carries them out.

Each command names its object by UID if there is one, so that it never hits another object of the same name. Commands
are idempotent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from rescheduler.model.json import Json, annotations_of


class Verb(StrEnum):
    """The kind of write."""

    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class Command:
    """One write. The body of a patch is a merge patch if it is an object, a JSON patch if it is a list."""

    verb: Verb
    kind: str
    namespace: str
    name: str
    body: Json | list[Json] = field(default_factory=dict)
    subresource: str = ""
    why: str = ""

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.verb} {self.kind} {where}: {self.why}"


def create(body: Json, why: str) -> Command:
    """Create an object; one that exists already is no failure."""
    metadata = body["metadata"]
    return Command(Verb.CREATE, body["kind"], metadata["namespace"], metadata["name"], body, why=why)


def patch(body: Json, changes: Json, why: str, subresource: str = "") -> Command:
    """Change this object by a merge patch; with another UID it is a conflict."""
    metadata = body["metadata"]
    named = {**changes, "metadata": {**changes.get("metadata", {}), "uid": metadata["uid"]}}
    namespace = metadata.get("namespace", "")  # a node has none
    return Command(Verb.PATCH, body["kind"], namespace, metadata["name"], named, subresource, why)


def json_patch(body: Json, operations: list[Json], why: str) -> Command:
    """Change this object by a JSON patch, which fails if a value that it tests has changed; so does another UID."""
    metadata = body["metadata"]
    checked = [{"op": "test", "path": "/metadata/uid", "value": metadata["uid"]}, *operations]
    return Command(Verb.PATCH, body["kind"], metadata["namespace"], metadata["name"], checked, why=why)


def remove_annotation(body: Json, key: str) -> list[Json]:
    """The operations of a JSON patch that remove an annotation with this value."""
    path = "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")
    return [{"op": "test", "path": path, "value": annotations_of(body)[key]}, {"op": "remove", "path": path}]


def delete(body: Json, why: str, *, as_seen: bool = False) -> Command:
    """Delete this object, `as_seen` only in this version; one that is gone already is no failure."""
    metadata = body["metadata"]
    conditions = {"uid": metadata["uid"]}
    if as_seen:
        conditions["resourceVersion"] = metadata["resourceVersion"]
    options = {"preconditions": conditions, "propagationPolicy": "Background"}
    return Command(Verb.DELETE, body["kind"], metadata["namespace"], metadata["name"], options, why=why)


def evict(body: Json, grace: int, why: str) -> Command:
    """Evict a pod if its budget allows it, with this grace period or its own, whichever is longer."""
    metadata = body["metadata"]
    seconds = max(grace, body["spec"].get("terminationGracePeriodSeconds") or 0)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "deleteOptions": {"gracePeriodSeconds": seconds, "preconditions": {"uid": metadata["uid"]}},
    }
    return Command(Verb.EVICT, "Pod", metadata["namespace"], metadata["name"], eviction, "eviction", why)
