"""Hotspot: again and again a workload grows on the node that it likes best, until that node is hot; then it is cooled.

Each of three Deployments prefers a node of its own, as services do that want to be near their data. When one is
scaled up, its pods pile up there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from rescheduler_demo.manifests import Json, Template, budget, deployment
from rescheduler_demo.pace import Pace
from rescheduler_demo.scenario import Director, Layout, Scenario
from rescheduler_demo.workload import NODE_CPU, NODE_MEMORY, Size

_APPS = ("rush-hour", "rush-sale", "rush-news")
_SHARE = 10  # per cent of a node that one of their pods asks
_HOT = 95.0
_BASE = 30.0
_AT_REST = 2
_GAP = 40.0
"""imbalanceThreshold: hot nodes are the matter here, not small differences."""


class Hotspot(Scenario):
    """Reached when three nodes in turn were hot, and none is any more."""

    name: ClassVar[str] = "hotspot"
    about: ClassVar[str] = "again and again a workload grows and makes its node hot; the node is cooled"
    goal: ClassVar[str] = f"{len(_APPS)} hot nodes in turn, and each was cooled"
    spared: ClassVar[frozenset[str]] = frozenset(_APPS)

    def layout(self, size: Size) -> Layout:
        """Even, with much room."""
        return Layout(size.nodes, 0, _BASE)

    def config(self, pace: Pace) -> dict[str, object]:
        """Small differences are left alone."""
        return {"imbalanceThreshold": _GAP}

    def workloads(self, size: Size, pace: Pace) -> Iterator[Json]:
        """Three Deployments, each with a node that it likes."""
        for app, node in self._places(size.nodes):
            template = Template(NODE_CPU * _SHARE // 100, NODE_MEMORY * _SHARE // 200, pace, likes=node)
            yield budget(app, 1)
            yield deployment(app, _AT_REST, template)

    async def play(self, director: Director) -> None:
        """One grows, is cooled, and shrinks again while the next one grows."""
        names = [node.name for node in director.scenery.nodes()]
        last = ""
        for app, node in self._places(len(names)):
            await director.pause(f"{app} grows on {node}", 6.0)
            if last:
                await director.hands.scale(last, _AT_REST)
            await self._grow(director, app, node)
            await director.until(f"{node} is cooled", lambda: _cool(director))
            director.tell(f"{node} is cooled, and no other node is hot")
            last = app
        await director.hands.scale(last, _AT_REST)

    async def _grow(self, director: Director, app: str, node: str) -> None:
        used = next(load.cpu for load in director.scenery.picture().loads if load.node == node)
        wanted = _AT_REST + max(1, math.ceil((_HOT - used) / _SHARE))
        while not director.scenery.picture().hot_nodes:
            director.tell(f"{app} grows to {wanted} pods; it likes {node}")
            await director.hands.scale(app, wanted)
            await director.until(f"{app} has {wanted} pods", partial(_placed, director, app, wanted))
            wanted += 1

    def _places(self, nodes: int) -> Iterator[tuple[str, str]]:
        for number, app in enumerate(_APPS):
            yield app, f"node-{number * nodes // len(_APPS)}"


def _placed(director: Director, app: str, count: int) -> bool:
    return sum(bool(pod.node) for pod in director.scenery.pods() if pod.labels.get("app") == app) >= count


def _cool(director: Director) -> bool:
    return director.nothing_moves() and not director.scenery.picture().hot_nodes
