"""The HTTP server for metrics, health, the page and its API, with strict security headers on every response.

Every replica serves them, leader or not. `app` provides the readiness checks, each of which returns why it fails or
nothing, and the routes of the page (`api`) and of its buttons (`actions`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import structlog
from aiohttp import http_exceptions, web
from aiohttp.typedefs import Middleware
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from rescheduler.kube.errors import ClusterError
from rescheduler.runtime.logs import make_wire_logger
from rescheduler.web.auth import RequestChecks
from rescheduler.web.metrics import Metrics
from rescheduler.web.responses import errors

_log = structlog.stdlib.get_logger(__name__)
_wire_log = make_wire_logger(f"{__name__}.wire", http_exceptions.HttpProcessingError)
_LAST_ANSWERS = 2.0  # seconds for open requests at the end
_CONNECTIONS = 500
_LONGEST_HEADER = 32 * 1024  # bytes: some tokens carry all groups of a user
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "rescheduler",  # instead of the versions of libraries
}
Check = Callable[[], str]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Routes(Protocol):
    """A part that adds its own routes."""

    def install(self, app: web.Application) -> None:
        """Add its routes."""


@dataclass(frozen=True, slots=True)
class WebApp:
    """Everything that is served."""

    metrics: Metrics
    ready: Mapping[str, Check] = field(default_factory=dict)
    """The checks of `/readyz`, by name."""
    parts: Sequence[Routes] = ()
    access: RequestChecks = field(default_factory=RequestChecks)

    def make_application(self) -> web.Application:
        """Build the application."""
        app = web.Application(middlewares=[errors, _host_check(self.access)])
        app.on_response_prepare.append(_strict)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/livez", self._live)
        app.router.add_get("/readyz", self._ready)
        for part in self.parts:
            part.install(app)
        return app

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _live(self, request: web.Request) -> web.Response:
        """Any answer shows that the event loop runs."""
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
async def serve(pages: WebApp, address: str, port: int) -> AsyncGenerator[int]:
    """Serve in the block; yields the port, which for 0 is a free one."""
    runner = web.AppRunner(pages.make_application(), shutdown_timeout=_LAST_ANSWERS)
    await runner.setup()
    try:
        assert runner.server is not None  # noqa: S101 - the runner has been set up
        try:
            listener = await asyncio.get_running_loop().create_server(_make_factory(runner.server), address, port)
        except OSError as error:
            why = error.strerror or error
            raise ClusterError(f"web: cannot listen on {address}:{port}: {why}; configure another port") from error
        try:
            bound: int = listener.sockets[0].getsockname()[1]
            _log.info("serving the page, metrics and health", address=address, port=bound)
            yield bound
        finally:
            listener.close()
    finally:
        await runner.cleanup()


def _make_factory(server: web.Server) -> Callable[[], web.RequestHandler]:
    """Accept connections, but close the oldest when there are too many, so that one client cannot keep others out.

    A page that loses its stream of events this way reconnects by itself.
    """
    loop = asyncio.get_running_loop()

    def accept() -> web.RequestHandler:
        for oldest in server.connections[: 1 - _CONNECTIONS]:
            oldest.force_close()
        return _Connection(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # None is allowed, though the type does not say so
            logger=_wire_log,
            max_field_size=_LONGEST_HEADER,
        )

    return accept


class _Connection(web.RequestHandler):
    """One connection. Input that is not HTTP never reaches the application, and gets the same headers."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        response = super().handle_error(request, status, exc, message)
        _make_strict(response)
        return response


def _host_check(access: RequestChecks) -> Middleware:
    @web.middleware
    async def check_host(request: web.Request, handler: Handler) -> web.StreamResponse:
        access.check_host(request)
        return await handler(request)

    return check_host


async def _strict(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers before anything is sent; streams have no other moment."""
    _make_strict(response)
    if request.path.startswith("/api"):
        response.headers.setdefault("Cache-Control", "no-store")


def _make_strict(response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
