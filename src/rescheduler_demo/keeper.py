"""Keeps the real controller running in the demo, as Kubernetes would: killed or ended, it is started again.

The controller is the one of `rescheduler run`, in this event loop instead of a process of its own. Scenarios may have
it killed: from one moment to the next nothing of it acts any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

from rescheduler.app.connecting import Live
from rescheduler.app.controller import Running, run_controller
from rescheduler.config import Configuration
from rescheduler.runtime.controller import LeadLostError

_PAUSE = 1.0  # seconds before it is started again, so that one that cannot run does not do so in circles
Opened = Callable[[str], None]


class Keeper:
    """Runs one controller after another; the page stays at the port at which it was first."""

    def __init__(self, live: Live, config: Configuration, port: int, opened: Opened) -> None:
        self._live = live
        self._config = config
        self._port = port
        self._opened = opened
        self._killed = asyncio.Event()
        self.starts = 0

    def kill(self) -> None:
        """End the controller at once."""
        self._killed.set()

    async def run(self) -> None:
        """Keep one running, until cancelled."""
        while True:
            self._killed.clear()
            self.starts += 1
            await self._one()
            await asyncio.sleep(_PAUSE)

    async def _one(self) -> None:
        """One controller, until it is killed or has lost its lease."""
        running = Running(self._live, self._config, insecure_local=True, port=self._port, opened=self._remembered)
        working = asyncio.create_task(run_controller(running, asyncio.Event()), name="controller")
        killed = asyncio.create_task(self._killed.wait())
        try:
            await asyncio.wait([working, killed], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, killed):
                task.cancel()
            await asyncio.wait([working, killed])
        if not working.cancelled() and not isinstance(working.exception(), LeadLostError):
            working.result()  # an error that ends the demo

    def _remembered(self, address: str) -> None:
        first = not self._port or self.starts == 1
        self._port = urlsplit(address).port or self._port
        if first:
            self._opened(address)
