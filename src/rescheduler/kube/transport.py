"""aiohttp underneath the client: connections that close at once, fenced writes, and errors with a cure.

Closing: aiohttp ends a connection that it cannot reuse (a cancelled request, an abandoned watch) with a TLS shutdown,
for which the peer has 30 s, and does not wait for it. Such a socket would outlive the event loop. HTTP already says
where an answer ends, so these connections are cut instead.

Fencing: a write is checked twice. First when its connection is ready, because connecting may take longer than a lease
lasts. Then by its body, because aiohttp writes bodies in a task of their own, one turn of the event loop later, and the
process may be frozen in between.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection as PooledConnection
from aiohttp.tracing import Trace

from rescheduler.kube.connection import Connection, without_password
from rescheduler.kube.errors import (
    BROKEN_OFF,
    NOT_KUBERNETES,
    NOT_TRUSTED,
    READS,
    TIMED_OUT,
    UNREACHABLE,
    ApiError,
    FencedError,
)


class Connector(aiohttp.TCPConnector):
    """A connector whose `close` returns when every one of its sockets is closed."""

    def __init__(self, may_write: Callable[[], bool]) -> None:
        super().__init__(socket_factory=self._make_socket)
        self._may_write = may_write
        handler: type[ResponseHandler] = _Handler
        # aiohttp has no setting for this. If the attribute is ever renamed, the tests of closing fail.
        self._factory = functools.partial(handler, loop=self._loop)
        self._open: set[_Socket] = set()
        self._all_closed = asyncio.Event()

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  aiohttp names it
    ) -> PooledConnection:
        """Return a connection for one attempt; checked here because a request without a body is written at once."""
        found = await super().connect(req, traces, timeout)
        if req.method not in READS and not self._may_write():
            found.release()
            raise fenced_error(req.method, req.url.path)
        return found

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Cut all connections, including those that are being established."""
        await super().close(abort_ssl=abort_ssl)
        for each in self._open:
            with suppress(OSError):  # not connected yet, or no longer connected
                each.shutdown(socket.SHUT_RDWR)
        if self._open:
            await self._all_closed.wait()

    def _make_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        if self.closed:
            raise OSError("the client is closed")
        family, kind, protocol, _, _ = address
        new = _Socket(family, kind, protocol)
        new.on_close = self._forget
        self._open.add(new)
        self._all_closed.clear()
        return new

    def _forget(self, closed: _Socket) -> None:
        self._open.discard(closed)
        if not self._open:
            self._all_closed.set()


class FencedBody(aiohttp.BytesPayload):
    """The body of a write. Just before its first byte it calls `check`, which may raise FencedError."""

    def __init__(self, value: bytes, content_type: str, check: Callable[[], None]) -> None:
        super().__init__(value, content_type=content_type)
        self._check = check

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._check()
        await super().write_with_length(writer, content_length)


def fenced_error(method: str, path: str) -> FencedError:
    """Return the error that is raised instead of sending a write."""
    return FencedError(f"{method} {path} was not sent: this replica may no longer be the leader")


class _Handler(ResponseHandler):
    """A handler that cuts the connection where aiohttp would begin the TLS shutdown."""

    def close(self) -> None:
        self.abort()


class _Socket(socket.socket):
    """A socket with a callback for its closing."""

    on_close: Callable[[_Socket], None] = lambda _: None

    def close(self) -> None:
        super().close()
        self.on_close(self)


async def send_once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Send a write once: by itself aiohttp would repeat a PUT or a DELETE that broke off."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(str(error)) from error  # an error that aiohttp does not retry


# OpenSSL's verification results.
_EXPIRED = 10
_NAME_MISMATCHES = frozenset({62, 64})


class _Status(msgspec.Struct):
    kind: str = ""
    reason: str | None = None
    message: str | None = None


def error_from_answer(
    status: int, body: bytes, headers: Mapping[str, str], path: str, connection: Connection
) -> ApiError:
    """Return the error for an unsuccessful answer. A redirect is one: credentials are not sent elsewhere."""
    try:
        details = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        details = _Status()  # a proxy or load balancer answered; its text is used below
    reason = details.reason or _phrase(status)
    message = details.message or _text_of(body) or f"the server answered {_phrase(status)}"
    error = ApiError(status, reason, message, path)
    error.retry_after = _seconds(headers.get("Retry-After"))
    if 300 <= status < 400:
        error.message = f"{connection.server} redirects to {headers.get('Location', 'nowhere')}"
        error.cure = f"redirects are not followed; correct the server of {connection.source}"
    elif status == 401:
        error.message = f"the server does not accept the credentials of {connection.source}"
        error.cure = "log in again, or correct the user's token, certificate or exec plugin"
    elif status == 403:
        error.cure = "ask for an RBAC role that allows it, or use another --context or --as"
    elif status in {429, 503} and error.retry_after is not None:
        error.cure = f"the server is busy; try again in {error.retry_after:g} s"
    return error


def error_from_exception(exception: Exception, path: str, connection: Connection) -> ApiError:
    """Return the error for a request without a complete answer."""
    reason, message, cure = _explain(exception, connection)
    return ApiError(None, reason, message, path, cure)


def not_kubernetes(path: str, connection: Connection, problem: str) -> ApiError:
    """Return the error for an answer that does not come from a Kubernetes API server."""
    message = f"{connection.server} answered, but not as a Kubernetes API server does: {problem}"
    return ApiError(None, NOT_KUBERNETES, message, path, f"check the server of {connection.source}")


def _explain(exception: Exception, connection: Connection) -> tuple[str, str, str]:
    server, source = connection.server, connection.source
    proxy = without_password(connection.proxy_url) if connection.proxy_url else ""
    via = f" through the proxy {proxy}" if proxy else ""
    match exception:
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as refused):
            return _explain_distrust(refused, connection)
        case aiohttp.ClientHttpProxyError():
            problem = f"{exception.status} {exception.message}"
            return UNREACHABLE, f"the proxy {proxy} does not connect to {server}: {problem}", "check proxy-url"
        case aiohttp.ClientProxyConnectionError():
            cure = f"check proxy-url of {source}, or HTTPS_PROXY"
            return UNREACHABLE, f"cannot reach the proxy {proxy}: {_words(exception)}", cure
        case aiohttp.ClientConnectorDNSError():
            cure = f"check the server of {source}, and your network or VPN"
            return UNREACHABLE, f"the host name in {server}{via} is not known: {_words(exception)}", cure
        case ssl.SSLError() | aiohttp.ClientSSLError():
            cure = f"check that the server of {source} is an https port, and the client certificate"
            return NOT_TRUSTED, f"TLS with {server}{via} failed: {_words(exception)}", cure
        case aiohttp.ConnectionTimeoutError():
            cure = f"check the server of {source}, and your network, VPN or firewall"
            return TIMED_OUT, f"no connection to {server}{via} in time", cure
        case TimeoutError():
            return TIMED_OUT, f"{server} did not answer in time", "try again, or give a longer --request-timeout"
        case aiohttp.ClientConnectorError():
            cure = f"check that the cluster is running, and the server of {source}"
            return UNREACHABLE, f"cannot reach {server}{via}: {_words(exception)}", cure
        case aiohttp.ClientResponseError():
            problem = f"{server} answered, but not in HTTP: {exception.message}"
            return NOT_KUBERNETES, problem, f"check the server of {source}"
        case _:
            # In TLS 1.3 a server refuses a client certificate by closing the connection after the handshake.
            certificate = connection.credentials.certificate is not None
            cure = "try again" + ("; if it persists, renew the client certificate" if certificate else "")
            return BROKEN_OFF, f"the connection to {server} broke off: {_words(exception)}", cure


def _explain_distrust(refused: ssl.SSLCertVerificationError, connection: Connection) -> tuple[str, str, str]:
    server, problem = connection.server, refused.verify_message
    if refused.verify_code in _NAME_MISMATCHES:
        cure = f"set tls-server-name in {connection.source} to a name that the certificate has"
        return NOT_TRUSTED, f"the certificate of {server} is for another name: {problem}", cure
    if refused.verify_code == _EXPIRED:
        cure = "renew it on the server, and check this computer's clock"
        return NOT_TRUSTED, f"the certificate of {server} has expired", cure
    trusted = connection.ca.where if connection.ca is not None else "the system's CAs"
    cure = "if the cluster was recreated, get its kubeconfig again; else correct certificate-authority"
    return NOT_TRUSTED, f"the certificate of {server} is not signed by {trusted}: {problem}", cure


def _words(exception: Exception) -> str:
    cause = exception.os_error if isinstance(exception, aiohttp.ClientConnectorError) else exception
    if isinstance(cause, ssl.SSLError) and cause.reason:
        return cause.reason.replace("_", " ").lower()
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _text_of(body: bytes) -> str:
    """Return the text of an answer that is not a Status object; empty for a web page."""
    text = body[:300].decode(errors="replace").strip()
    return "" if text.startswith(("<", "{")) else " ".join(text.split())


def _seconds(retry_after: str | None) -> float | None:
    """Parse a Retry-After header. Kubernetes sends seconds; a load balancer's date is ignored, so back-off applies."""
    return float(retry_after) if retry_after is not None and retry_after.strip().isdecimal() else None
