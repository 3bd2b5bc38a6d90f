"""A TCP proxy on 127.0.0.1 that cuts connections on demand, for tests of what must survive that.

It passes bytes, so TLS goes through it unchanged. `cut` ends what is open; `shut` also whatever is
opened until `open` is called; each of `allowances` makes one connection end by itself after so many bytes of answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class CutProxy:
    """One way to one server."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.port = 0
        self.allowances: list[int] = []
        self.cuts = 0
        self._target = target
        self._is_shut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """End every connection that is open now, in the middle of whatever it carries."""
        for writer in list(self._writers):
            self._abort(writer)

    def shut(self) -> None:
        """Cut, and refuse connections until `open`."""
        self._is_shut = True
        self.cut()

    def open(self) -> None:
        self._is_shut = False

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Noted at once, and not when its task first runs: so that `end` sees every connection."""
        self._writers.add(writer)
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._is_shut:
                self._abort(writer)
            else:
                await self._carry(reader, writer)
        finally:
            await self._close(writer)

    async def end(self) -> None:
        self.shut()
        await asyncio.gather(*self._tasks)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(*self._target)
        self._writers.add(server_writer)
        try:
            if self._is_shut:  # since it was asked for
                self._abort(server_writer)
            allowance = self.allowances.pop(0) if self.allowances else None
            await asyncio.gather(self._pipe(reader, server_writer, None), self._pipe(server_reader, writer, allowance))
        finally:
            await self._close(server_writer)

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None) -> None:
        with suppress(ConnectionError):  # either end may hang up first
            while data := await reader.read(65536):
                writer.write(data if left is None else data[:left])
                await writer.drain()
                if left is not None:
                    left -= len(data)
                    if left <= 0:
                        self._abort(writer)
                        return
        writer.close()

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self._writers.discard(writer)

    def _abort(self, writer: asyncio.StreamWriter) -> None:
        self.cuts += 1
        writer.transport.abort()


@asynccontextmanager
async def cut_proxy(host: str, port: int) -> AsyncIterator[CutProxy]:
    """A proxy to a server, until the end of the block."""
    proxy = CutProxy((host, port))
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()
        await server.wait_closed()
