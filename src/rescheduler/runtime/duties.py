"""Duties: what a leader does again and again, each in its own time; one that fails is told of and done again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from rescheduler.cluster.errors import ClusterError

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Duty:
    """Something to be done every so many seconds."""

    name: str
    every: float
    do: Callable[[], Awaitable[object]]

    async def run(self) -> None:
        """Do it until cancelled; the time that it takes counts as time waited."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + self.every
            await self.once()
            await asyncio.sleep(max(0.0, due - clock()))

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
