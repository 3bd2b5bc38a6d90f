"""How evenly the nodes were used, over time: samples that are kept for days, ever further apart as they grow old.

`pulse` takes one every few seconds. What falls out of one tier goes on to the next, if it is long enough after the last
that went there: minutes are seen in seconds, hours in minutes, days in quarters of an hour.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

import structlog
from aiohttp import ClientConnectionError, web

from rescheduler.web.responses import HttpError, encode_json
from rescheduler.web.state import EVERY, PageState, SpreadSample
from rescheduler.web.views import moves as migrations
from rescheduler.web.views import nodes
from rescheduler.web.views.overview import overview, sample, without_time

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


def encode_event(event: str, data: object) -> bytes:
    """An event as it is sent; JSON has no line breaks, so it is one line of data."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), encode_json(data))


class Subscriber:
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


class EventHub:
    """All open pages."""

    def __init__(self, most: int = MOST_READERS) -> None:
        self._most = most
        self._readers: set[Subscriber] = set()
        self._ended = False

    @property
    def readers(self) -> int:
        """How many pages are open."""
        return len(self._readers)

    def publish(self, event: str, data: object) -> None:
        """Send an event to everybody."""
        if self._readers:
            told = encode_event(event, data)
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
            raise HttpError(503, f"{why}: try again", Retry_After="5")
        response = web.StreamResponse(headers=_HEADERS)
        response.force_close()  # what follows an endless answer on its connection is nothing
        if request.method == "HEAD":
            return response
        reader = Subscriber(lambda: _hang_up(request))
        reader.offer(encode_event("hello", hello))
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


_log = structlog.stdlib.get_logger(__name__)
BEAT = 0.5  # seconds
_OVERVIEW_EVERY = 2  # beats
_MIGRATIONS = 500  # that are told of in one beat; a plan may have thousands, and the loop has other things to do


class Broadcaster:
    """Who notices changes; `revision` numbers what was told of the nodes."""

    def __init__(self, showing: PageState, hub: EventHub) -> None:
        self._showing = showing
        self._hub = hub
        self._beats = 0
        self._layout = showing.loads.layout
        self._told: object = None
        self._plan: float | None = None
        self.revision = 1

    async def run(self) -> None:
        """Beat until cancelled. One bad object never stops it."""
        while True:
            await asyncio.sleep(BEAT)
            try:
                self.publish_changes()
            except Exception:  # noqa: BLE001 - as said
                _log.exception("the page was not told of a change: a bug of ours")

    def publish_changes(self) -> None:
        """Tell of everything that has changed since the last time."""
        self._beats += 1
        self._nodes()
        self._migrations()
        self._sample()
        self._plans()
        if self._beats % _OVERVIEW_EVERY == 0:
            self._overview()

    def _nodes(self) -> None:
        loads, hub = self._showing.loads, self._hub
        if not loads.touched:
            return
        indexes, anew = loads.indexes(loads.touched), loads.layout != self._layout
        loads.touched.clear()
        if not indexes and not anew:
            return  # a move goes to a node that is not there
        self.revision += 1
        self._layout = loads.layout
        if anew:
            hub.publish("nodes", {"revision": self.revision, "reset": True})
        elif hub.readers:
            rows = nodes.rows(self._showing, indexes)
            hub.publish("nodes", {"revision": self.revision, "count": loads.nodes, "rows": rows})

    def _migrations(self) -> None:
        moves, hub = self._showing.moves, self._hub
        if not hub.readers:
            moves.changed.clear()
        for key in list(islice(moves.changed, _MIGRATIONS)):
            del moves.changed[key]
            migration = self._showing.board.get(key)
            if migration is None:
                hub.publish("gone", {"namespace": key[0], "name": key[1]})
            else:
                hub.publish("migration", migrations.row(self._showing, migration))

    def _sample(self) -> None:
        showing = self._showing
        samples, now = showing.samples, showing.now()
        last = samples.last
        if not showing.loads.nodes or (last is not None and 0 <= now - last.time < EVERY - BEAT / 2):
            return
        taken = SpreadSample(now, showing.loads.stats().load, showing.moves.completed)
        samples.add(taken)
        self._hub.publish("sample", sample(taken))

    def _plans(self) -> None:
        plans = self._showing.plans
        plans.drop_unused()
        made = plans.newest.made if plans.newest is not None else None
        if made != self._plan:
            self._plan = made
            self._hub.publish("plan", {"made": made})

    def _overview(self) -> None:
        if not self._hub.readers:
            self._told = None
            return
        found = overview(self._showing)
        lasting = without_time(found)
        if lasting != self._told:
            self._told = lasting
            self._hub.publish("overview", found)
