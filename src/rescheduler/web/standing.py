"""All nodes as they stand at one moment: what `loads` gives to the views.

The figures are reckoned as `planning.picture` reckons them, so that page, plan and controller say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rescheduler.model.objects import Node
from rescheduler.model.plan import Spreading
from rescheduler.model.policy import Thresholds
from rescheduler.planning.columns import CAP, PODS, Floats, Ints, Mask
from rescheduler.planning.picture import spreading
from rescheduler.web.states import State, pool_of, state_of, zone_of

Amounts = tuple[int, int, int]
"""Thousandths of CPU, bytes of memory, pods."""
CPU, MEMORY, COUNT = 0, 1, 2


Numbered = tuple[list[int], list[str]]
"""Texts by their numbers, and the distinct ones that these stand for."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How evenly the nodes are used."""

    cpu: Spreading
    memory: Spreading
    hot_nodes: int


class Traits(NamedTuple):
    """What the map shows of a node besides its use."""

    capacity: Amounts
    zone: str
    pool: str
    state: int

    @classmethod
    def of(cls, node: Node) -> Traits:
        """As its row tells it."""
        return cls(capacity_of(node), zone_of(node), pool_of(node), state_of(node))

    @property
    def layout(self) -> tuple[str, str, int]:
        """Where it stands on the map, and how many pods it can take."""
        return self.zone, self.pool, self.capacity[COUNT]


@dataclass(frozen=True, slots=True)
class Frame:
    """All nodes in the order of their names, and what does not change when pods do."""

    names: tuple[str, ...]
    traits: tuple[Traits, ...]
    slots: NDArray[np.intp]
    capacity: Ints
    """[3, N]: what is allocatable."""
    limit: Ints
    """[2, N]: the most that keeps a node from being hot."""
    workers: Mask
    zone: Numbered
    pool: Numbered

    @classmethod
    def of(cls, nodes: Mapping[str, Traits], slots: list[int], thresholds: Thresholds) -> Frame:
        """These nodes; `slots` tells where their figures are kept."""
        traits = tuple(nodes.values())
        capacity: Ints = np.array([each.capacity for each in traits], np.int64).reshape(-1, 3).T
        shares = np.array([[thresholds.cpu], [thresholds.memory]])
        limit = np.floor(capacity[:2] * shares / 100.0).astype(np.int64)
        workers = np.array([not each.state & State.CONTROL_PLANE for each in traits], np.bool_)
        zone, pool = numbered([each.zone for each in traits]), numbered([each.pool for each in traits])
        return cls(tuple(nodes), traits, np.array(slots, np.intp), capacity, limit, workers, zone, pool)


@dataclass(frozen=True)
class Standing:
    """All nodes at one moment."""

    frame: Frame
    used: Ints
    """[3, N]"""

    @cached_property
    def percent(self) -> Floats:
        """[2, N]: CPU and memory in per cent of allocatable."""
        found: Floats = self.used[:2] * 100.0 / np.maximum(self.frame.capacity[:2], 1)
        return found

    @cached_property
    def spread(self) -> Spread:
        """Over the nodes that are not the control plane's."""
        hot = (self.used[:2] > self.frame.limit).any(axis=0) & self.frame.workers
        percent = self.percent[:, self.frame.workers]
        return Spread(spreading(percent[CPU]), spreading(percent[MEMORY]), int(hot.sum()))


def numbered(texts: Sequence[str]) -> Numbered:
    """Each text by its number among the distinct ones, which are sorted."""
    distinct = sorted(set(texts))
    numbers = {text: number for number, text in enumerate(distinct)}
    return [numbers[text] for text in texts], distinct


def capacity_of(node: Node) -> Amounts:
    """What is allocatable."""
    listed = dict(node.allocatable)
    return min(listed.get("cpu", 0), CAP), min(listed.get("memory", 0), CAP), min(listed.get(PODS, 0), CAP)
