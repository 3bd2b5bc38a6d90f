"""The product's web server in a thread of its own, for tests that block: the browser's.

`pages_in_thread` serves parts with an event loop of their own until the end of its block. What touches what the loop
uses goes through `InThread.call`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from rescheduler.web.metrics import Metrics
from rescheduler.web.server import Routes, WebApp, serve
from tests.support.loop_thread import LoopThread

HERE = "127.0.0.1"
T = TypeVar("T")


@dataclass(frozen=True)
class InThread:
    """A running one."""

    address: str
    loop: asyncio.AbstractEventLoop

    def call(self, work: Callable[[], T]) -> T:
        """What it gives when the loop does it."""

        async def done() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result()


async def drop_connections() -> None:
    """Close what a browser opened while the server closed: the server does not know it, and the loop would leak it."""
    if accepting := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(accepting, timeout=5)
    loop = asyncio.get_running_loop()
    for transport in list(loop._transports.values()):  # type: ignore[attr-defined]  # asyncio has no public list
        transport.abort()
    await asyncio.sleep(0)  # an aborted transport closes its socket in the next turn


@contextmanager
def pages_in_thread(*parts: Routes, port: int = 0) -> Iterator[InThread]:
    """Serve these parts on loopback; with port 0 on a free one."""

    @asynccontextmanager
    async def served() -> AsyncIterator[str]:
        async with serve(WebApp(Metrics(), parts=parts), HERE, port) as bound:
            yield f"http://{HERE}:{bound}"
        await drop_connections()

    thread = LoopThread(served, "page")
    try:
        yield InThread(thread.value, thread.loop)
    finally:
        thread.end()
