"""The connections of our HTTP server: how many, which of them has to go, when the last one is closed, what is logged.

`server` is built on it; it stands between aiohttp, which reads and writes HTTP, and the answers.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

from aiohttp import http_exceptions, web

from rescheduler.admission.reviews import ReviewError
from rescheduler.kube.errors import ClusterError

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connections(web.Server):
    """The HTTP side of all connections: not too many, and it knows when the last one is closed."""

    def __init__(self, answer: Answer, most: int, **settings: Any) -> None:
        super().__init__(answer, **settings)
        self._most = most
        self._open: dict[web.RequestHandler, None] = {}  # the oldest first
        self._leaving: set[web.RequestHandler] = set()
        self._none = asyncio.Event()
        self._none.set()

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._open[handler] = None
        self._none.clear()
        if len(self._open) - len(self._leaving) > self._most:
            # Whoever holds many open to no purpose, or sends his requests byte by byte, must not keep others out: the
            # oldest has to go. What is answered is answered at once, so none of them is in the middle of that.
            leaving = next(each for each in self._open if each not in self._leaving)
            self._leaving.add(leaving)
            asyncio.get_running_loop().call_soon(leaving.force_close)  # aiohttp is still setting a new one up

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._open.pop(handler, None)
        self._leaving.discard(handler)
        if not self._open:
            self._none.set()

    async def none_left(self, seconds: float) -> None:
        """Wait for that, but not for longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._none.wait()


class _NoGarbage(logging.Filter):
    """What is no HTTP has been answered 400, or is cut off; anybody can send it, so it stays out of the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, http_exceptions.HttpProcessingError)


wire_log = logging.getLogger(__name__)
wire_log.addFilter(_NoGarbage())


Handler = Callable[[bytes], bytes]
_log = logging.getLogger(__name__)
_JSON = "application/json"
_HEALTHZ, _READYZ = "/healthz", "/readyz"
_LOOKS = ("GET", "HEAD")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Address(NamedTuple):
    """Where to listen; port 0 is any that is free."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How much the server takes, and how long it waits; sizes in bytes, times in seconds."""

    body: int = 4 * 2**20
    """The largest body: an object in etcd is at most 1.5 MiB, and a review of it carries little more."""
    bodies: Mapping[str, int] = field(default_factory=dict)
    """The same for single routes: a scheduler that sends whole nodes sends 12 KiB and more for each."""
    at_once: int = 256 * 2**20
    """All bodies that are being read or answered, together."""
    connections: int = 1000
    """More than three API servers have requests for; with TLS each takes a quarter of a MiB."""
    to_send: float = 30.0
    """For a body to arrive, and for an answer to be taken: the longest that the API server itself waits."""
    idle: float = 120.0
    """For a connection to bring a (next) request. Go keeps idle connections for 90 s, and does not repeat a POST that
    met a closing one; it also opens some that it has no request for yet. So this is longer."""
    handshake: float = 10.0
    drain: float = 5.0
    """At the end, for what is being answered."""
    linger: float = 1.0
    """At the end, for connections whose next answer tells the client not to use them again."""


class _HttpError(Exception):
    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        self.status, self.why, self.headers = status, why, headers


class AdmissionServer:
    """An async context manager: it listens in the block. `ready` says why it is not ready, or nothing.

    `report(route, status, seconds)` hears of every answer; paths that nobody serves are all the route "".
    """

    def __init__(
        self,
        routes: Mapping[str, Handler],
        tls: ssl.SSLContext | None,
        address: Address,
        manner: ServerLimits | None = None,
    ) -> None:
        self._routes = dict(routes)
        self._tls = tls
        self._wanted = address
        self._manner = manner or ServerLimits()
        self.ready: Callable[[], str] = lambda: ""
        self.report: Callable[[str, int, float], None] = lambda route, status, seconds: None
        self._held = 0  # bytes of bodies
        self._ending = False
        self._http: Connections | None = None
        self._listener: asyncio.Server | None = None

    @property
    def address(self) -> Address:
        """Where it listens."""
        if self._listener is None or not self._listener.sockets:
            raise RuntimeError("Server is used outside `async with`")
        return Address(*self._listener.sockets[0].getsockname()[:2])

    async def __aenter__(self) -> Self:
        manner, secure = self._manner, self._tls is not None
        self._http = Connections(
            self._answer,
            manner.connections,
            access_log=None,
            logger=wire_log,
            auto_decompress=False,  # nobody who calls us compresses, and a small body must stay small
            keepalive_timeout=manner.idle,
            lingering_time=min(2.0, manner.to_send),
        )
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                self._http,
                *self._wanted,
                ssl=self._tls,
                ssl_handshake_timeout=manner.handshake if secure else None,
                ssl_shutdown_timeout=manner.linger if secure else None,
            )
        except OSError as error:
            host, port = self._wanted
            raise ClusterError(
                f"cannot listen on {host}:{port}: {error.strerror}; configure another address"
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take no more connections, let those in use end with an answer that says so, then close what is idle."""
        assert self._http is not None and self._listener is not None  # noqa: S101, PT018 - as __aenter__ left it
        self._ending = True
        self._listener.close()
        await self._http.none_left(self._manner.linger)
        self._http.pre_shutdown()
        await self._http.shutdown(self._manner.drain)
        # Those are closed that had to be, but in TLS an end is a conversation, and not everybody answers.
        await self._http.none_left(2 * self._manner.linger)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        clock = asyncio.get_running_loop().time
        begun, path = clock(), request.path
        known = path in self._routes or path in (_HEALTHZ, _READYZ)
        response = await self._response(request, path)
        if self._ending or response.status >= 400:
            response.force_close()
        try:
            async with asyncio.timeout(self._manner.to_send):
                with suppress(ConnectionError):  # hung up: nobody is there to be answered
                    await response.prepare(request)
                    await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()  # it does not take its answer: nothing more can be said
        self.report(path if known else "", response.status, clock() - begun)
        return response

    async def _response(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        try:
            if path in (_HEALTHZ, _READYZ):
                return self._health(request, path)
            return await self._handled(request, path)
        except _HttpError as refusal:
            return web.Response(status=refusal.status, text=refusal.why + "\n", headers=refusal.headers)
        except ReviewError as error:
            return web.Response(status=error.status, text=error.message + "\n")
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the connection without a word
            _log.exception("%s %s failed: a bug of ours", request.method, path)
            why = f"a bug of the rescheduler's ({type(error).__name__}): its log says more"
            return web.Response(status=500, text=why + "\n")

    def _health(self, request: web.BaseRequest, path: str) -> web.Response:
        if request.method not in _LOOKS:
            raise _HttpError(405, f"{path} is looked at with GET", Allow=", ".join(_LOOKS))
        why = self.ready() if path == _READYZ else ""
        if self._ending and path == _READYZ:
            why = "ending"
        return web.Response(status=503 if why else 200, text=f"{why or 'ok'}\n")

    async def _handled(self, request: web.BaseRequest, path: str) -> web.Response:
        handler = self._routes.get(path)
        if handler is None:
            raise _HttpError(404, f"nothing is here; served are {', '.join(sorted(self._routes))}")
        if request.method != "POST":
            raise _HttpError(405, f"{path} is asked with POST", Allow="POST")
        if request.content_type.lower() != _JSON or "Content-Type" not in request.headers:
            raise _HttpError(
                415, f"{path} takes {_JSON}, not Content-Type {request.headers.get('Content-Type', 'none')}"
            )
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise _HttpError(415, f"{path} takes bodies that are not compressed")
        parts: list[bytes] = []
        try:
            await self._read(request, parts, self._manner.bodies.get(path, self._manner.body))
            parts[:] = [b"".join(parts)]  # in place: a large body must not be here twice
            return web.Response(body=handler(parts[0]), content_type=_JSON)
        finally:
            self._held -= sum(map(len, parts))

    async def _read(self, request: web.BaseRequest, parts: list[bytes], most: int) -> None:
        """All parts of the body, or a reason why not."""
        if (request.content_length or 0) > most:
            raise _too_large(most)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(_CONTINUE)
            request.writer.output_size = 0
        size = 0
        try:
            async with asyncio.timeout(self._manner.to_send):
                async for part in request.content.iter_any():
                    size += len(part)
                    if size > most:
                        raise _too_large(most)
                    if self._held + len(part) > self._manner.at_once:
                        raise _HttpError(503, "too many large bodies at once: try again", **{"Retry-After": "1"})
                    parts.append(part)
                    self._held += len(part)
        except TimeoutError:
            why = f"{size} bytes arrived in {self._manner.to_send:g} s, and the rest did not"
            raise _HttpError(408, why) from None
        except (ConnectionError, web.RequestPayloadError, http_exceptions.HttpProcessingError) as error:
            raise _HttpError(400, f"the body does not arrive whole: {error}") from None


def _too_large(most: int) -> _HttpError:
    return _HttpError(413, f"the body is larger than the {most} bytes that are taken here")
