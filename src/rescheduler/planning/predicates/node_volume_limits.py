from __future__ import annotations

from collections import Counter
from functools import cached_property

import numpy as np

from rescheduler.planning.columns import Indexes, Mask
from rescheduler.planning.predicates.base import Predicate, PredicateContext
from rescheduler.planning.predicates.support.claims import claiming_pods, claims_of

_Attached = tuple[str, str]
"""Driver and handle."""


class NodeVolumeLimits(Predicate):
    """The node's storage drivers can attach the pod's volumes besides those they hold."""

    name = "NodeVolumeLimits"
    order = 170
    caption = "No more volumes"

    def __init__(self, context: PredicateContext) -> None:
        super().__init__(context)
        self._counting = False
        self._users: dict[_Attached, Counter[int]] = {}
        """For each volume, how many pods use it on which node: a node attaches it once for all of them."""
        self._held: dict[str, Indexes] = {}
        """For each driver [N]: how many volumes each node has attached."""
        self._whatif.add_listener(self)

    def _volumes(self, pod: int) -> set[_Attached]:
        """List driver and handle of each volume; a missing volume counts by its claim and its class."""
        found: set[_Attached] = set()
        snapshot = self._columns.snapshot
        for _, claim in claims_of(self._columns, pod):
            if claim is None:
                continue
            volume = snapshot.volumes.get(claim.volume) if claim.volume else None
            if volume is not None:
                if volume.driver:
                    found.add((volume.driver, volume.handle))
            else:
                storage = snapshot.storage_classes.get(claim.storage_class)
                if storage is not None:
                    found.add((storage.provisioner, f"{claim.namespace}/{claim.name}"))
        return found

    def on_change(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        if self._counting and self._columns.shape(pod).claims:
            self._count(pod, node, delta)

    def _count(self, pod: int, node: int, delta: int) -> None:
        for volume in self._volumes(pod):
            users = self._users.setdefault(volume, Counter())
            before = users[node]
            users[node] += delta
            held = self._held.setdefault(volume[0], np.zeros(len(self._columns.nodes), np.int32))
            held[node] += (users[node] > 0) - (before > 0)

    @cached_property
    def _limits(self) -> dict[str, Indexes]:
        """For each driver [N]: how many volumes each node can attach; counting begins with the first call."""
        self._counting = True
        for pod in claiming_pods(self._columns):
            if self._whatif.at[pod] >= 0:
                self._count(pod, int(self._whatif.at[pod]), +1)
        unlimited = np.iinfo(np.int32).max
        limits: dict[str, Indexes] = {}
        for number, node in enumerate(self._columns.nodes):
            known = self._columns.snapshot.attach_limits.get(node.name)
            for driver, limit in known.limits if known is not None else ():
                row = limits.setdefault(driver, np.full(len(self._columns.nodes), unlimited, np.int32))
                row[number] = min(max(limit, 0), unlimited)
        return limits

    def _full(self, pod: int, driver: str) -> Mask:
        """[N]: where the driver cannot attach the pod's volumes, without those that the node has attached already."""
        limit = self._limits[driver]
        wanted = [volume for volume in self._volumes(pod) if volume[0] == driver]
        new = np.full(len(self._columns.nodes), len(wanted), np.int64)
        for volume in wanted:
            for node, users in self._users.get(volume, {}).items():
                new[node] -= users > 0
        return (new > 0) & (new + self._held.get(driver, 0) > limit)

    def mask(self, pod: int) -> Mask | None:
        if not self._columns.shape(pod).claims or not self._columns.snapshot.attach_limits:
            return None
        full = [self._full(pod, driver) for driver in self._limits]
        return ~np.logical_or.reduce(full) if full else None

    def reason(self, pod: int, node: int) -> str:
        driver = next(driver for driver in self._limits if self._full(pod, driver)[node])
        return f"{driver} can attach only {self._limits[driver][node]} volumes there"
