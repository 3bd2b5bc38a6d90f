"""The stream of events: what has changed is published to all open pages twice a second.

`Broadcaster` compares the state with what it published last, and `EventHub` sends events to the pages. A page that is
too slow is cut off, and comes back by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

import structlog
from aiohttp import ClientConnectionError, web

from rescheduler.web import views
from rescheduler.web.responses import HttpError, encode_json
from rescheduler.web.state import EVERY, PageState, SpreadSample

_MOST_READERS = 100
BEAT = 0.5  # seconds between two looks for changes
_OVERVIEW_EVERY = 2  # beats
_MIGRATIONS = 500  # published in one beat; a plan may have thousands, and the event loop has other work
_BEHIND = 4 * 2**20  # bytes that one reader may be behind
_STILL_HERE = 15.0  # seconds of silence after which a comment shows that the connection is alive
_TO_TAKE = 30.0  # seconds for a reader to take what is sent
_log = structlog.stdlib.get_logger(__name__)
_COMMENT = b": still here\n\n"
_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # proxies that heed it would hold events back
}


def encode_event(event: str, data: object) -> bytes:
    """Encode an event; JSON has no line breaks, so it is one line of data."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), encode_json(data))


class Subscriber:
    """One open page, and the events that it has not been sent yet."""

    def __init__(self, hang_up: Callable[[], None]) -> None:
        self._hang_up = hang_up
        self._events = bytearray()
        self._woken = asyncio.Event()
        self.over = False
        self.sending = False
        """Whether it has not taken yet what it was sent last."""

    def offer(self, event: bytes) -> None:
        """Send an event soon; a page that is too far behind is cut off."""
        if self.over:
            return
        if len(self._events) + len(event) > _BEHIND:
            self.end()
            return
        self._events += event
        self._woken.set()

    def end(self) -> None:
        """Send nothing more. A page that does not take what it was sent would not see the end either: hang up."""
        self.over = True
        self._events.clear()
        self._woken.set()
        if self.sending:
            self._hang_up()

    async def next(self) -> bytes:
        """Wait for events, or for a comment after some silence; empty when it is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STILL_HERE):
                await self._woken.wait()
        self._woken.clear()
        if self.over:
            return b""
        events = bytes(self._events)
        self._events.clear()
        return events or _COMMENT


class EventHub:
    """All open pages."""

    def __init__(self) -> None:
        self._readers: set[Subscriber] = set()
        self._ended = False

    @property
    def readers(self) -> int:
        """The number of open pages."""
        return len(self._readers)

    def publish(self, event: str, data: object) -> None:
        """Send an event to all pages."""
        if self._readers:
            encoded = encode_event(event, data)
            for reader in self._readers:
                reader.offer(encoded)

    def end(self) -> None:
        """End all streams, and open no more."""
        self._ended = True
        for reader in self._readers:
            reader.end()

    async def stream(self, request: web.Request, hello: object) -> web.StreamResponse:
        """Answer with events until one side goes."""
        if self._ended or len(self._readers) >= _MOST_READERS:
            why = "the server is shutting down" if self._ended else f"{_MOST_READERS} pages are open already"
            raise HttpError(503, f"{why}: try again", Retry_After="5")
        response = web.StreamResponse(headers=_HEADERS)
        response.force_close()  # nothing can follow an endless answer on its connection
        if request.method == "HEAD":
            return response
        reader = Subscriber(lambda: _hang_up(request))
        reader.offer(encode_event("hello", hello))
        self._readers.add(reader)
        try:
            await response.prepare(request)
            while events := await reader.next():
                reader.sending = True
                async with asyncio.timeout(_TO_TAKE):
                    await response.write(events)
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


class Broadcaster:
    """Publishes changes; `revision` numbers the published changes of nodes."""

    def __init__(self, state: PageState, hub: EventHub) -> None:
        self._state = state
        self._hub = hub
        self._beats = 0
        self._layout = state.loads.layout
        self._overview_sent: object = None
        self._plan: float | None = None
        self.revision = 1

    async def run(self) -> None:
        """Publish changes until cancelled. One bad object never stops it."""
        while True:
            await asyncio.sleep(BEAT)
            try:
                self.publish_changes()
            except Exception:  # noqa: BLE001 - as said
                _log.exception("publishing changes to the page failed: internal error")

    def publish_changes(self) -> None:
        """Publish everything that has changed since the last time."""
        self._beats += 1
        self._nodes()
        self._migrations()
        self._sample()
        self._plans()
        if self._beats % _OVERVIEW_EVERY == 0:
            self._overview()

    def _nodes(self) -> None:
        loads, hub = self._state.loads, self._hub
        if not loads.touched:
            return
        indexes, reset = loads.indexes(loads.touched), loads.layout != self._layout
        loads.touched.clear()
        if not indexes and not reset:
            return  # only a node that does not exist, such as the target of a move
        self.revision += 1
        self._layout = loads.layout
        if reset:
            hub.publish("nodes", {"revision": self.revision, "reset": True})
        elif hub.readers:
            rows = views.node_rows(self._state, indexes)
            hub.publish("nodes", {"revision": self.revision, "count": self._state.cache.count("Node"), "rows": rows})

    def _migrations(self) -> None:
        moves, hub = self._state.moves, self._hub
        if not hub.readers:
            moves.changed.clear()
        for key in list(islice(moves.changed, _MIGRATIONS)):
            del moves.changed[key]
            migration = self._state.migrations.get(key)
            if migration is None:
                hub.publish("gone", {"namespace": key[0], "name": key[1]})
            else:
                hub.publish("migration", views.migration_row(self._state, migration))

    def _sample(self) -> None:
        state = self._state
        samples, now = state.samples, state.now()
        last = samples.last
        if not state.cache.count("Node") or (last is not None and 0 <= now - last.time < EVERY - BEAT / 2):
            return
        taken = SpreadSample(now, state.loads.stats().load, state.moves.completed)
        samples.add(taken)
        self._hub.publish("sample", views.sample(taken))

    def _plans(self) -> None:
        plans = self._state.plans
        plans.drop_unused()
        made = plans.newest.made if plans.newest is not None else None
        if made != self._plan:
            self._plan = made
            self._hub.publish("plan", {"made": made})

    def _overview(self) -> None:
        if not self._hub.readers:
            self._overview_sent = None
            return
        found = views.overview(self._state)
        lasting = views.without_time(found)
        if lasting != self._overview_sent:
            self._overview_sent = lasting
            self._hub.publish("overview", found)
