"""Scenes for the tests of the demo's views: so many nodes, this full."""

from __future__ import annotations

from collections.abc import Sequence

from rescheduler.model.migration import Migration, Order, Phase, Progress
from rescheduler.model.plan import Method, NodeLoad, Picture, Spreading
from rescheduler.model.policy import Thresholds
from rescheduler_demo.scene import Coming, Moves, Scene


def picture(cpu: Sequence[float], memory: float = 20.0) -> Picture:
    loads = tuple(NodeLoad(f"node-{number}", load, memory, 3) for number, load in enumerate(cpu))
    spreading = Spreading(max(cpu, default=0.0), min(cpu, default=0.0), 30.0, 5.0)
    return Picture(spreading, Spreading(memory, memory, memory, 0.0), sum(load > 80 for load in cpu), loads)


def moving(pod: str, phase: Phase = Phase.IN_PROGRESS, step: str = "AwaitReady") -> Migration:
    progress = Progress(phase, step, Method.HANDOFF, source="node-0", target="node-1")
    return Migration("shop", f"move-{pod}", Order(pod, target="node-1"), progress)


def scene(before: Sequence[float] | None, now: Sequence[float], **changed: object) -> Scene:
    usual: dict[str, object] = {
        "elapsed": 65.0,
        "act": "the controller works",
        "now": picture(now),
        "before": None if before is None else picture(before),
        "thresholds": Thresholds(),
        "states": {},
        "pods": 40,
        "pending": 0,
        "moves": Moves(),
        "next_plan": 4.4,
        "paused": "",
        "coming": Coming("a kubelet dies", 8.0),
        "checked": 3,
        "broken": 0,
        "reached": False,
    }
    return Scene(**(usual | changed))  # type: ignore[arg-type] # a test names what it changes
