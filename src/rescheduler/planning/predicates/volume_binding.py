from __future__ import annotations

import numpy as np

from rescheduler.model.objects import Claim
from rescheduler.planning.columns import Mask
from rescheduler.planning.predicates.support.claims import ClaimRule

_MAKES_NONE = ("", "kubernetes.io/no-provisioner")


class VolumeBinding(ClaimRule):
    """The pod's bound volumes reach the node, and the unbound ones can be made there."""

    name = "VolumeBinding"
    order = 140
    caption = "Volume does not reach it"

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
