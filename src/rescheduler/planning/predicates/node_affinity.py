from __future__ import annotations

from rescheduler.planning.columns import Mask
from rescheduler.planning.predicates.base import Predicate


class RequiredNodeAffinity(Predicate):
    """The node has the labels that the pod's node selector and required node affinity ask for."""

    name = "NodeAffinity"
    order = 80
    caption = "Labels do not fit"
    node_only = True

    def mask(self, pod: int) -> Mask | None:
        return self._masks.selected(self._columns.shape(pod))

    def reason(self, pod: int, node: int) -> str:
        labels = self._columns.nodes[node].labels
        for key, value in self._columns.shape(pod).node_selector:
            if labels.get(key) != value:
                return f"node selector {key}={value} not met"
        return "required node affinity not met"
