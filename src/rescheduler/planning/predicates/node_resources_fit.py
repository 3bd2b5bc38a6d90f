from __future__ import annotations

import numpy as np

from rescheduler.planning.columns import PODS, Columns, Ints, Mask
from rescheduler.planning.predicates.base import Predicate, PredicateContext


class NodeResourcesFit(Predicate):
    """The node has what the pod requests left over. Only requested resources are checked, as in the scheduler."""

    name = "NodeResourcesFit"
    order = 90
    caption = "No room"

    def __init__(self, context: PredicateContext) -> None:
        super().__init__(context)
        self._requests: dict[int, list[tuple[int, int]]] = {}

    def mask(self, pod: int) -> Mask | None:
        return self.fits(pod, self._whatif.free)

    def fits(self, pod: int, free: Ints) -> Mask:
        """[N]: where `free` [R, N] covers what the pod requests."""
        (first, amount), *others = self.requests(pod)
        mask: Mask = free[first] >= amount
        for resource, amount in others:
            mask &= free[resource] >= amount
        return mask

    def requests(self, pod: int) -> list[tuple[int, int]]:
        """List number and amount of every requested resource; at least the place in the pod count."""
        shape = int(self._columns.pod_shape[pod])
        known = self._requests.get(shape)
        if known is None:
            row = self._columns.shape_requests[shape]
            known = self._requests[shape] = [(int(r), int(row[r])) for r in np.flatnonzero(row)]
        return known

    def reason(self, pod: int, node: int) -> str:
        short = [
            f"{self._columns.resources[r]} (asks {_amount(self._columns, r, asked)}, "
            f"{_amount(self._columns, r, max(0, int(self._whatif.free[r, node])))} free)"
            for r, asked in self.requests(pod)
            if self._whatif.free[r, node] < asked
        ]
        return "insufficient " + ", ".join(short)


def _amount(columns: Columns, resource: int, number: int) -> str:
    name = columns.resources[resource]
    if name == "cpu":
        return f"{number}m"
    if name == PODS or "/" in name:
        return str(number)
    return f"{number / 2**20:.0f}Mi"  # no thousands mark: a comma ends a part of the reason
