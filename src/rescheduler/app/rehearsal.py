"""`rescheduler run --dry-run`: watches and plans as the controller does, tells what it would move, writes nothing."""

from __future__ import annotations

import asyncio
import time

import structlog

from rescheduler.app.controller import Running
from rescheduler.app.cycling import cycle_of
from rescheduler.app.meters import Meters
from rescheduler.app.rereading import following
from rescheduler.config.files import Origin
from rescheduler.kube.client import ApiClient
from rescheduler.model.plan import Move
from rescheduler.planning.streaks import Streaks
from rescheduler.runtime.controller import before, beside
from rescheduler.runtime.duties import Duty
from rescheduler.runtime.mandate import Mandate
from rescheduler.runtime.rereading import Audience
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
        mandate, metrics, streaks = Mandate(running.config, time.time()), Metrics(), Streaks()
        meters = Meters(mandate, client, lambda: watching.cache.rows("Pod"))
        watching.lay_over(meters.laid_over)
        if not running.once:  # one plan by itself has no cycles before it
            watching.lay_over(streaks.laid_over)

        async def tell() -> None:
            if stop.is_set():
                return  # with `once`, its time may have come again before the loops have ended
            await meters.heard()
            if stale := watching.stale():
                _log.warning("nothing is planned on what may be out of date", why=stale)
                return
            for move in (await cycle_of(watching, mandate.policy(), metrics, streaks).plan()).moves:
                _tell(move)
            if running.once:
                stop.set()

        async with beside(watching.run()) as watched:
            if await before(watching.synced(), stop, watched):
                duty = Duty("plan", lambda: mandate.config.fields.rescheduling_interval, tell)
                mandate.listen(duty.called.set)
                async with beside(_followed(running.origin, mandate)) as rereading, beside(meters.run()) as measuring:
                    await before(duty.run(), stop, watched, rereading, measuring)


async def _followed(origin: Origin | None, mandate: Mandate) -> None:
    """Go by the file as it changes; nobody is told but by the log."""
    if origin is not None:
        await following(origin, mandate, Audience(), time.time).run()
    await asyncio.get_running_loop().create_future()  # nothing to do is no reason to end


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
