"""Which pods carry a rule (an anti-affinity term, a spread constraint): found once, followed as they move.

Pods of one shape and one group carry the same rules with the same meaning, so everything here goes by that pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from rescheduler.model.selector import Labels
from rescheduler.model.shape import Shape
from rescheduler.planning.columns import Columns, Indexes
from rescheduler.planning.matching import DomainCounts
from rescheduler.planning.whatif import WhatIf

Pair = tuple[int, int]
"""Shape number, group number."""


class Carrier(NamedTuple):
    """All pods of one shape and one group."""

    pair: Pair
    shape: Shape
    namespace: str
    labels: Labels
    pods: Indexes


def carriers(columns: Columns, carries: Callable[[Shape], bool]) -> Iterator[Carrier]:
    """The pods whose shape carries something, by shape and group, in the snapshot's order."""
    wanted = np.array([carries(shape) for shape in columns.shapes], np.bool_)
    if not wanted.any():
        return
    pods: Indexes = np.flatnonzero(wanted[columns.pod_shape]).astype(np.int32)
    pairs = columns.pod_shape[pods].astype(np.int64) * len(columns.groups) + columns.pod_group[pods]
    order = np.argsort(pairs, kind="stable")
    starts = np.flatnonzero(np.diff(pairs[order], prepend=-1))
    for members in np.split(pods[order], starts[1:]):
        first = int(members[0])
        pair = (int(columns.pod_shape[first]), int(columns.pod_group[first]))
        yield Carrier(pair, columns.shapes[pair[0]], *columns.groups[pair[1]], members)


class CarrierCounts:
    """Counts of carriers by domain; a listener of the what-if."""

    def __init__(self, whatif: WhatIf) -> None:
        self._columns = whatif.columns
        self._whatif = whatif
        self._by_pair: dict[Pair, list[DomainCounts]] = {}
        whatif.count(self)

    def changed(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        pair = (int(self._columns.pod_shape[pod]), int(self._columns.pod_group[pod]))
        for counts in self._by_pair.get(pair, ()):
            counts.changed(node, delta)

    def follows(self, shape: int, group: int) -> bool:
        """Whether pods of this shape and this group are carriers."""
        return (shape, group) in self._by_pair

    def count(self, carrier: Carrier, counts: DomainCounts) -> None:
        """Let these counts follow these pods too."""
        counts.add(self._whatif.at[carrier.pods])
        self._by_pair.setdefault(carrier.pair, []).append(counts)
