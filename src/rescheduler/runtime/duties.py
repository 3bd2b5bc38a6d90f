"""Duties: what a leader does again and again, each in its own time, and at once when something calls for it.

One that fails is told of and done again; nothing that it meets ends the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from rescheduler.kube.errors import ClusterError

_log = structlog.stdlib.get_logger(__name__)
_TOGETHER = 0.2  # seconds; what calls several times in a row is answered once


@dataclass(frozen=True, slots=True)
class Duty:
    """Something to be done every so many seconds."""

    name: str
    every: float | Callable[[], float]
    """Asked each time, where the operator may change it."""
    do: Callable[[], Awaitable[object]]
    called: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by whoever wants it done sooner."""

    async def run(self) -> None:
        """Do it until cancelled; the time that it takes counts as time waited."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + (self.every() if callable(self.every) else self.every)
            self.called.clear()
            await self.once()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due - clock())):
                    await self.called.wait()
                    await asyncio.sleep(_TOGETHER)

    async def once(self) -> bool:
        """Do it; whether it went well."""
        try:
            await self.do()
        except ClusterError as error:
            _log.warning("a duty failed; done again", duty=self.name, why=str(error))
            return False
        except Exception:  # noqa: BLE001 - one bad object never stops the loop
            _log.exception("a bug of ours, or an object that makes no sense", duty=self.name)
            return False
        return True
