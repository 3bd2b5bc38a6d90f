"""Connections that end when we say so, and carry no write that may not be sent any more.

`client.py` makes one for its session. A connection is kept for the next request, or cut: aiohttp closes one that cannot
be kept (a cancelled request, a watch that is left) with TLS's farewell, for which the other side has 30 s, and forgets
it. Whoever closes the session does not wait for it, and so it outlives the event loop, as an open socket that nobody
will ever close. HTTP says itself where an answer ends, so the farewell tells nobody anything.

Whether a write may be sent is asked when its connection is there, because to make one may take longer than a lease
lasts; and once more by its body, because aiohttp has bodies written by a task of their own, a turn of the event loop
later, and a process may be frozen just there.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable
from contextlib import suppress

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from rescheduler.cluster.backoff import READS
from rescheduler.cluster.errors import FencedError


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
    ) -> Connection:
        """A connection for this one try; what has no body is written at once."""
        found = await super().connect(req, traces, timeout)
        if req.method not in READS and not self._may_write():
            found.release()
            raise fenced(req.method, req.url.path)
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


def fenced(method: str, path: str) -> FencedError:
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
