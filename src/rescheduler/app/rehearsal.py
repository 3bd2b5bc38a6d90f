"""`rescheduler run --dry-run`: watches and plans as the controller does, tells what it would move, writes nothing."""

from __future__ import annotations

import asyncio

import structlog

from rescheduler.app.controller import Running
from rescheduler.app.cycling import cycle_of
from rescheduler.cluster.client import ApiClient
from rescheduler.model.plan import Move
from rescheduler.runtime.controller import before, beside
from rescheduler.runtime.duties import Duty
from rescheduler.runtime.watching import MIGRATIONS, WATCHED, Watching
from rescheduler.web.metrics import Metrics

_log = structlog.stdlib.get_logger(__name__)


async def rehearse(running: Running, stop: asyncio.Event) -> None:
    """Plan until asked to stop, or with `once` a single time."""
    connection = running.live.connection()
    async with ApiClient(connection, request_timeout=running.live.request_timeout) as client:
        served = asyncio.ensure_future(_is_served(client))
        if not await before(served, stop):
            return
        known = (*WATCHED, MIGRATIONS) if served.result() else WATCHED
        watching = Watching(client, connection.source, known)
        cycle = cycle_of(watching, running.config.policy(), Metrics())

        async def tell() -> None:
            if stop.is_set():
                return  # with `once`, its time may have come again before the loops have ended
            if stale := watching.stale():
                _log.warning("nothing is planned on what may be out of date", why=stale)
                return
            for move in (await cycle.plan()).moves:
                _tell(move)
            if running.once:
                stop.set()

        async with beside(watching.run()) as following:
            if await before(watching.synced(), stop, following):
                duty = Duty("plan", running.config.fields.rescheduling_interval, tell)
                await before(duty.run(), stop, following)


def _tell(move: Move) -> None:
    _log.info(
        "would move",
        pod=f"{move.namespace}/{move.pod}",
        source=move.source,
        target=move.target,
        method=move.method.value,
        strategy=move.strategy,
        reason=move.reason,
    )


async def _is_served(client: ApiClient) -> bool:
    """Whether the cluster knows migrations; it need not, where nothing is moved."""
    return await client.find(f"/apis/{MIGRATIONS.api_version}") is not None
