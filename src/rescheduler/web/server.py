"""Serves metrics and health over plain HTTP: `/metrics`, `/livez` and `/readyz`, the last with `?verbose`.

Every replica serves them, leader or not. `app` gives the checks: each answers why it is not fine, or nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
from aiohttp import web

from rescheduler.cluster.errors import ClusterError
from rescheduler.web.metrics import CONTENT_TYPE, Metrics

_log = structlog.stdlib.get_logger(__name__)
_LAST_ANSWERS = 2.0  # seconds for what is being answered when we end
Check = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Pages:
    """What is served."""

    metrics: Metrics
    ready: Mapping[str, Check] = field(default_factory=dict)
    """By name, what must be fine before we are ready."""

    def application(self) -> web.Application:
        """As aiohttp serves it."""
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/livez", self._live)
        app.router.add_get("/readyz", self._ready)
        return app

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def _live(self, request: web.Request) -> web.Response:
        """That this is answered at all shows that the loop goes round."""
        return web.Response(text="ok")

    async def _ready(self, request: web.Request) -> web.Response:
        found = {name: check() for name, check in self.ready.items()}
        fine = not any(found.values())
        if fine and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [f"[{'-' if why else '+'}]{name} {f'failed: {why}' if why else 'ok'}" for name, why in found.items()]
        lines.append("readyz check passed" if fine else "readyz check failed")
        return web.Response(text="\n".join(lines) + "\n", status=200 if fine else 503)


@asynccontextmanager
async def serving(pages: Pages, address: str, port: int) -> AsyncGenerator[int]:
    """Serve in the block; gives the port, which with 0 is a free one."""
    runner = web.AppRunner(pages.application(), access_log=None, shutdown_timeout=_LAST_ANSWERS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address, port)
        try:
            await site.start()
        except OSError as error:
            why = error.strerror or error
            raise ClusterError(f"web: cannot listen on {address}:{port}: {why}; configure another port") from error
        bound: int = runner.addresses[0][1]
        _log.info("serving metrics and health", address=address, port=bound)
        yield bound
    finally:
        await runner.cleanup()
