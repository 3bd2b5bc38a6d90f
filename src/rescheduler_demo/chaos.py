"""Chaos: while a crowded cluster is balanced, kubelets die, nodes go and come, and the controller is killed.

What must hold meanwhile is counted: no disruption budget is broken by a move of ours. In the end every workload has all
its pods, and nothing of any move is left behind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from kubemini.kinds import NODE
from kubemini.simulation import Kubelet
from rescheduler_demo.balance import CROWDED
from rescheduler_demo.invariants import incomplete, leftovers
from rescheduler_demo.scenario import Director, Layout, Scenario
from rescheduler_demo.workload import Size

Trouble = Callable[[Director], Awaitable[None]]


class Chaos(Scenario):
    """Reached when, after all troubles, every workload is complete, nothing moves, and nothing is left behind."""

    name: ClassVar[str] = "chaos"
    about: ClassVar[str] = "kubelets die, nodes come and go, the controller is killed; nothing is lost"
    goal: ClassVar[str] = "every pod runs, no budget was broken, and nothing is left behind"

    def layout(self, size: Size) -> Layout:
        """Crowded, so that there is something to move; with some nodes more, because some are lost."""
        first = max(2, round(size.nodes / 2))
        return Layout(first, size.nodes - first, CROWDED - 20.0)

    async def play(self, director: Director) -> None:
        """Trouble after trouble, then a calm in which everything has to come right."""
        director.bustle.resume()
        troubles: list[tuple[str, Trouble]] = [
            ("a kubelet dies", _kubelet_dies),
            ("the controller is killed", _controller_dies),
            ("a node joins, and another one is gone", _node_is_lost),
            ("the controller is killed", _controller_dies),
            ("a kubelet dies, and the controller with it", _both),
        ]
        for what, trouble in troubles:
            await director.pause(what, 8.0)
            await trouble(director)
        director.tell("calm: nobody disturbs the cluster any more")
        director.bustle.rest()
        store = director.cluster.api.store
        await director.until("every workload has all its pods", lambda: not incomplete(store))
        await director.until("nothing moves any more", director.nothing_moves)
        await director.until(
            "nothing of the moves is left behind",
            lambda: director.nothing_moves() and not leftovers(store) and not incomplete(store),
        )
        director.tell("every pod runs, and nothing is left behind")


async def _kubelet_dies(director: Director) -> None:
    name = _busiest(director)
    director.tell(f"the kubelet of {name} dies")
    await director.hands.kubelet(name, Kubelet.DEAD)
    await director.until(f"{name} is given up", lambda: not _ready(director, name))
    director.tell(f"{name} is not ready any more")
    await director.pause(f"the kubelet of {name} comes back", 6.0)
    await director.hands.kubelet(name, Kubelet.HEALTHY)
    await director.until(f"{name} is back", lambda: _ready(director, name))
    director.tell(f"{name} is back")


async def _controller_dies(director: Director) -> None:
    director.tell("the controller is killed, whatever it was at")
    starts = director.keeper.starts
    director.keeper.kill()
    await director.until("another controller begins", lambda: director.keeper.starts > starts)


async def _node_is_lost(director: Director) -> None:
    (new,) = await director.cluster.add_nodes(1)
    director.tell(f"{new} joins")
    name = _busiest(director)
    director.tell(f"{name} is gone, with all its pods")
    await director.hands.remove(NODE, name)


async def _both(director: Director) -> None:
    await _controller_dies(director)
    await _kubelet_dies(director)


def _busiest(director: Director) -> str:
    scenery = director.scenery
    ready = [node.name for node in scenery.nodes() if node.ready]
    return max(ready, key=lambda name: (len(scenery.pods_on(name)), name))


def _ready(director: Director, name: str) -> bool:
    node = director.scenery.node(name)
    return node is not None and node.ready
