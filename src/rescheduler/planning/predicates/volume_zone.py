from __future__ import annotations

from functools import cached_property

import numpy as np

from rescheduler.model.objects import Claim, Volume
from rescheduler.planning.columns import Mask
from rescheduler.planning.predicates.support.claims import ClaimRule

_ZONE_LABELS = (
    ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
)


class VolumeZone(ClaimRule):
    """The pod's bound volumes are in the node's zone and region, going by their labels."""

    name = "VolumeZone"
    order = 150
    caption = "Volume is in another zone"

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
