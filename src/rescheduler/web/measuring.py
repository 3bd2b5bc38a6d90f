"""Has the page go by what is measured: looks every second whether there is something new, and has it summed.

`app.page` makes it, `api` runs it beside the page's pulse. What is measured is taken from a copy of the cluster in a
thread, as a plan takes it; `loads` then sums it by node, in pieces.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.runtime.metering import Metering
from rescheduler.web.loads import Loads

_log = structlog.stdlib.get_logger(__name__)
_LOOKS = 1.0  # seconds between looks
_RENEWED = 30.0  # seconds after which it is taken anew even if nothing was measured: what is too old must not stay

Copied = Callable[[], Callable[[], ClusterSnapshot]]


class Measuring:
    """What the loads go by. `copied` copies the cluster; `metering` gives whoever measures, None where nobody does."""

    def __init__(self, loads: Loads, copied: Copied, metering: Callable[[], Metering | None]) -> None:
        self._loads = loads
        self._copied = copied
        self._metering = metering
        self._seen: tuple[Metering | None, float | None] = (None, None)
        self._at = 0.0

    async def run(self) -> None:
        """Look until cancelled. What goes wrong once is tried again."""
        while True:
            await asyncio.sleep(_LOOKS)
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - as said
                _log.exception("the page could not take what is measured: a bug of ours")

    async def look(self) -> None:
        """Take what is measured, if there is anything new."""
        metering = self._metering()
        seen, now = (metering, metering.last if metering is not None else None), time.monotonic()
        if seen == self._seen and (metering is None or now - self._at < _RENEWED):
            return
        self._seen, self._at = seen, now
        if metering is None or metering.last is None:  # nobody measures, or nobody has answered yet
            await self._loads.measure_by(None)
            return
        copied = self._copied()
        measured = await asyncio.to_thread(lambda: metering.measured(copied()).measured)
        await self._loads.measure_by(measured)

    def again(self) -> None:
        """Take it anew at the next look: the operator wants something else by now."""
        self._seen = (None, None)
        self._at = 0.0
