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
    """A connector whose `close` comes back when every one of its sockets is closed."""

    def __init__(self, may_write: Callable[[], bool]) -> None:
        super().__init__(socket_factory=self._made)
        self._may_write = may_write
        handler: type[ResponseHandler] = _Handler
        # aiohttp has no setting for it. If this name should ever mean nothing, the tests of closing fail.
        self._factory = functools.partial(handler, loop=self._loop)
        self._open: set[_Socket] = set()
        self._all_closed = asyncio.Event()

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  aiohttp names it
    ) -> PooledConnection:
        """A connection for this one try; what has no body is written at once."""
        found = await super().connect(req, traces, timeout)
        if req.method not in READS and not self._may_write():
            found.release()
            raise fenced_error(req.method, req.url.path)
        return found

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Cut all connections, also those that are just being made."""
        await super().close(abort_ssl=abort_ssl)
        for each in self._open:
            with suppress(OSError):  # it is not connected yet, or not any more
                each.shutdown(socket.SHUT_RDWR)
        if self._open:
            await self._all_closed.wait()

    def _made(self, address: aiohttp.AddrInfoType) -> socket.socket:
        if self.closed:
            raise OSError("the client is closed")
        family, kind, protocol, _, _ = address
        made = _Socket(family, kind, protocol)
        made.on_close = self._forget
        self._open.add(made)
        self._all_closed.clear()
        return made

    def _forget(self, closed: _Socket) -> None:
        self._open.discard(closed)
        if not self._open:
            self._all_closed.set()


class FencedBody(aiohttp.BytesPayload):
    """The body of a write: with its first byte the request goes out, and not if we may not act any more."""

    def __init__(self, value: bytes, content_type: str, ask: Callable[[], None]) -> None:
        super().__init__(value, content_type=content_type)
        self._ask = ask

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._ask()
        await super().write_with_length(writer, content_length)


def fenced_error(method: str, path: str) -> FencedError:
    """What is raised instead of sending a write."""
    return FencedError(f"{method} {path} is not sent: we may not act any more, another may lead")


class _Handler(ResponseHandler):
    """Cuts where aiohttp would begin the farewell."""

    def close(self) -> None:
        self.abort()


class _Socket(socket.socket):
    """Tells when it is closed."""

    on_close: Callable[[_Socket], None] = lambda _: None

    def close(self) -> None:
        super().close()
        self.on_close(self)


async def send_once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """For writes: aiohttp would repeat a PUT or a DELETE that broke off, and when that is right is for us to say."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(str(error)) from error  # which it does not take for a reason


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
    """The error for an answer that is not a success (a redirect is none either: credentials are not sent elsewhere)."""
    try:
        said = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        said = _Status()  # a proxy or load balancer answered; its text is used below
    reason = said.reason or _phrase(status)
    error = ApiError(status, reason, said.message or _text_of(body) or f"the server answered {_phrase(status)}", path)
    error.retry_after = _seconds(headers.get("Retry-After"))
    if 300 <= status < 400:
        error.message = f"{connection.server} redirects to {headers.get('Location', 'nowhere')}"
        error.cure = f"credentials are not sent on; correct the server of {connection.source}"
    elif status == 401:
        error.message = f"the server does not accept the credentials of {connection.source}"
        error.cure = "log in again, or correct the user's token, certificate or exec plugin"
    elif status == 403:
        error.cure = "ask for an RBAC role that allows it, or use another --context or --as"
    elif status in {429, 503} and error.retry_after is not None:
        error.cure = f"the server is busy; try again in {error.retry_after:g} s"
    return error


def error_from_exception(exception: Exception, path: str, connection: Connection) -> ApiError:
    """The error for a request that got no whole answer."""
    reason, message, cure = _explained(exception, connection)
    error = ApiError(None, reason, message, path)
    error.cure = cure
    return error


def not_kubernetes(path: str, connection: Connection, problem: str) -> ApiError:
    message = f"{connection.server} answered, but not as a Kubernetes API server does: {problem}"
    error = ApiError(None, NOT_KUBERNETES, message, path)
    error.cure = f"check the server of {connection.source}"
    return error


def _explained(exception: Exception, connection: Connection) -> tuple[str, str, str]:
    server, source = connection.server, connection.source
    proxy = without_password(connection.proxy_url) if connection.proxy_url else ""
    via = f" through the proxy {proxy}" if proxy else ""
    match exception:
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as refused):
            return _distrust(refused, connection)
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
            # In TLS 1.3 a server that refuses our certificate does so by hanging up, after the handshake.
            certificate = connection.credentials.certificate is not None
            cure = "try again" + ("; if it persists, renew the client certificate" if certificate else "")
            return BROKEN_OFF, f"the connection to {server} broke off: {_words(exception)}", cure


def _distrust(refused: ssl.SSLCertVerificationError, connection: Connection) -> tuple[str, str, str]:
    server, problem = connection.server, refused.verify_message
    if refused.verify_code in _NAME_MISMATCHES:
        cure = f"set tls-server-name in {connection.source} to a name that the certificate has"
        return NOT_TRUSTED, f"the certificate of {server} is for another name: {problem}", cure
    if refused.verify_code == _EXPIRED:
        cure = "renew it on the server, and check this computer's clock"
        return NOT_TRUSTED, f"the certificate of {server} has expired", cure
    trusted = connection.ca.where if connection.ca is not None else "the system's CAs"
    cure = "if the cluster was made anew, get its kubeconfig again; else correct certificate-authority"
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
    """The words of an answer that is not a Status object; none of a web page's."""
    text = body[:300].decode(errors="replace").strip()
    return "" if text.startswith(("<", "{")) else " ".join(text.split())


def _seconds(retry_after: str | None) -> float | None:
    """Kubernetes gives seconds. A date, which load balancers may give, counts as none: the usual back-off follows."""
    return float(retry_after) if retry_after is not None and retry_after.strip().isdecimal() else None
