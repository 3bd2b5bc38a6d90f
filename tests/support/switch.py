"""A TCP switch on 127.0.0.1: one address that leads to one of several servers, as a Service leads to replicas.

Tests have the API server call it, and say which replica answers from now on. It carries bytes, so TLS is between the
API server and the replica. It runs in a thread with an event loop of its own; where it leads nowhere, it hangs up.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from tests.support.cut_proxy import CutProxy

NOWHERE = 0
_SECONDS = 120.0


class Switch(CutProxy):
    """One, from the beginning of a block to its end."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", NOWHERE))
        self._loop = asyncio.new_event_loop()
        self._up: Future[int] = Future()
        self._ending: asyncio.Event
        self._thread = threading.Thread(target=self._run, name="switch")

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self._up.result(_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        self._loop.close()

    def to(self, port: int) -> None:
        """Lead to this port of loopback from now on; connections that are open end, so that none stays behind."""
        turned = threading.Event()

        def turn() -> None:
            self._target = ("127.0.0.1", port)
            self.cut()
            turned.set()

        self._loop.call_soon_threadsafe(turn)
        turned.wait(_SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve_all())
        except BaseException as error:
            if not self._up.done():
                self._up.set_exception(error)
            raise

    async def _serve_all(self) -> None:
        self._ending = asyncio.Event()
        server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        self._up.set_result(server.sockets[0].getsockname()[1])
        await self._ending.wait()
        server.close()
        await self.end()
        await server.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # nobody is there: whoever calls is hung up on
            await super()._carry(reader, writer)
