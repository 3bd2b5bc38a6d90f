"""Failing node: a new node joins on which pods crash; workloads with `scheduling-retries` recover elsewhere.

The node is empty, so the scheduler likes it best: what is scaled up lands there. The webhook keeps the pods off it that
are made in place of those that failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import ClassVar

from kubemini.kinds import DEPLOYMENT
from rescheduler.model import marks
from rescheduler_demo.manifests import SPACE, Json, Template, budget, deployment
from rescheduler_demo.pace import Pace
from rescheduler_demo.scenario import Director, Layout, Scenario
from rescheduler_demo.workload import NODE_CPU, Size

_APPS = ("orders", "payments")
_AT_FIRST, _GROWN = 3, 6
_PREFIX = "faulty"


class FailingNode(Scenario):
    """Reached when all pods of the two workloads are Ready, none on the bad node, and the failures are on record."""

    name: ClassVar[str] = "failing-node"
    about: ClassVar[str] = "pods crash on a new node; workloads that ask for it recover elsewhere"
    goal: ClassVar[str] = "every pod that crashed runs on another node"
    again: ClassVar[bool] = False
    spared: ClassVar[frozenset[str]] = frozenset(_APPS)

    def layout(self, size: Size) -> Layout:
        """One node less than wanted: the bad one comes later."""
        return Layout(size.nodes - 1, 0, 50.0)

    def config(self, pace: Pace) -> dict[str, object]:
        """Failures count soon. Nothing is balanced, else the others' pods would be moved onto the new node, too."""
        return {
            "enabledStrategies": ("NodeMaintenance", "ResourceOptimization"),
            "recovery.crashRestarts": 2,
            "recovery.delay": "0s",
            "recovery.sameNodeDelay": "5s",
        }

    def workloads(self, size: Size, pace: Pace) -> Iterator[Json]:
        """Two Deployments that ask for retries, and crash on that node."""
        failing = {"fails": "CrashLoopBackOff", "fails-on": _bad(size), "restarts-every": pace.text(2.0, 0.3)}
        for app in _APPS:
            yield budget(app, 1)
            template = Template(NODE_CPU * 3 // 100, 64, pace, failing)
            yield deployment(app, _AT_FIRST, template, **{marks.SCHEDULING_RETRIES: "3"})

    async def play(self, director: Director) -> None:
        """The node joins, both workloads grow onto it, crash, and are brought elsewhere."""
        await director.pause("a new node joins; nobody knows that it is broken", 5.0)
        (bad,) = await director.cluster.add_nodes(1, prefix=_PREFIX)
        director.tell(f"{bad} joins; pods of {' and '.join(_APPS)} crash on it")
        await director.until(f"{bad} is ready", lambda: _ready(director, bad))
        await director.pause(f"{' and '.join(_APPS)} are scaled up", 4.0)
        for app in _APPS:
            director.tell(f"somebody scales {app} from {_AT_FIRST} to {_GROWN}")
            await director.hands.scale(app, _GROWN)
        await director.until(f"pods fail on {bad}", lambda: _recorded(director, bad) >= len(_APPS))
        director.tell(f"pods have failed on {bad}; it is on record, and new ones are kept off it")
        await director.until(f"all pods run, and none on {bad}", lambda: _recovered(director, bad))
        director.tell(f"all pods of {' and '.join(_APPS)} run, and none of them on {bad}")


def _bad(size: Size) -> str:
    """What the node will be called: nodes are numbered on."""
    return f"{_PREFIX}-{size.nodes - 1}"


def _ready(director: Director, name: str) -> bool:
    node = director.scenery.node(name)
    return node is not None and node.ready


def _recorded(director: Director, bad: str) -> int:
    """How many of the workloads have the node on their record of failures."""
    found = 0
    for app in _APPS:
        body = director.cluster.api.find(DEPLOYMENT, (SPACE, app)) or {"metadata": {}}
        kept = json.loads(body["metadata"].get("annotations", {}).get(marks.FAILURES, "{}"))
        found += bad in kept.get("nodes", {})
    return found


def _recovered(director: Director, bad: str) -> bool:
    pods = [pod for pod in director.scenery.pods() if pod.labels.get("app") in _APPS]
    return len(pods) == _GROWN * len(_APPS) and all(pod.ready and pod.node != bad for pod in pods)
