"""Balance: all pods are crowded onto a third of the nodes, because the others came late; they are spread evenly."""

from __future__ import annotations

from typing import ClassVar

from rescheduler_demo.scenario import Director, Layout, Scenario
from rescheduler_demo.workload import Size

GAP = 20.0
"""imbalanceThreshold: percentage points that are accepted between the most and the least used node."""
CROWDED = 88.0


class Balance(Scenario):
    """Reached when no node is hot, all nodes that take pods are within the threshold, and nothing moves any more."""

    name: ClassVar[str] = "balance"
    about: ClassVar[str] = "a third of the nodes is crowded, the others are empty; pods are spread evenly"
    goal: ClassVar[str] = f"no node is hot, and all are within {GAP:g} points of each other"
    again: ClassVar[bool] = False

    def layout(self, size: Size) -> Layout:
        """A third of the nodes comes first and takes everything."""
        first = max(1, round(size.nodes / 3))
        return Layout(first, size.nodes - first, CROWDED)

    async def play(self, director: Director) -> None:
        """Nothing special happens: the bustle goes on."""
        await director.until(self.goal, lambda: _balanced(director))
        director.tell("the nodes are in balance")


def _balanced(director: Director) -> bool:
    scenery = director.scenery
    quiet = director.nothing_moves() and bool(scenery.completed)
    return quiet and not scenery.picture().hot_nodes and scenery.gap() <= GAP
