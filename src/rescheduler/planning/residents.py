"""Which pods are on a node because they were placed there, and not because they belong to it.

DaemonSet and static pods come and go with their node: a node that bears nothing else is vacant, and an autoscaler takes
it away. The view makes one when a strategy asks for it; it follows the what-if from then on.
"""

from __future__ import annotations

import numpy as np

from rescheduler.model.objects import Pod
from rescheduler.planning.columns import Indexes, Ints, Mask
from rescheduler.planning.whatif import WhatIf

_OF_THEIR_NODE = ("DaemonSet", "Node")


class Residents:
    """Counts of the pods that were placed, by node; a listener of the what-if."""

    def __init__(self, whatif: WhatIf) -> None:
        self._whatif = whatif
        pods = whatif.columns.pods
        self.placed: Mask = ~np.fromiter((_belongs(pod) for pod in pods), np.bool_, len(pods))
        """[P]: pods that do not belong to their node."""
        self.first: Ints = self._counted(whatif.columns.pod_at)
        """[N]: how many there were before any move."""
        self.counts: Ints = self._counted(whatif.at)
        """[N]: how many pods would have to go for the node to be vacant."""
        whatif.listen(self)

    def _counted(self, at: Indexes) -> Ints:
        here = at[self.placed & (at >= 0)]
        return np.bincount(here, minlength=len(self._whatif.columns.nodes)).astype(np.int64)

    def changed(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        if self.placed[pod]:
            self.counts[node] += delta

    def on(self, node: int) -> list[int]:
        """The pods that would have to go."""
        return [pod for pod in self._whatif.pods_on(node) if self.placed[pod]]


def _belongs(pod: Pod) -> bool:
    """Whether the pod's place is its node, whatever happens."""
    of_its_node = pod.owner is not None and pod.owner[0] in _OF_THEIR_NODE
    return of_its_node or (bool(pod.annotations) and pod.static)
