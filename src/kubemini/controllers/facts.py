"""What controllers have read out of objects, kept until the object changes.

A workload of a thousand pods is looked at again whenever one of them changes. Decoding the other 999 each time would
be most of the work, so each controller keeps the few things that it wants to know about each, by version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kubemini.store import Change, Entry

Fact = TypeVar("Fact")


class Facts(Generic[Fact]):
    """What one controller knows about the objects of one kind."""

    def __init__(self, read: Callable[[Entry], Fact]) -> None:
        self._read = read
        self._known: dict[str, tuple[int, Fact]] = {}

    def of(self, entry: Entry) -> Fact:
        """What is known about this version of an object; it is read if it is not known yet."""
        known = self._known.get(entry.uid)
        if known is None or known[0] != entry.version:
            known = self._known[entry.uid] = (entry.version, self._read(entry))
        return known[1]

    def last(self, entry: Entry) -> Fact | None:
        """What was known about an object when it was last looked at."""
        known = self._known.get(entry.uid)
        return known[1] if known else None

    def note(self, change: Change) -> None:
        """Forget an object that is gone."""
        if change.type == "DELETED":
            self._known.pop(change.entry.uid, None)
