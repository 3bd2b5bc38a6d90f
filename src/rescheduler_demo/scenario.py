"""What a scenario is, and what it may do: look, act, wait, and tell what comes next.

One module a scenario has a class of this kind; `scenarios` lists them. `play` is the script: it returns when the goal
is reached. What it waits for, and for how long, everybody sees.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from kubemini.cluster import EmbeddedCluster
from rescheduler_demo.bustle import Bustle
from rescheduler_demo.hands import Hands
from rescheduler_demo.keeper import Keeper
from rescheduler_demo.manifests import Json
from rescheduler_demo.pace import Pace
from rescheduler_demo.scene import Coming
from rescheduler_demo.scenery import Scenery
from rescheduler_demo.workload import Size

_LOOKED_EVERY = 0.1  # seconds
ALL_STRATEGIES = ("NodeMaintenance", "ResourceOptimization", "LoadBalancing")


@dataclass(frozen=True, slots=True)
class Layout:
    """How the cluster begins: pods are placed on the first nodes; those that come late stand empty."""

    first: int
    late: int
    percent: float
    """How full the pods make the first nodes, in per cent of their CPU."""


@dataclass
class Director:
    """The script's means."""

    cluster: EmbeddedCluster
    scenery: Scenery
    hands: Hands
    bustle: Bustle
    keeper: Keeper
    pace: Pace
    tell: Callable[[str], None]
    _what: str = ""
    _due: float | None = field(default=None)

    @property
    def coming(self) -> Coming:
        """What happens next, and when."""
        return Coming(self._what, None if self._due is None else max(0.0, self._due - time.monotonic()))

    async def pause(self, then: str, seconds: float) -> None:
        """Let some time go by; `then` is what comes next."""
        wait = self.pace.seconds(seconds)
        self._what, self._due = then, time.monotonic() + wait
        await asyncio.sleep(wait)

    async def until(self, what: str, reached: Callable[[], bool]) -> None:
        """Wait for a state of the cluster."""
        self._what, self._due = what, None
        while True:
            began = time.monotonic()
            if reached():
                return
            # In a large cluster a look takes a while: the others shall have most of the time.
            await asyncio.sleep(max(_LOOKED_EVERY, 4 * (time.monotonic() - began)))

    def nothing_moves(self) -> bool:
        """Whether no migration is ordered or under way."""
        return not self.scenery.active()


class Scenario(ABC):
    """One story: what the cluster looks like, what happens, and when its goal is reached."""

    name: ClassVar[str]
    about: ClassVar[str]
    """A line for the help."""
    goal: ClassVar[str]
    again: ClassVar[bool] = True
    """Whether it is played again and again, where the demo is not to end by itself."""
    spared: ClassVar[frozenset[str]] = frozenset()
    """Deployments that the bustle leaves alone."""

    def layout(self, size: Size) -> Layout:
        """All nodes are there from the start, and evenly used."""
        return Layout(size.nodes, 0, 45.0)

    def config(self, pace: Pace) -> dict[str, object]:
        """What of the configuration is special, as flags give it."""
        return {}

    def workloads(self, size: Size, pace: Pace) -> Iterable[Json]:
        """What runs besides the usual."""
        return ()

    @abstractmethod
    async def play(self, director: Director) -> None:
        """What happens; returns when the goal is reached."""
