"""What users asked of the real API server, from its audit log: the server's own record, not ours.

`tests.testbed.programs` says which users are in it: all but the control plane's programs and the administrator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, order=True)
class Right:
    """What a rule of RBAC grants, and a request needs: `pods/status` is the resource of a subresource."""

    group: str
    resource: str
    verb: str


@dataclass(frozen=True)
class Entry:
    """One request and how it was answered."""

    user: str
    agent: str
    right: Right
    namespace: str
    name: str
    code: int
    time: str
    """RFC 3339 with microseconds: of when it came in."""
    answered: str

    @property
    def is_write(self) -> bool:
        return self.right.verb in WRITES


def entries(log: Path, user: str) -> list[Entry]:
    """The requests of one user, in the order in which they were answered; a watch counts when it begins and ends."""
    return list(_read(log, user))


def _read(log: Path, user: str) -> Iterator[Entry]:
    whole, _, _ = log.read_text().rpartition("\n")  # the last line may be half written
    for line in whole.splitlines():
        event = json.loads(line)
        about = event.get("objectRef")
        if event["user"].get("username") != user or about is None:
            continue  # of another user, unauthenticated (401), or about no object: discovery, health
        part = f"/{about['subresource']}" if about.get("subresource") else ""
        yield Entry(
            user=user,
            agent=event.get("userAgent", ""),
            right=Right(about.get("apiGroup", ""), about["resource"] + part, event["verb"]),
            namespace=about.get("namespace", ""),
            name=about.get("name", ""),
            code=event["responseStatus"]["code"],
            time=event["requestReceivedTimestamp"],
            answered=event["stageTimestamp"],
        )
