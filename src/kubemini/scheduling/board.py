"""The cluster as the scheduler sees it when it places pods: the planner's what-if, kept alive from pod to pod.

Building it takes tens of milliseconds in a large cluster, so it is kept as long as only pods come and go, and built
anew, when a pod asks for it, after nodes have changed or pods have come that bring new rules for others. Volumes are a
matter of few pods: a change there counts when one of those asks.
"""

from __future__ import annotations

from kubemini.scheduling.ledger import Changes, Ledger
from kubemini.scheduling.siblings import Siblings
from kubemini.scheduling.view import View
from kubemini.store import Key, Store


class Board:
    """The newest view, and what was assumed beyond what the store says."""

    def __init__(self, ledger: Ledger, store: Store) -> None:
        self._ledger = ledger
        self._siblings = Siblings(store)
        self._view: View | None = None
        self._volumes_changed = False
        self.assumed: dict[Key, str] = {}
        """Pods that have a node but are not bound yet."""
        self.builds = 0
        """How often it was built; for whoever wonders where the time goes."""

    def follow(self, changes: Changes) -> None:
        """Take notice of changes."""
        for namespace in changes.services:
            self._siblings.forget(namespace)
        self._volumes_changed |= changes.storage
        for key, before, after in changes.pods:
            if after is None or after.row.node or (before is not None and before.row.uid != after.row.uid):
                self.assumed.pop(key, None)  # the store says where it is, or it is another one of the same name
        if self._view is None:
            return
        if changes.services:
            self._view.scores.services_changed()
        if changes.nodes or changes.namespaces or not self._view.follow(changes.pods):
            self._view = None

    def view(self, key: Key) -> View:
        """The cluster as it is, for placing this pod."""
        with_volumes = bool(self._ledger.pods[key].row.shape.claims)
        if self._view is None or (with_volumes and self._volumes_changed):
            self._view = View(self._ledger, self.assumed, self._siblings)
            self._volumes_changed = False
            self.builds += 1
        return self._view

    def discard(self) -> None:
        """Build it anew before the next pod: something went wrong while it was used."""
        self._view = None

    def assume(self, key: Key, node: str) -> None:
        """A pod has been given a node: it counts there from now on."""
        self.assumed[key] = node
        if self._view is not None:
            self._view.place(key, node)

    def forget(self, key: Key) -> None:
        """The pod was not bound after all."""
        if self.assumed.pop(key, None) is not None and self._view is not None:
            self._view.take_back(key)
