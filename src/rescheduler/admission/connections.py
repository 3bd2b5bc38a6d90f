"""The connections of our HTTP server: how many, which of them has to go, when the last one is closed, what is logged.

`server` is built on it; it stands between aiohttp, which reads and writes HTTP, and the answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiohttp import http_exceptions, web

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
