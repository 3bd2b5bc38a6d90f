"""What holds for objects of every kind, and the seam where a kind adds its own.

`api` calls these on each write, in this order: `prepare_create` or `prepare_update` (what a client may not set is
taken out or kept as it was), admission, `default`, `faults`. The object is the caller's own, so rules change it in
place. A kind's own rules are a subclass in this folder, entered in `table`.
"""

from __future__ import annotations

from typing import ClassVar

from kubemini.kinds import Kind
from kubemini.refusals import Fault, Json


class Rules:
    """The rules for kinds that have none of their own."""

    finalizers: ClassVar[tuple[str, ...]] = ()
    """What holds every object of the kind when it is deleted, until its controller has seen to it."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def prepare_create(self, body: Json) -> None:
        """Before a new object is looked at: a status that has a subresource of its own is not the client's to give."""
        if "status" in self.kind.subresources:
            body.pop("status", None)

    def prepare_update(self, body: Json, before: Json, subresource: str) -> None:
        """Before a new version is looked at: the part that this way of writing does not reach stays as it was."""
        if subresource == "status":
            kept = {key: value for key, value in before.items() if key not in ("status", "metadata")}
            for key in set(body) - {"status", "metadata"} - set(kept):
                del body[key]
            body.update(kept)
            given = body["metadata"]
            body["metadata"] = before["metadata"] | {
                key: given[key] for key in ("managedFields", "resourceVersion") if key in given
            }
        elif "status" in self.kind.subresources:
            body.pop("status", None)
            if "status" in before:
                body["status"] = before["status"]

    def default(self, body: Json) -> None:
        """Fill in what the client left open. Must change nothing the second time."""

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with the object; `before` is the version that it replaces."""
        return []

    def grace(self, body: Json, asked: int | None) -> int:
        """For how many seconds an object that is deleted stays, so that somebody may end it in an orderly way."""
        return 0

    def deleting(self, body: Json) -> None:
        """An object that is deleted stays for a while: what its status shall say meanwhile."""
