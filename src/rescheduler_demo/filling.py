"""Fills the demo's cluster: nodes, workloads, and nodes that come late, until everything is in its place."""

from __future__ import annotations

from rescheduler_demo.manifests import SPACE
from rescheduler_demo.scenario import Director, Scenario
from rescheduler_demo.settings import HOME
from rescheduler_demo.workload import Filling, Size, agent


async def fill(director: Director, scenario: Scenario, size: Size) -> None:
    """As the scenario wants it to begin; returns when every pod runs, or has found no room."""
    pace, layout = director.pace, scenario.layout(size)
    await director.hands.namespaces(SPACE, HOME)
    await director.cluster.add_nodes(layout.first)
    await director.hands.deploy(Filling(size.pods, layout.first, layout.percent, pace).workloads())
    await director.hands.deploy(scenario.workloads(size, pace))
    await _settled(director, size.pods)
    if layout.late:
        director.tell(f"{size.pods} pods run on {layout.first} of the nodes; the other {layout.late} join")
        await director.cluster.add_nodes(layout.late)
    await director.hands.deploy([agent(pace)])
    await _settled(director, size.pods + layout.first + layout.late)
    nodes, pods = len(director.scenery.nodes()), len(director.scenery.pods())
    director.tell(f"all is in its place: {nodes} nodes, {pods} pods; the controller starts")


async def _settled(director: Director, pods: int) -> None:
    def done() -> bool:
        there = director.scenery.pods()
        placed = [pod for pod in there if pod.node and not pod.finished]
        return director.cluster.idle and len(there) >= pods and all(pod.ready for pod in placed)

    await director.until("all pods run", done)
