"""A small HTTP proxy for the client's tests: CONNECT only, on 127.0.0.1, with an optional password and optional TLS.

It tunnels every CONNECT to one port, whatever host was asked for, so that a test can use a host name that does not
exist and so prove that the proxy was used. `asked` records the targets.
"""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class ConnectProxy:
    def __init__(self, target_port: int, login: str | None) -> None:
        self.url = ""
        self.asked: list[str] = []
        self._target_port = target_port
        self._login = login
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        finally:
            await _close(writer)
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target = head.split()[:2]
        self.asked.append(target)
        if method != "CONNECT":
            writer.write(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
            return
        if self._login is not None:
            expected = base64.b64encode(self._login.encode()).decode()
            if f"Proxy-Authorization: Basic {expected}" not in head:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                return
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        self._writers.add(server_writer)
        try:
            writer.write(b"HTTP/1.1 200 Connection Established\r\n\r\n")
            await asyncio.gather(_pipe(reader, server_writer), _pipe(server_reader, writer))
        finally:
            await _close(server_writer)
            self._writers.discard(server_writer)

    async def end(self) -> None:
        """Hangs up on both sides: then every tunnel comes to its end by itself."""
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._tasks)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # either end may hang up first
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()


@asynccontextmanager
async def connect_proxy(
    target_port: int, login: str | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ConnectProxy]:
    proxy = ConnectProxy(target_port, login)
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0, ssl=tls)
    proxy.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()
        await server.wait_closed()
