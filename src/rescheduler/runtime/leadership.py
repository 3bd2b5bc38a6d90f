"""Leads for as long as one piece of work takes: for commands that must not run beside a controller.

The work begins when we hold the lease, is stopped at once when that is lost, and the lease is given up after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from rescheduler.kube.errors import ClusterError
from rescheduler.kube.lease import Election

Result = TypeVar("Result")


class HeldError(ClusterError):
    """Somebody else leads."""

    def __init__(self, election: Election) -> None:
        name = f"{election.lease.namespace}/{election.lease.name}"
        holder = election.holder or "somebody else"
        super().__init__(f"a controller is running: Lease {name} is held by {holder}; stop it first (scale it to 0)")


async def while_leading(elections: Sequence[Election], patience: float, work: Coroutine[Any, Any, Result]) -> Result:
    """What the work gives; HeldError if one of the leases is not to be had within so many seconds."""
    running = [asyncio.ensure_future(election.run()) for election in elections]
    working: asyncio.Task[Result] | None = None
    try:
        await _all_lead(elections, patience)
        working = asyncio.create_task(work)
        done, _ = await asyncio.wait([working, *running], return_when=asyncio.FIRST_COMPLETED)
        if working in done:
            return working.result()
        raise ClusterError("the lease was lost in the middle; run it again")
    finally:
        if working is None:
            work.close()
        ending: list[asyncio.Future[Any]] = [*running, *((working,) if working is not None else ())]
        for each in ending:
            each.cancel()
        await asyncio.wait(ending)
        for election in elections:
            await election.release()


async def _all_lead(elections: Sequence[Election], patience: float) -> None:
    try:
        async with asyncio.timeout(patience):
            for election in elections:
                await election.leading.wait()
    except TimeoutError:
        held = next(each for each in elections if not each.leading.is_set())
        raise HeldError(held) from None
