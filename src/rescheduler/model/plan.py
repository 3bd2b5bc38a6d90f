"""What planning gives back: moves in order, what was refused and why, and how the nodes stood before and after."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Method(StrEnum):
    """How one pod is moved."""

    HANDOFF = "handoff"
    EVICT = "evict"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Move:
    """One pod, from one node to another."""

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


@dataclass(frozen=True, slots=True)
class Picture:
    """How the worker nodes stand."""

    cpu: Spreading
    memory: Spreading
    hot_nodes: int
    loads: tuple[NodeLoad, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of one planning cycle."""

    moves: tuple[Move, ...]
    rejections: tuple[Rejection, ...]
    before: Picture
    after: Picture
    warnings: tuple[str, ...] = ()
