"""What the loops' tests are about: migrations of pods in namespace `shop`, and a loop whose time jumps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from structlog.testing import capture_logs

from rescheduler.model.migration import Migration, Order, Phase, Progress, Reference
from rescheduler.model.plan import Method
from tests.support.virtual_time import VirtualLoop

NOW = 1_800_000_000.0
WEB = Reference("Deployment", "web", "web-uid")
WEB_SET = Reference("ReplicaSet", "web-1", "web-1-uid")


def in_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test to its end; one that waits for an hour of its time waits in vain."""

    async def bounded() -> None:
        async with asyncio.timeout(3600.0):
            await test()

    with capture_logs(), asyncio.Runner(loop_factory=VirtualLoop) as runner:  # writing a traceback takes a second
        runner.run(bounded())


def clock() -> float:
    return asyncio.get_running_loop().time()


def pending(name: str, pod: str = "", *, order: Order | None = None, version: str = "1", **progress: Any) -> Migration:
    """Ordered, and not begun."""
    known = Progress(**progress)
    return Migration("shop", name, order or Order(pod or f"pod-{name}"), known, f"{name}-uid", version, NOW)


def under_way(name: str, pod: str = "", **more: Any) -> Migration:
    """Begun: from node one to node two, unless it is said otherwise."""
    known: dict[str, Any] = {"phase": Phase.IN_PROGRESS, "method": Method.HANDOFF, "source": "one", "target": "two"}
    return pending(name, pod, **(known | more))


def over(name: str, pod: str = "", *, failed: bool = False, **more: Any) -> Migration:
    """Ended at NOW."""
    known: dict[str, Any] = {"phase": Phase.FAILED if failed else Phase.COMPLETED, "finished": NOW}
    return pending(name, pod, **(known | more))
