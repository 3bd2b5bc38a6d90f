"""A TCP switch on 127.0.0.1: one address that leads to one of several servers, as a Service leads to replicas.

Tests have the API server call it, and say which replica answers from now on. It carries bytes, so TLS is between the
API server and the replica. It runs in a thread with an event loop of its own; where it leads nowhere, it hangs up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from tests.support.cut_proxy import CutProxy
from tests.support.loop_thread import LoopThread

NOWHERE = 0


class Switch(CutProxy):
    """One, from the beginning of a block to its end."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", NOWHERE))
        self._thread: LoopThread[int]

    def __enter__(self) -> Self:
        self._thread = LoopThread(self._serving, "switch")
        self.port = self._thread.value
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.end()

    def to(self, port: int) -> None:
        """Lead to this port of loopback from now on; connections that are open end, so that none stays behind."""

        async def turn() -> None:
            self._target = ("127.0.0.1", port)
            self.cut()

        self._thread.call(turn)

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            await self.end()
            await server.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # no server there: hang up on the caller
            await super()._carry(reader, writer)
