"""The demo's scenarios: the cluster at the start, what happens to it, and the goal.

A new one is a class here and an entry of SCENARIOS. Its `run` is the script: it observes, acts and waits with a `Demo`,
and returns when the goal is reached. The views show what it waits for, and for how long.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from kubemini.cluster import EmbeddedCluster
from kubemini.kinds import DEPLOYMENT, NODE
from kubemini.simulation import KUBELET_LABEL, Kubelet
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler_demo.churn import Actions, Churn
from rescheduler_demo.controller import Supervisor
from rescheduler_demo.state import ClusterState, find_incomplete, find_leftovers
from rescheduler_demo.workloads import AGENT, NAMESPACE, NODE_CPU, NODE_MEMORY, Pace, Size, Template, budget, deployment

_POLL = 0.1  # seconds


@dataclass
class Demo:
    """What a script uses: the cluster, its state, and the parts of the demo that it controls."""

    cluster: EmbeddedCluster
    state: ClusterState
    actions: Actions
    churn: Churn
    supervisor: Supervisor
    pace: Pace
    report: Callable[[str], None]
    page: str = ""
    """The page's address; empty until it is served."""
    next_step: str = "nodes and pods come"
    """The next event, or what the script waits for."""
    _due: float | None = None

    @property
    def next_step_in(self) -> float | None:
        """Seconds until the next step; None where a state is waited for."""
        return None if self._due is None else max(0.0, self._due - time.monotonic())

    async def pause(self, next_step: str, seconds: float) -> None:
        """Let some time go by before the next step."""
        wait = self.pace.seconds(seconds)
        self.next_step, self._due = next_step, time.monotonic() + wait
        await asyncio.sleep(wait)

    async def wait_until(self, what: str, reached: Callable[[], bool]) -> None:
        """Wait for a state of the cluster."""
        self.next_step, self._due = what, None
        while True:
            started = time.monotonic()
            if reached():
                return
            # In a large cluster the check takes a while: the other tasks need most of the time.
            await asyncio.sleep(max(_POLL, 4 * (time.monotonic() - started)))

    def nothing_moves(self) -> bool:
        """Whether no migration is pending or in progress."""
        return not self.state.active_migrations()


@dataclass(frozen=True, slots=True)
class Layout:
    """How the cluster begins: pods are placed on the first nodes; the late ones join afterwards, empty."""

    first: int
    late: int
    percent: float
    """How full pods make the first nodes, in per cent of their CPU."""


class Scenario(ABC):
    """One scenario; its docstring is the definition of its goal."""

    name: ClassVar[str]
    goal: ClassVar[str]
    repeats: ClassVar[bool] = True
    """Whether it is run again and again, where the demo does not end by itself."""
    spared: ClassVar[frozenset[str]] = frozenset()
    """Deployments that churn leaves alone."""

    def layout(self, size: Size) -> Layout:
        """All nodes are there from the start, and evenly used."""
        return Layout(size.nodes, 0, 45.0)

    def config(self) -> dict[str, object]:
        """What differs from the demo's usual configuration, as flags give it."""
        return {}

    def workloads(self, size: Size, pace: Pace) -> Iterable[Json]:
        """What runs besides the usual workloads."""
        return ()

    @abstractmethod
    async def run(self, demo: Demo) -> None:
        """The script; returns when the goal is reached."""


class Balance(Scenario):
    """Reached when no node is hot, all open nodes are within the threshold, and no moves are left."""

    GAP: ClassVar[float] = 20.0
    """imbalanceThreshold: percentage points that are accepted between the most and the least used node."""
    CROWDED: ClassVar[float] = 88.0

    name = "balance"
    goal = f"no node is hot, and all are within {GAP:g} points of each other"
    repeats = False

    def layout(self, size: Size) -> Layout:
        """A third of the nodes joins first and takes everything."""
        first = max(1, round(size.nodes / 3))
        return Layout(first, size.nodes - first, self.CROWDED)

    async def run(self, demo: Demo) -> None:
        """Nothing special happens: only churn."""
        state = demo.state

        def balanced() -> bool:
            moved = demo.nothing_moves() and bool(state.completed)
            return moved and not state.picture().hot_nodes and state.gap() <= self.GAP

        await demo.wait_until(self.goal, balanced)
        demo.report("the nodes are in balance")


class Hotspot(Scenario):
    """Reached when three nodes in turn were hot, and none is any more.

    Each of three Deployments prefers a node of its own, as services do that want to be near their data. Scaled up, its
    pods pile up there.
    """

    APPS: ClassVar[tuple[str, ...]] = ("rush-hour", "rush-sale", "rush-news")
    SHARE: ClassVar[int] = 10
    """Per cent of a node that one of their pods requests."""
    HOT: ClassVar[float] = 95.0
    AT_REST: ClassVar[int] = 2

    name = "hotspot"
    goal = f"{len(APPS)} hot nodes in turn, each brought below its thresholds"
    spared = frozenset(APPS)

    def layout(self, size: Size) -> Layout:
        """Even, with much room."""
        return Layout(size.nodes, 0, 30.0)

    def config(self) -> dict[str, object]:
        """Hot nodes are the matter here, not small differences."""
        return {"imbalanceThreshold": 40.0}

    def workloads(self, size: Size, pace: Pace) -> Iterator[Json]:
        """Three Deployments, each with a node that it prefers."""
        for app, node in self._places(size.nodes):
            template = Template(
                NODE_CPU * self.SHARE // 100, NODE_MEMORY * self.SHARE // 200, pace, preferred_node=node
            )
            yield budget(app, 1)
            yield deployment(app, self.AT_REST, template)

    async def run(self, demo: Demo) -> None:
        """One grows, its node is relieved, and it shrinks again while the next one grows."""
        last = ""
        for app, node in self._places(len(demo.state.nodes())):
            await demo.pause(f"{app} grows on {node}", 6.0)
            if last:
                await demo.actions.scale(last, self.AT_REST)
            await self._grow(demo, app, node)
            await demo.wait_until(
                f"{node} is below its thresholds", lambda: demo.nothing_moves() and not demo.state.picture().hot_nodes
            )
            demo.report(f"{node} is below its thresholds, and no node is hot")
            last = app
        await demo.actions.scale(last, self.AT_REST)

    async def _grow(self, demo: Demo, app: str, node: str) -> None:
        def has_placed(count: int) -> bool:
            return sum(bool(pod.node) for pod in demo.state.pods() if pod.labels.get("app") == app) >= count

        used = next(load.cpu for load in demo.state.picture().loads if load.node == node)
        wanted = self.AT_REST + max(1, math.ceil((self.HOT - used) / self.SHARE))
        while not demo.state.picture().hot_nodes:
            demo.report(f"{app} grows to {wanted} pods and prefers {node}")
            await demo.actions.scale(app, wanted)
            await demo.wait_until(f"{app} has {wanted} pods", partial(has_placed, wanted))
            wanted += 1

    def _places(self, nodes: int) -> Iterator[tuple[str, str]]:
        for number, app in enumerate(self.APPS):
            yield app, f"node-{number * nodes // len(self.APPS)}"


class Maintenance(Scenario):
    """Reached when the node was empty but for its DaemonSet's pod, and takes pods again."""

    name = "maintenance"
    goal = "the node was emptied and is schedulable again"

    async def run(self, demo: Demo) -> None:
        """Maintenance of the node with the most pods."""
        state = demo.state
        open_nodes = [node.name for node in state.nodes() if not node.unschedulable]
        name = max(open_nodes, key=lambda each: len(state.pods_on(each)))

        def cordoned() -> bool:
            node = state.node(name)
            return node is not None and node.unschedulable

        await demo.pause(f"{name} is labelled for maintenance", 5.0)
        demo.report(f"{name} is labelled for maintenance")
        await demo.actions.label_node(name, labels.MAINTENANCE, "true")
        await demo.wait_until(f"{name} is cordoned", cordoned)
        demo.report(f"{name} is cordoned")
        await demo.wait_until(
            f"{name} is empty", lambda: all(pod.labels.get("app") == AGENT for pod in state.pods_on(name))
        )
        demo.report(f"{name} is empty: maintenance can begin")
        await demo.pause(f"maintenance of {name} ends", 5.0)
        demo.report(f"the maintenance label of {name} is removed")
        await demo.actions.label_node(name, labels.MAINTENANCE, None)
        await demo.wait_until(f"{name} is schedulable again", lambda: not cordoned())
        demo.report(f"{name} is schedulable again")


class FailingNode(Scenario):
    """Reached when all pods of the two workloads are ready, none on the bad node, and the failures are on record.

    The node is empty, so the scheduler prefers it for the pods of a workload that is scaled up. The webhook keeps the
    pods off it that replace those that failed.
    """

    APPS: ClassVar[tuple[str, ...]] = ("orders", "payments")
    FIRST: ClassVar[int] = 3
    GROWN: ClassVar[int] = 6
    PREFIX: ClassVar[str] = "faulty"

    name = "failing-node"
    goal = "every pod that crashed runs on another node"
    repeats = False
    spared = frozenset(APPS)

    def layout(self, size: Size) -> Layout:
        """One node less: the bad one joins later."""
        return Layout(size.nodes - 1, 0, 50.0)

    def config(self) -> dict[str, object]:
        """Failures count soon. Nothing is balanced, else other pods would be moved onto the new node, too."""
        return {
            "enabledStrategies": ("NodeMaintenance", "ResourceOptimization"),
            "recovery.crashRestarts": 2,
            "recovery.delay": "0s",
            "recovery.sameNodeDelay": "5s",
        }

    def workloads(self, size: Size, pace: Pace) -> Iterator[Json]:
        """Two Deployments with scheduling-retries that crash on that node."""
        bad = f"{self.PREFIX}-{size.nodes - 1}"  # nodes are numbered on
        failing = {"fails": "CrashLoopBackOff", "fails-on": bad, "restarts-every": pace.text(2.0, 0.3)}
        for app in self.APPS:
            yield budget(app, 1)
            template = Template(NODE_CPU * 3 // 100, 64, pace, failing)
            yield deployment(app, self.FIRST, template, **{labels.SCHEDULING_RETRIES: "3"})

    async def run(self, demo: Demo) -> None:
        """The node joins, both workloads grow onto it, crash, and recover elsewhere."""
        apps = " and ".join(self.APPS)
        await demo.pause("a broken node joins", 5.0)
        (bad,) = await demo.cluster.add_nodes(1, prefix=self.PREFIX)
        demo.report(f"{bad} joins; pods of {apps} crash on it")
        await demo.wait_until(f"{bad} is ready", lambda: demo.state.is_ready(bad))
        await demo.pause(f"{apps} are scaled up", 4.0)
        for app in self.APPS:
            demo.report(f"{app} is scaled from {self.FIRST} to {self.GROWN}")
            await demo.actions.scale(app, self.GROWN)
        await demo.wait_until(f"pods fail on {bad}", lambda: all(self._has_record(demo, app, bad) for app in self.APPS))
        demo.report(f"pods failed on {bad}; it is recorded, and new pods avoid it")
        await demo.wait_until(f"all pods run, and none on {bad}", lambda: self._recovered(demo, bad))
        demo.report(f"all pods of {apps} run, and none of them on {bad}")

    def _has_record(self, demo: Demo, app: str, node: str) -> bool:
        """Whether the workload's record of failures has the node."""
        body = demo.cluster.api.find(DEPLOYMENT, (NAMESPACE, app)) or {"metadata": {}}
        record = json.loads(body["metadata"].get("annotations", {}).get(labels.FAILURES, "{}"))
        return node in record.get("nodes", {})

    def _recovered(self, demo: Demo, bad: str) -> bool:
        pods = [pod for pod in demo.state.pods() if pod.labels.get("app") in self.APPS]
        return len(pods) == self.GROWN * len(self.APPS) and all(pod.ready and pod.node != bad for pod in pods)


class Chaos(Scenario):
    """Reached when, after all faults, every workload is complete, nothing moves, and nothing is left behind."""

    name = "chaos"
    goal = "every pod runs, no budget was violated, and nothing is left behind"

    def layout(self, size: Size) -> Layout:
        """Crowded, so that there is something to move, but with room for the pods of lost nodes."""
        first = max(2, round(size.nodes / 2))
        return Layout(first, size.nodes - first, Balance.CROWDED - 20.0)

    async def run(self, demo: Demo) -> None:
        """Fault after fault, then none, until everything has recovered."""
        demo.churn.paused = False
        for what, faults in (
            ("a kubelet dies", [self._stop_kubelet]),
            ("the controller is killed", [self._kill_controller]),
            ("a node joins, and another one is gone", [self._replace_node]),
            ("the controller is killed", [self._kill_controller]),
            ("a kubelet dies, and the controller with it", [self._kill_controller, self._stop_kubelet]),
        ):
            await demo.pause(what, 8.0)
            for fault in faults:
                await fault(demo)
        demo.report("no more faults; the cluster recovers")
        demo.churn.paused = True
        store = demo.cluster.api.store
        await demo.wait_until("every workload has all its pods", lambda: not find_incomplete(store))
        await demo.wait_until("no moves are left", demo.nothing_moves)
        await demo.wait_until(
            "nothing of the moves is left behind",
            lambda: demo.nothing_moves() and not find_leftovers(store) and not find_incomplete(store),
        )
        demo.report("every pod runs, and nothing is left behind")

    async def _stop_kubelet(self, demo: Demo) -> None:
        name = self._busiest(demo.state)
        demo.report(f"the kubelet of {name} dies")
        await demo.actions.label_node(name, KUBELET_LABEL, Kubelet.DEAD.value)
        await demo.wait_until(f"{name} is not ready", lambda: not demo.state.is_ready(name))
        demo.report(f"{name} is not ready")
        await demo.pause(f"the kubelet of {name} comes back", 6.0)
        await demo.actions.label_node(name, KUBELET_LABEL, None)
        await demo.wait_until(f"{name} is back", lambda: demo.state.is_ready(name))
        demo.report(f"{name} is back")

    async def _kill_controller(self, demo: Demo) -> None:
        demo.report("the controller is killed")
        starts = demo.supervisor.starts
        demo.supervisor.kill()
        await demo.wait_until("another controller begins", lambda: demo.supervisor.starts > starts)

    async def _replace_node(self, demo: Demo) -> None:
        (new,) = await demo.cluster.add_nodes(1)
        demo.report(f"{new} joins")
        name = self._busiest(demo.state)
        demo.report(f"{name} is gone, with all its pods")
        await demo.actions.delete(NODE, name)

    def _busiest(self, state: ClusterState) -> str:
        ready = [node.name for node in state.nodes() if node.ready]
        return max(ready, key=lambda name: (len(state.pods_on(name)), name))


SCENARIOS: dict[str, type[Scenario]] = {each.name: each for each in (Balance, Hotspot, Maintenance, FailingNode, Chaos)}
