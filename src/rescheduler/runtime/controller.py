"""The life of the controller: sync the caches, become the leader, run the leader's tasks, and shut down cleanly.

Every replica watches and serves; only the leader writes. When the lead is lost, everything stops at once and the
process ends, so that two leaders never act at the same time. At shutdown no move starts any more, moves in a delicate
step get time to leave it, and the lease is released.
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
    """Another replica leads, or may lead: nothing may be written any more."""


class Runnable(Protocol):
    """Runs until cancelled."""

    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Controller:
    """The parts of a running controller."""

    informers: Informers
    election: LeaderElector | None
    """None where there is only one replica."""
    gate: StartGate
    migrations: MigrationController
    startup_tasks: Sequence[PeriodicTask]
    """Run once, in this order, when the lead is taken, before anything is moved."""
    leader_tasks: Sequence[Runnable]
    shutdown_tasks: Sequence[PeriodicTask]
    """Run once, after everything else has stopped."""
    grace: Callable[[], float]
    """Seconds that moves in a delicate step get at shutdown."""
    replica_tasks: Sequence[Runnable] = ()
    """Run on every replica once the caches are synced, leader or not."""

    async def run(self, stop: asyncio.Event) -> None:
        """Run until stopped; raise LeadershipLostError if the lead is lost."""
        async with run_beside(self.informers.run()) as following:
            if not await finish_before(self.informers.wait_for_sync(), stop, following):
                return
            async with run_beside(run_all(loop.run() for loop in self.replica_tasks)) as serving:
                # Without tasks it ends at once, which is no reason to stop.
                others = (following, serving) if self.replica_tasks else (following,)
                async with self._leading(stop, *others) as lost:
                    if not stop.is_set():
                        await self._lead(stop, *others, lost)

    async def _lead(self, stop: asyncio.Event, *others: asyncio.Future[Any]) -> None:
        for task in self.startup_tasks:
            if not await finish_before(task.run_once(), stop, *others):
                return
        async with run_beside(self.migrations.run()) as carrying:
            async with run_beside(run_all(task.run() for task in self.leader_tasks)) as tasks:
                await finish_before(stop.wait(), stop, carrying, tasks, *others)
            grace = self.grace()
            _log.info("shutting down, no new moves start", grace=grace)
            self.gate.open = False
            await finish_before(self.migrations.drain(grace), None, carrying, *others)
        for task in self.shutdown_tasks:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await finish_before(task.run_once(), None, *others)

    @asynccontextmanager
    async def _leading(self, stop: asyncio.Event, *others: asyncio.Future[Any]) -> AsyncGenerator[asyncio.Future[Any]]:
        """Lead in the block, or find `stop` set; the yielded future ends when the lead is lost."""
        if self.election is None:
            yield asyncio.get_running_loop().create_future()
            return
        election = self.election
        try:
            async with run_beside(_until_lost(election)) as lost:
                _log.info("waiting for the lead", lease=election.lease.name, identity=election.lease.identity)
                if await finish_before(election.leading.wait(), stop, lost, *others):
                    _log.info("leading", lease=election.lease.name, identity=election.lease.identity)
                yield lost
        finally:
            await election.release()  # after an error, too: nothing writes any more


async def _until_lost(election: LeaderElector) -> None:
    await election.run()
    raise LeadershipLostError(f"lease {election.lease.name} is lost")


async def run_all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run tasks beside each other; the first that fails cancels the others, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


@asynccontextmanager
async def run_beside(work: Coroutine[Any, Any, None]) -> AsyncGenerator[asyncio.Task[None]]:
    """Run a task beside the block, and cancel it at the end of the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # its error was raised already


async def finish_before(work: Awaitable[Any], stop: asyncio.Event | None, *others: asyncio.Future[Any]) -> bool:
    """Return whether the work was finished before `stop`; raise the error of another task that ends first."""
    doing = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait()) if stop is not None else None
    mine = [doing] if stopping is None else [doing, stopping]
    try:
        done, _ = await asyncio.wait([*mine, *others], return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            if other in done:
                other.result()  # an error, or a task that should never end has ended
                raise RuntimeError("a part of the controller has ended by itself")
        if doing in done:
            doing.result()
        return doing in done and (stop is None or not stop.is_set())
    finally:
        for task in mine:
            task.cancel()
        await asyncio.wait(mine)
