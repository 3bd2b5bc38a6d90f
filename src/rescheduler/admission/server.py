"""Serves the webhook and the extender: bounded in connections, bodies and time, and drained at the end.

`AdmissionServer` is one HTTP server, `WebhookServer` the one with TLS: it waits for a certificate, serves, and reloads
renewed ones without a restart. `CertificateSource` reads the certificate from given files or from our Secret.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import structlog
from aiohttp import http_exceptions, web

from rescheduler.admission.certificates import CertificateError, CertificateState, KeyPair, check
from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import RereadFile, private_file
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.webhook import SecretStore, WebhookSettings
from rescheduler.runtime.logs import make_wire_logger

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Handler = Callable[[bytes], bytes]
_log = structlog.stdlib.get_logger(__name__)
_wire_log = make_wire_logger(f"{__name__}.wire", http_exceptions.HttpProcessingError)
_JSON = "application/json"
_HEALTHZ, _READYZ = "/healthz", "/readyz"
_READS = ("GET", "HEAD")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class RequestError(Exception):
    """A request that cannot be answered: the HTTP status it gets, why, and further headers."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


class Connections(web.Server):
    """All connections: closes the oldest when there are too many, and notes when the last one is closed."""

    def __init__(self, answer: Answer, most: int, **settings: Any) -> None:
        super().__init__(answer, **settings)
        self._most = most
        self._open = 0
        self._none = asyncio.Event()
        self._none.set()

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._open += 1
        self._none.clear()
        # A client that holds many connections open, or sends requests byte by byte, must not keep others out. Handlers
        # answer at once, so the oldest is not in the middle of an answer; aiohttp is still setting the new one up.
        for oldest in self.connections[: -self._most]:
            asyncio.get_running_loop().call_soon(oldest.force_close)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._open -= 1
        if not self._open:
            self._none.set()

    async def none_left(self, seconds: float) -> None:
        """Wait until the last connection is closed, but at most so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._none.wait()


class Address(NamedTuple):
    """Where to listen; port 0 is any free port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of the server; sizes in bytes, times in seconds."""

    body: int = 4 * 2**20
    """The largest body: an object in etcd is at most 1.5 MiB, and a review of it carries little more."""
    bodies: Mapping[str, int] = field(default_factory=dict)
    """The same by route: a scheduler that sends whole nodes sends 12 KiB and more for each."""
    at_once: int = 256 * 2**20
    """All bodies in memory together."""
    connections: int = 1000
    """More than three API servers need; with TLS each takes a quarter of a MiB."""
    to_send: float = 30.0
    """For a body to arrive, and for a response to be taken: the longest that the API server itself waits."""
    idle: float = 120.0
    """For the next request of a connection. Go keeps idle connections for 90 s, does not repeat a POST that met a
    closing one, and opens some before it needs them, so this is longer."""
    handshake: float = 10.0
    drain: float = 5.0
    """At the end, for open requests."""
    linger: float = 1.0
    """At the end, for connections whose next response closes them for the client."""


class AdmissionServer:
    """Listens in the block of `listening`. `ready` returns why it is not ready, or nothing.

    `report(route, status, seconds)` is called for every response; unknown paths count as the route "".
    """

    def __init__(
        self,
        routes: Mapping[str, Handler],
        tls: ssl.SSLContext | None,
        address: Address,
        limits: ServerLimits | None = None,
    ) -> None:
        self._routes = dict(routes)
        self._tls = tls
        self.address = address
        """Where to listen, and in the block where it listens."""
        self._limits = limits or ServerLimits()
        self.ready: Callable[[], str] = lambda: ""
        self.report: Callable[[str, int, float], None] = lambda route, status, seconds: None
        self._held = 0  # bytes of bodies
        self._ending = False

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[Self]:
        """Listen in the block.

        At its end no more connections are accepted. Those in use are closed after their next response, then idle ones.
        """
        limits, secure = self._limits, self._tls is not None
        http = Connections(
            self._answer,
            limits.connections,
            access_log=None,
            logger=_wire_log,
            auto_decompress=False,  # no caller compresses, and a small body must stay small
            keepalive_timeout=limits.idle,
            lingering_time=min(2.0, limits.to_send),
        )
        try:
            listener = await asyncio.get_running_loop().create_server(
                http,
                *self.address,
                ssl=self._tls,
                ssl_handshake_timeout=limits.handshake if secure else None,
                ssl_shutdown_timeout=limits.linger if secure else None,
            )
        except OSError as error:
            host, port = self.address
            raise ClusterError(
                f"cannot listen on {host}:{port}: {error.strerror}; configure another address"
            ) from error
        self.address = Address(*listener.sockets[0].getsockname()[:2])
        try:
            yield self
        finally:
            self._ending = True
            listener.close()
            await http.none_left(limits.linger)
            http.pre_shutdown()
            await http.shutdown(limits.drain)
            # In TLS closing is a handshake, which not every client answers.
            await http.none_left(2 * limits.linger)

    async def run(self) -> None:
        """Serve the extender until cancelled."""
        async with self.listening():
            _log.info("extender listening without TLS", address=str(self.address))
            await asyncio.get_running_loop().create_future()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        clock = asyncio.get_running_loop().time
        begun, path = clock(), request.path
        known = path in self._routes or path in (_HEALTHZ, _READYZ)
        response = await self._respond(request, path)
        if self._ending or response.status >= 400:
            response.force_close()
        try:
            async with asyncio.timeout(self._limits.to_send):
                with suppress(ConnectionError):  # the client has gone
                    await response.prepare(request)
                    await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()  # the client does not take the response
        self.report(path if known else "", response.status, clock() - begun)
        return response

    async def _respond(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        try:
            if path in (_HEALTHZ, _READYZ):
                return self._answer_health(request, path)
            return await self._handle(request, path)
        except RequestError as refusal:
            return web.Response(status=refusal.status, text=refusal.message + "\n", headers=refusal.headers)
        except Exception as error:  # noqa: BLE001 - an internal error must not end the connection without a response
            _log.exception("request failed: internal error", method=request.method, path=path)
            why = f"internal error of the rescheduler ({type(error).__name__}): see its log"
            return web.Response(status=500, text=why + "\n")

    def _answer_health(self, request: web.BaseRequest, path: str) -> web.Response:
        if request.method not in _READS:
            raise RequestError(405, f"{path} is read with GET", Allow=", ".join(_READS))
        why = self.ready() if path == _READYZ else ""
        if self._ending and path == _READYZ:
            why = "shutting down"
        return web.Response(status=503 if why else 200, text=f"{why or 'ok'}\n")

    async def _handle(self, request: web.BaseRequest, path: str) -> web.Response:
        handler = self._routes.get(path)
        if handler is None:
            raise RequestError(404, f"there is nothing at this address; served are {', '.join(sorted(self._routes))}")
        if request.method != "POST":
            raise RequestError(405, f"{path} takes POST", Allow="POST")
        if request.content_type.lower() != _JSON or "Content-Type" not in request.headers:
            raise RequestError(
                415, f"{path} takes {_JSON}, not Content-Type {request.headers.get('Content-Type', 'none')}"
            )
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise RequestError(415, f"{path} takes uncompressed bodies only")
        parts: list[bytes] = []
        try:
            await self._read(request, parts, self._limits.bodies.get(path, self._limits.body))
            parts[:] = [b"".join(parts)]  # in place: a large body must not be in memory twice
            return web.Response(body=handler(parts[0]), content_type=_JSON)
        finally:
            self._held -= sum(map(len, parts))

    async def _read(self, request: web.BaseRequest, parts: list[bytes], most: int) -> None:
        """Read all parts of the body, or raise why not."""
        if (request.content_length or 0) > most:
            raise _too_large(most)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(_CONTINUE)
            request.writer.output_size = 0
        size = 0
        try:
            async with asyncio.timeout(self._limits.to_send):
                async for part in request.content.iter_any():
                    size += len(part)
                    if size > most:
                        raise _too_large(most)
                    if self._held + len(part) > self._limits.at_once:
                        raise RequestError(503, "too many large bodies at once: try again", **{"Retry-After": "1"})
                    parts.append(part)
                    self._held += len(part)
        except TimeoutError:
            why = f"{size} bytes arrived in {self._limits.to_send:g} s, and the rest did not"
            raise RequestError(408, why) from None
        except (ConnectionError, web.RequestPayloadError, http_exceptions.HttpProcessingError) as error:
            raise RequestError(400, f"the body did not arrive completely: {error}") from None


def _too_large(most: int) -> RequestError:
    return RequestError(413, f"the body is larger than the limit of {most} bytes")


ReadPair = Callable[[], Awaitable[KeyPair]]


class CertificateSource:
    """Serves the pair that `read` returns; `context` is for a server, and stays the same while it runs.

    Each pair has a context of its own, to which a handshake is handed over when it begins (by the callback for server
    names). Loading a new pair into the context in use would fail after a change from RSA to ECDSA: a context keeps one
    pair of each kind, and would serve the old one to some clients.
    """

    def __init__(self, read: ReadPair) -> None:
        self._read = read
        self.why = ""
        """What was wrong at the last refresh; empty if nothing was."""
        self._served: ssl.SSLContext | None = None
        self.pair: KeyPair | None = None
        """The pair that is served; None before the first."""
        self.context = _empty_context()
        self.context.sni_callback = self._hand_over

    async def refresh(self) -> bool:
        """Read the pair and serve it if it is new; False while there is none."""
        try:
            pair = await self._read()
            if pair != self.pair:
                self._served = _load_context(pair)
                again = self.pair is not None
                self.pair = pair
                _log.info("webhook certificate reloaded" if again else "webhook certificate loaded")
        except (CertificateError, ClusterError) as error:
            if str(error) != self.why:
                event = "webhook certificate missing" if self.pair is None else "webhook certificate not reloaded"
                _log.warning(event, why=str(error))
            self.why = str(error)
        else:
            self.why = ""
        return self.pair is not None

    def _hand_over(self, handshake: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        if self._served is not None:
            handshake.context = self._served


def from_files(certificate: Path, key: Path) -> ReadPair:
    """Read a pair from files that, for example, cert-manager keeps."""
    files = RereadFile(certificate, "the webhook's certificate"), RereadFile(key, "the webhook's key")

    async def read() -> KeyPair:
        pair = KeyPair(files[0].read(), files[1].read())
        try:
            check(pair)
        except CertificateError as error:
            cure = "both must be PEM and belong together; they are read again in a moment"
            raise CertificateError(f"{certificate} and {key}: {error}; {cure}") from error
        return pair

    return read


def from_secret(secrets: SecretStore) -> ReadPair:
    """Read the pair that the leader keeps in our Secret."""

    async def read() -> KeyPair:
        found = await secrets.read()
        if found is None:
            raise CertificateError(f"{secrets} does not exist yet; the leader creates it")
        try:
            return CertificateState.from_data(found.data).serving
        except CertificateError as error:
            raise CertificateError(f"{secrets}: {error}; the leader replaces it") from error

    return read


def _empty_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load_context(pair: KeyPair) -> ssl.SSLContext:
    context = _empty_context()
    with private_file(pair.certificate) as certificate, private_file(pair.key) as key:
        try:
            # A password is never asked for on a terminal: `check` has refused encrypted keys.
            context.load_cert_chain(certificate, key, password="")
        except ssl.SSLError as error:
            raise CertificateError(f"OpenSSL does not take the webhook's certificate ({error.reason})") from error
    return context


_FIRST_LOOKS = 1.0  # seconds between reads until there is a certificate
_LOOKS = 3.0  # and afterwards. A Secret is small and a GET is simple: a watch is not worth its trouble here


class WebhookServer:
    """The HTTPS server of one replica. `run` ends when it is cancelled, and finishes open requests."""

    def __init__(
        self,
        client: ApiClient,
        settings: WebhookSettings,
        routes: Mapping[str, Handler],
        limits: ServerLimits | None = None,
    ) -> None:
        files = settings.files
        read = (
            from_secret(SecretStore(client, settings.namespace, settings.secret))
            if files is None
            else from_files(files.certificate, files.key)
        )
        self._source = CertificateSource(read)
        self._settings = settings
        self._routes = routes
        self._limits = limits
        self._server: AdmissionServer | None = None
        self.knows: Callable[[], str] = lambda: ""
        """Why the handlers cannot answer yet (caches are not synced), for `/readyz`; empty if they can."""
        self.report: Callable[[str, int, float], None] = lambda route, status, seconds: None

    def why_not(self) -> str:
        """Why this replica does not serve the webhook; empty if it does."""
        if self._source.pair is None:
            return f"the webhook has no certificate yet: {self._source.why or 'not read yet'}"
        return "" if self._server is not None else "the webhook does not listen yet"

    async def run(self) -> None:
        """Wait for a certificate, then serve and reload it until cancelled."""
        while not await self._source.refresh():  # noqa: ASYNC110 - the certificate is in the cluster, or in files
            await asyncio.sleep(_FIRST_LOOKS)
        server = AdmissionServer(self._routes, self._source.context, Address(*self._settings.bind), self._limits)
        server.ready = lambda: self.why_not() or self.knows()
        server.report = self.report
        async with server.listening():
            self._server = server
            _log.info("webhook listening", address=f"{server.address.host}:{server.address.port}")
            try:
                while True:
                    await asyncio.sleep(_LOOKS)
                    await self._source.refresh()
            finally:
                self._server = None
