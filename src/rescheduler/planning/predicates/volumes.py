"""Volumes: where a pod's claims let it be, and how many volumes a node can still hold.

Four of kube-scheduler's rules: VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits. The first two
depend on claims only, so they are computed once per set of claims.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from functools import cached_property

import numpy as np

from rescheduler.model.objects import Claim, Volume
from rescheduler.planning.columns import Columns, Indexes, Mask
from rescheduler.planning.predicates.nodes import NodeMasks
from rescheduler.planning.whatif import WhatIf

ONE_POD = "ReadWriteOncePod"
_MAKES_NONE = ("", "kubernetes.io/no-provisioner")
_ZONE_LABELS = (
    ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
)


_Attached = tuple[str, str]
"""Driver and handle."""


def claims_of(columns: Columns, pod: int) -> list[tuple[str, Claim | None]]:
    """The claims that a pod uses, with their objects where the input has them."""
    row = columns.pods[pod]
    return [(name, columns.snapshot.claims.get((row.namespace, name))) for name in row.shape.claims]


class _ClaimRule(ABC):
    """A rule that depends on the pod's claims and the node's labels only."""

    name: str

    def __init__(self, columns: Columns, masks: NodeMasks) -> None:
        self._columns = columns
        self._masks = masks
        self._known: dict[tuple[str, str], tuple[Mask, str]] = {}

    def mask(self, pod: int) -> Mask | None:
        row = self._columns.pods[pod]
        if not self._columns.shape(pod).claims:
            return None
        found: Mask = np.logical_and.reduce(
            [self.allowed(row.namespace, name)[0] for name in self._columns.shape(pod).claims]
        )
        return found

    def reason(self, pod: int, node: int) -> str:
        row = self._columns.pods[pod]
        verdicts = (self.allowed(row.namespace, name) for name in self._columns.shape(pod).claims)
        return next(why for mask, why in verdicts if not mask[node])

    def allowed(self, namespace: str, name: str) -> tuple[Mask, str]:
        """Where one claim lets its pod be, and the reason where it doesn't."""
        key = (namespace, name)
        if key not in self._known:
            self._known[key] = self._where(name, self._columns.snapshot.claims.get(key))
        return self._known[key]

    @abstractmethod
    def _where(self, name: str, claim: Claim | None) -> tuple[Mask, str]:
        """Where a claim lets its pod be, and the reason where it doesn't."""

    def _all(self, *, allowed: bool) -> Mask:
        return np.full(len(self._columns.nodes), allowed)


class VolumeBinding(_ClaimRule):
    """The pod's bound volumes reach the node, and the unbound ones can be made there."""

    name = "VolumeBinding"

    def _where(self, name: str, claim: Claim | None) -> tuple[Mask, str]:
        snapshot = self._columns.snapshot
        if claim is None or claim.deleting:
            return self._all(allowed=False), f"claim {name} is {'being deleted' if claim else 'not there'}"
        if claim.volume and not claim.bound:
            return self._all(allowed=False), f"claim {name} is not bound to volume {claim.volume}"
        if claim.volume:
            volume = snapshot.volumes.get(claim.volume)
            if volume is None:
                return self._all(allowed=False), f"volume {claim.volume} of claim {name} is not there"
            if volume.node_affinity is None:
                return self._all(allowed=True), ""
            return self._masks.any_of(
                volume.node_affinity
            ), f"volume {volume.name} of claim {name} is not reachable there"
        storage = snapshot.storage_classes.get(claim.storage_class)
        if storage is None or not storage.wait_for_consumer or storage.provisioner in _MAKES_NONE:
            return self._all(allowed=False), f"claim {name} is not bound"
        if claim.selected_node:
            chosen = np.array([node.name == claim.selected_node for node in self._columns.nodes], np.bool_)
            return chosen, f"the volume of claim {name} is being made for {claim.selected_node}"
        if not storage.topologies:
            return self._all(allowed=True), ""
        return self._masks.any_of(storage.topologies), f"storage class {storage.name} makes no volumes there"


class VolumeZone(_ClaimRule):
    """The pod's bound volumes are in the node's zone and region, going by their labels."""

    name = "VolumeZone"

    def _where(self, name: str, claim: Claim | None) -> tuple[Mask, str]:
        volume = self._columns.snapshot.volumes.get(claim.volume) if claim is not None and claim.volume else None
        if volume is None:
            return self._all(allowed=True), ""
        mask = self._all(allowed=True)
        for label in (label for pair in _ZONE_LABELS for label in pair if label in volume.labels):
            mask &= self._same_place(volume, label)
        return mask | ~self._zoned, f"volume {volume.name} of claim {name} is in another zone"

    def _same_place(self, volume: Volume, label: str) -> Mask:
        """Nodes with one of the places that the volume names; an old label on the volume meets the new one too."""
        places = set(volume.labels[label].split("__"))
        if "" in places:
            return self._all(allowed=True)  # kube-scheduler ignores a list that it cannot read
        new_name = next(new for new, old in _ZONE_LABELS if label in (new, old))
        here = [node.labels.get(label, node.labels.get(new_name)) for node in self._columns.nodes]
        return np.array([place in places for place in here], np.bool_)

    @cached_property
    def _zoned(self) -> Mask:
        """Nodes that say anything about where they are; the others pass, as in a cluster of one zone."""
        labels = [label for pair in _ZONE_LABELS for label in pair]
        return np.array([any(label in node.labels for label in labels) for node in self._columns.nodes], np.bool_)


class VolumeRestrictions:
    """A claim for one pod only is not in use by another."""

    name = "VolumeRestrictions"

    def __init__(self, whatif: WhatIf) -> None:
        self._columns = whatif.columns
        self._whatif = whatif
        self._users: Counter[tuple[str, str]] | None = None
        whatif.add_listener(self)

    def _claimed(self, pod: int) -> list[tuple[str, str]]:
        return [
            (claim.namespace, claim.name)
            for _, claim in claims_of(self._columns, pod)
            if claim is not None and ONE_POD in claim.access_modes
        ]

    def changed(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        if self._users is not None and self._columns.shape(pod).claims:
            for claim in self._claimed(pod):
                self._users[claim] += delta

    def mask(self, pod: int) -> Mask | None:
        if not self._columns.shape(pod).claims:
            return None
        claimed = self._claimed(pod)
        if self._users is None:
            placed = (p for p in claiming_pods(self._columns) if self._whatif.at[p] >= 0)
            self._users = Counter(claim for p in placed for claim in self._claimed(p))
        if not any(self._users[claim] for claim in claimed):
            return None
        return np.zeros(len(self._columns.nodes), np.bool_)

    def reason(self, pod: int, node: int) -> str:
        return f"claim {self._claimed(pod)[0][1]} is for one pod only, and in use"


class NodeVolumeLimits:
    """The node's storage drivers can attach the pod's volumes besides those they hold."""

    name = "NodeVolumeLimits"

    def __init__(self, whatif: WhatIf) -> None:
        self._columns = whatif.columns
        self._whatif = whatif
        self._counting = False
        self._users: dict[_Attached, Counter[int]] = {}
        """For each volume, how many pods use it on which node: a node attaches it once for all of them."""
        self._held: dict[str, Indexes] = {}
        """For each driver [N]: how many volumes each node has attached."""
        whatif.add_listener(self)

    def _volumes(self, pod: int) -> set[_Attached]:
        """Driver and handle of each volume; one that isn't made yet, or is gone, counts by its claim and its class."""
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

    def changed(self, pod: int, node: int, delta: int) -> None:
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
        """For each driver [N]: how many volumes each node can attach; the counting begins with the first question."""
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
        """[N]: where the driver cannot attach what the pod brings; what a node has attached already isn't new."""
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


def claiming_pods(columns: Columns) -> list[int]:
    """The pods that use claims."""
    claiming = np.array([bool(shape.claims) for shape in columns.shapes], np.bool_)
    return [int(pod) for pod in np.flatnonzero(claiming[columns.pod_shape])] if claiming.any() else []
