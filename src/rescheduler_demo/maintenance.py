"""Maintenance: a node is labelled, cordoned and emptied; the label goes, and the node takes pods again."""

from __future__ import annotations

from typing import ClassVar

from rescheduler.model import marks
from rescheduler_demo.scenario import Director, Scenario
from rescheduler_demo.workload import AGENT


class Maintenance(Scenario):
    """Reached when the node was empty but for its DaemonSet's pod, and takes pods again."""

    name: ClassVar[str] = "maintenance"
    about: ClassVar[str] = "a node is labelled for maintenance, emptied, and taken back"
    goal: ClassVar[str] = "the node was emptied, and takes pods again"

    async def play(self, director: Director) -> None:
        """One node; each time another one."""
        standing = [node for node in director.scenery.nodes() if not node.unschedulable]
        busiest = max(standing, key=lambda node: len(director.scenery.pods_on(node.name)))
        name = busiest.name
        await director.pause(f"{name} is labelled for maintenance", 5.0)
        director.tell(f"somebody labels {name} for maintenance")
        await director.hands.label(name, **{marks.MAINTENANCE: "true"})
        await director.until(f"{name} is cordoned", lambda: _unschedulable(director, name))
        director.tell(f"{name} is cordoned")
        await director.until(f"{name} is empty", lambda: not _left(director, name))
        director.tell(f"{name} is empty: work on it may begin")
        await director.pause(f"the work on {name} is done", 5.0)
        director.tell(f"somebody takes the label off {name}")
        await director.hands.label(name, **{marks.MAINTENANCE: None})
        await director.until(f"{name} takes pods again", lambda: not _unschedulable(director, name))
        director.tell(f"{name} takes pods again")


def _unschedulable(director: Director, name: str) -> bool:
    node = director.scenery.node(name)
    return node is not None and node.unschedulable


def _left(director: Director, name: str) -> list[str]:
    """The pods that still have to go."""
    return [pod.name for pod in director.scenery.pods_on(name) if pod.labels.get("app") != AGENT]
