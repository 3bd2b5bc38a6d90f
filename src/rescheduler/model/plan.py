"""What planning gives back: moves in order, what was refused and why, and how the nodes stood before and after."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rescheduler.model.policy import Utilization


class Method(StrEnum):
    """How one pod is moved, or that it is removed."""

    HANDOFF = "handoff"
    EVICT = "evict"
    COPY = "copy"
    REMOVE = "remove"
    """A pod that has ended goes nowhere: it is deleted, and what is made in its place is its controller's business."""


@dataclass(frozen=True, slots=True)
class Move:
    """One pod, from one node to another; or one that has ended and is removed, and then `target` is empty."""

    namespace: str
    pod: str
    source: str
    target: str
    strategy: str
    reason: str
    method: Method
    uid: str = ""
    workload: str = ""
    priority: int = 0
    proposal: int = 0
    """Moves of one proposal stand or fall together; this is its number in the plan."""
    gain: float | None = None
    """By how many percentage points the busier of the two nodes becomes less busy; None in plans of older versions."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A pod that a strategy wanted to move and may or can not: which guard says so, and why."""

    namespace: str
    pod: str
    guard: str
    reason: str
    strategy: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Spreading:
    """The distribution of one resource's utilisation over nodes, in per cent of allocatable."""

    max: float
    min: float
    mean: float
    stddev: float


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """One node's utilisation, in per cent of allocatable."""

    node: str
    cpu: float
    memory: float
    pods: int
    over: tuple[str, ...] = ()
    """The resources of which more is used than the node's threshold; it is hot if there are any."""
    pool: str = ""
    """The node pool of the configuration that it belongs to; empty for none."""
    others: tuple[float | None, ...] = ()
    """Of the picture's `others`, in their order; None where the node has nothing of it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """How the worker nodes stand."""

    cpu: Spreading
    memory: Spreading
    hot_nodes: int
    loads: tuple[NodeLoad, ...]
    others: tuple[tuple[str, Spreading], ...] = ()
    """Other resources with a threshold, over the nodes that have any of it."""
    pools: tuple[tuple[str, int], ...] = ()
    """Hot nodes of each node pool of the configuration."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of one planning cycle."""

    moves: tuple[Move, ...]
    rejections: tuple[Rejection, ...]
    before: Picture
    after: Picture
    warnings: tuple[str, ...] = ()
    utilization: Utilization = Utilization.REQUESTS
    """What use is reckoned by."""
