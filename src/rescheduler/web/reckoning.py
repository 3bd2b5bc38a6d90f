"""What nodes are used for by measured use, summed node by node: `loads` goes by it where requests alone do not count.

What a pod counts for may change with everything that is measured, so sums are not kept up pod by pod: whoever changes
something on a node says so, and that node is summed again before it is next looked at. A new measurement makes a new
Reckoning, which is filled a few nodes at a time, so that nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

import numpy as np

from rescheduler.model.objects import Pod
from rescheduler.planning.columns import Ints
from rescheduler.planning.measure import Amounts, Measure

_PIECE = 32  # nodes that are summed before others have a turn: with 30 pods each, about 3 ms


class Reckoning:
    """Sums by one measurement. `slots` tells where each node's figures stand, `pods_on` which pods count there."""

    def __init__(
        self, measure: Measure, resources: int, slots: Mapping[str, int], pods_on: Callable[[str], Iterable[Pod]]
    ) -> None:
        self.measure = measure
        self._slots = slots
        self._pods_on = pods_on
        self._used: Ints = np.zeros((resources, max(len(slots), 1)), np.int64)
        self.due: set[str] = set(slots)
        """The nodes that have to be summed, again."""

    def used(self) -> Ints:
        """[R, slots]: what is used of each node."""
        for _ in self.pieces():
            pass
        return self._used

    def pieces(self) -> Iterator[int]:
        """Sum what is due, a piece at a time: how many nodes there are left."""
        while self.due:
            for name in list(islice(self.due, _PIECE)):
                self.due.discard(name)
                if (slot := self._slots.get(name)) is not None:  # it may have gone
                    self._reserve(slot)
                    self._used[:, slot] = self._sum(name)
            yield len(self.due)

    def _sum(self, name: str) -> Amounts:
        """The pods of a node, and what it uses besides them: as `planning.load` has it."""
        each = [self.measure.asked(pod) for pod in self._pods_on(name) if not pod.finished]
        pods = tuple(map(sum, zip(*each, strict=True))) if each else (0,) * len(self._used)
        return self.measure.whole(name, pods)

    def _reserve(self, slot: int) -> None:
        while slot >= self._used.shape[1]:
            self._used = np.concatenate([self._used, np.zeros_like(self._used)], axis=1)
