"""The controller's life: know the cluster, become the leader, do a leader's duties, and end without leaving a mess.

`app` puts its parts together. Everybody watches and answers; only the leader acts. When the lead is lost everything
stops at once and the process ends, so that its successor finds nobody beside it. Asked to end, it begins nothing new,
brings what is in a delicate step to a better one, and gives the lease up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from rescheduler.kube.lease import LeaderElector
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.migration_controller import MigrationController
from rescheduler.runtime.reconciler import PeriodicTask
from rescheduler.runtime.starting.gate import StartGate

_log = structlog.stdlib.get_logger(__name__)


class LeadershipLostError(Exception):
    """Somebody else leads, or may: nothing may be done any more."""


class Runnable(Protocol):
    """Something that is done for as long as we live, or lead."""

    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Controller:
    """The parts of a running controller."""

    watching: Informers
    election: LeaderElector | None
    """None where there is only one replica."""
    gatekeeper: StartGate
    carrier: MigrationController
    first: Sequence[PeriodicTask]
    """Done once, in this order, when the lead is taken: before anything is moved."""
    duties: Sequence[Runnable]
    last: Sequence[PeriodicTask]
    """Done once, when everything else has come to rest."""
    grace: Callable[[], float]
    """Seconds for which moves in a delicate step are waited for at the end."""
    everybody: Sequence[Runnable] = ()
    """What every replica does once it knows the cluster, whether it leads or not."""

    async def run(self, stop: asyncio.Event) -> None:
        """Live until asked to stop; LeadLostError if the lead is lost."""
        async with run_beside(self.watching.run()) as following:
            if not await finish_before(self.watching.wait_for_sync(), stop, following):
                return
            async with run_beside(_all(loop.run() for loop in self.everybody)) as serving:
                # With nothing to do it has ended at once, which is no reason to end.
                others = (following, serving) if self.everybody else (following,)
                async with self._leading(stop, *others) as lost:
                    if not stop.is_set():
                        await self._lead(stop, *others, lost)

    async def _lead(self, stop: asyncio.Event, *others: asyncio.Future[Any]) -> None:
        for duty in self.first:
            if not await finish_before(duty.run_once(), stop, *others):
                return
        async with run_beside(self.carrier.run()) as carrying:
            async with run_beside(_all(duty.run() for duty in self.duties)) as on_duty:
                await finish_before(stop.wait(), stop, carrying, on_duty, *others)
            grace = self.grace()
            _log.info("ending: nothing new is begun", grace=grace)
            self.gatekeeper.open = False
            await finish_before(self.carrier.drain(grace), None, carrying, *others)
        for duty in self.last:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await finish_before(duty.run_once(), None, *others)

    @asynccontextmanager
    async def _leading(self, stop: asyncio.Event, *others: asyncio.Future[Any]) -> AsyncGenerator[asyncio.Future[Any]]:
        """Be the leader in the block, or find `stop` set; what it gives ends when the lead is lost."""
        if self.election is None:
            yield asyncio.get_running_loop().create_future()
            return
        election = self.election
        try:
            async with run_beside(_until_lost(election)) as lost:
                _log.info("waiting to become the leader", lease=election.lease.name, identity=election.lease.identity)
                if await finish_before(election.leading.wait(), stop, lost, *others):
                    _log.info("leading", lease=election.lease.name, identity=election.lease.identity)
                yield lost
        finally:
            await election.release()  # after an error, too: nothing of ours acts any more


async def _until_lost(election: LeaderElector) -> None:
    await election.run()
    raise LeadershipLostError(f"lease {election.lease.name} is lost")


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None  # the first to fail has ended the others


@asynccontextmanager
async def run_beside(work: Coroutine[Any, Any, None]) -> AsyncGenerator[asyncio.Task[None]]:
    """Something that goes on beside the block, and ends with it."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # whoever waited for it has heard of it already


async def finish_before(work: Awaitable[Any], stop: asyncio.Event | None, *others: asyncio.Future[Any]) -> bool:
    """Whether work was done before we were asked to stop; if one of the others ends first, its error is raised."""
    doing = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait()) if stop is not None else None
    mine = [doing] if stopping is None else [doing, stopping]
    try:
        done, _ = await asyncio.wait([*mine, *others], return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            if other in done:
                other.result()  # an error, or something that should never end has
                raise RuntimeError("a part of the controller has ended by itself")
        if doing in done:
            doing.result()
        return doing in done and (stop is None or not stop.is_set())
    finally:
        for task in mine:
            task.cancel()
        await asyncio.wait(mine)
