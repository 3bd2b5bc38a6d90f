"""Which pods are bound to which node, kept as changes pass by.

The controllers that act on all pods of a node (evictions by taints, lost nodes, nodes that are gone) have one each and
tell it of every change of a pod that they are told of. It looks at the field that the store has beside the pod, so it
decodes nothing.
"""

from __future__ import annotations

from kubemini.kinds import POD
from kubemini.store import Change, Entry, Key, Store

NODE_NAME = "spec.nodeName"


class PodsByNode:
    """The pods of every node."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys: dict[str, set[Key]] = {}

    def note(self, change: Change) -> None:
        """Take a change of a pod into account."""
        before = change.before.fields[NODE_NAME] if change.before else ""
        after = "" if change.type == "DELETED" else change.entry.fields[NODE_NAME]
        if before != after and before in self._keys:
            self._keys[before].discard(change.entry.key)
            if not self._keys[before]:
                del self._keys[before]
        if after:
            self._keys.setdefault(after, set()).add(change.entry.key)

    def keys(self, node: str) -> list[Key]:
        """The keys of a node's pods, in order."""
        return sorted(self._keys.get(node, ()))

    def entries(self, node: str) -> list[Entry]:
        """A node's pods, in the order of their keys."""
        found = (self._store.get(POD, key) for key in self.keys(node))
        return [entry for entry in found if entry is not None]
