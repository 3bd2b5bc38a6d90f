"""An event loop whose time stands still while anything can be done, and jumps when all wait.

What takes an hour there takes a moment here, and takes exactly an hour of its time. For code that waits for nothing but
time and itself: a loop that waits for the network would spin.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from structlog.testing import capture_logs

P = ParamSpec("P")


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test to its end in such a loop; one that waits for an hour of its time waits in vain."""

    @functools.wraps(test)
    def run(*args: P.args, **options: P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(3600.0):
                await test(*args, **options)

        with capture_logs(), asyncio.Runner(loop_factory=VirtualLoop) as runner:  # writing a traceback takes a second
            runner.run(bounded())

    return run


def clock() -> float:
    """The time of the loop that runs."""
    return asyncio.get_running_loop().time()


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; its time begins at 0."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds since the beginning."""
        return self._jumping.now

    def freeze(self, seconds: float) -> None:
        """Time passes and nothing of the process runs, as after SIGSTOP."""
        self._jumping.now += seconds


class _Jumping(selectors.SelectSelector):
    """Never waits: the time goes on by as much as it would have."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found:
            assert timeout is not None, "all tasks wait, and nothing will ever happen"
            self.now += max(timeout, 0.0)
        return found
