"""What the lifecycle wants done to the cluster, as data: `cluster` carries it out.

Each command names its object by UID wherever there is one, so that it can never hit another object of the same name,
and doing it twice does no more than doing it once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from rescheduler.model.json import Json


class Verb(StrEnum):
    """What is done."""

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
    """Make an object; that it is there already is no failure."""
    metadata = body["metadata"]
    return Command(Verb.CREATE, body["kind"], metadata["namespace"], metadata["name"], body, why=why)


def patch(body: Json, changes: Json, why: str, subresource: str = "") -> Command:
    """Change this very object by a merge patch: of another UID it is a conflict."""
    metadata = body["metadata"]
    named = {**changes, "metadata": {**changes.get("metadata", {}), "uid": metadata["uid"]}}
    namespace = metadata.get("namespace", "")  # a node has none
    return Command(Verb.PATCH, body["kind"], namespace, metadata["name"], named, subresource, why)


def delete(body: Json, why: str, *, as_seen: bool = False) -> Command:
    """Let this very object go, or only if nobody has changed it; that it has gone already is no failure."""
    metadata = body["metadata"]
    conditions = {"uid": metadata["uid"]}
    if as_seen:
        conditions["resourceVersion"] = metadata["resourceVersion"]
    options = {"preconditions": conditions, "propagationPolicy": "Background"}
    return Command(Verb.DELETE, body["kind"], metadata["namespace"], metadata["name"], options, why=why)


def evict(body: Json, grace: int, why: str) -> Command:
    """Have a pod go, if its disruption budget allows it; it has so many seconds to end, or its own if they are more."""
    metadata = body["metadata"]
    seconds = max(grace, body["spec"].get("terminationGracePeriodSeconds") or 0)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "deleteOptions": {"gracePeriodSeconds": seconds, "preconditions": {"uid": metadata["uid"]}},
    }
    return Command(Verb.EVICT, "Pod", metadata["namespace"], metadata["name"], eviction, "eviction", why)
