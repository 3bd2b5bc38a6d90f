"""How fast requests may follow each other: a bucket of `burst` turns that fills up with `qps` turns a second.

`client.py` asks for a turn before each request when it is given a Pace (clientConnection in the configuration). Turns
are given in the order in which they were asked for. Clock and sleep are its only ways to time, so that a test gives it
its own.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """The bucket. It is kept as the time at which it will be full again, so there is nothing to refill."""

    qps: float
    burst: int
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _full_at: float = float("-inf")

    async def turn(self) -> None:
        """Comes back when a request may be sent. Whoever is cancelled meanwhile gives the turn back."""
        now = self.clock()
        self._full_at = max(self._full_at, now) + 1 / self.qps
        wait = self._full_at - self.burst / self.qps - now
        if wait <= 0:
            return
        try:
            await self.sleep(wait)
        except asyncio.CancelledError:
            self._full_at -= 1 / self.qps
            raise
