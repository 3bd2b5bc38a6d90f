"""Server-sent events: what changes is sent to every page that is open, as it happens.

`pulse` publishes; each reader has a queue of its own, of bounded size. Whoever reads too slowly is cut off and comes
back by himself, as browsers do, and looks at everything anew. When the server ends, all streams end at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from aiohttp import ClientConnectionError, web

from rescheduler.web.answers import Refusal, encoded

MOST_READERS = 100
_BEHIND = 4 * 2**20  # bytes that one reader may be behind
_STILL_HERE = 15.0  # seconds of silence after which a comment shows that the line is not dead
_TO_TAKE = 30.0  # seconds for a reader to take what is sent
_COMMENT = b": still here\n\n"
_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # proxies that heed it would hold events back
}


def message(event: str, data: object) -> bytes:
    """An event as it is sent; JSON has no line breaks, so it is one line of data."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), encoded(data))


class Reader:
    """One open page: what it is still to be sent."""

    def __init__(self, hang_up: Callable[[], None]) -> None:
        self._hang_up = hang_up
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._woken = asyncio.Event()
        self.over = False
        self.sending = False
        """Whether it is still to take what it was sent last."""

    def offer(self, told: bytes) -> None:
        """Send it soon; whoever is too far behind is cut off."""
        if self.over:
            return
        if self._bytes + len(told) > _BEHIND:
            self.end()
            return
        self._messages.append(told)
        self._bytes += len(told)
        self._woken.set()

    def end(self) -> None:
        """Send nothing more. Whoever has not taken what he was sent would not hear of the end either: hang up."""
        self.over = True
        self._messages.clear()
        self._woken.set()
        if self.sending:
            self._hang_up()

    async def next(self) -> bytes:
        """All that has come since, or a comment after some silence; nothing when it is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STILL_HERE):
                await self._woken.wait()
        self._woken.clear()
        if self.over:
            return b""
        told = b"".join(self._messages)
        self._messages.clear()
        self._bytes = 0
        return told or _COMMENT


class Hub:
    """All open pages."""

    def __init__(self, most: int = MOST_READERS) -> None:
        self._most = most
        self._readers: set[Reader] = set()
        self._ended = False

    @property
    def readers(self) -> int:
        """How many pages are open."""
        return len(self._readers)

    def publish(self, event: str, data: object) -> None:
        """Send an event to everybody."""
        if self._readers:
            told = message(event, data)
            for reader in self._readers:
                reader.offer(told)

    def end(self) -> None:
        """End all streams, and open no more."""
        self._ended = True
        for reader in self._readers:
            reader.end()

    async def stream(self, request: web.Request, hello: object) -> web.StreamResponse:
        """Answer with events until one side goes."""
        if self._ended or len(self._readers) >= self._most:
            why = "the server is ending" if self._ended else f"{self._most} pages are open already"
            raise Refusal(503, f"{why}: try again", Retry_After="5")
        response = web.StreamResponse(headers=_HEADERS)
        response.force_close()  # what follows an endless answer on its connection is nothing
        if request.method == "HEAD":
            return response
        reader = Reader(lambda: _hang_up(request))
        reader.offer(message("hello", hello))
        self._readers.add(reader)
        try:
            await response.prepare(request)
            while told := await reader.next():
                reader.sending = True
                async with asyncio.timeout(_TO_TAKE):
                    await response.write(told)
                reader.sending = False
        except (ConnectionError, ClientConnectionError):
            pass  # the page was closed
        except TimeoutError:
            _hang_up(request)
        finally:
            self._readers.discard(reader)
        return response


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
