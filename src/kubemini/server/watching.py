"""Watches: what happens to a collection, sent as it happens, from a version on or after a list of what is there.

Each write calls every watch of its kind, which only queues what concerns it. A task per watch sends it, so that a slow
client delays no other. A client that does not keep up is cut off and has to list again. Bookmarks tell quiet clients
how far they have seen.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec
from aiohttp import web

from kubemini.api import Api
from kubemini.errors import Json, StatusError
from kubemini.kinds import DEFINITION
from kubemini.server import answers
from kubemini.server.answers import Shape
from kubemini.server.listing import Selection, selection
from kubemini.server.requests import ListOptions, RequestTarget
from kubemini.store import HISTORY, Change, Entry

BOOKMARK_SECONDS = 60.0
_LAST_BOOKMARK_SECONDS = 2.0  # before the end: a client that comes again then has least to catch up with
_SHORTEST_SECONDS = 1800  # of a watch that names no time; up to twice as long, so that not all end at once
_PIECE = 100
_END_OF_INITIAL = {"k8s.io/initial-events-end": "true"}

_encode = msgspec.json.encode


class Event(NamedTuple):
    """A watch event: `entry` as it is now, or as it was before it left, and the version of the change."""

    type: str
    entry: Entry
    version: int


class Watches:
    """All watches that run."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._running: set[_Watch] = set()

    async def serve(self, request: web.Request, place: RequestTarget, options: ListOptions) -> web.StreamResponse:
        """Watch until the client goes, its time is over, or the server ends."""
        shape = answers.shape_of(request, place.kind)
        wanted = selection(place, options)
        response = web.StreamResponse(headers=answers.NOT_CACHED | {"Content-Type": answers.JSON})
        watch = _Watch(self._api, wanted, options, _Stream(request, response, shape, wanted))
        self._running.add(watch)
        try:
            with answers.abort_on_error(request):
                await watch.run()
        except ConnectionResetError:
            pass  # the client has gone in the middle of a piece
        finally:
            self._running.discard(watch)
        return response

    def end(self) -> None:
        """End all of them."""
        for watch in self._running:
            watch.end()


class _Stream:
    """Writes events to one client."""

    def __init__(self, request: web.Request, response: web.StreamResponse, shape: Shape, wanted: Selection) -> None:
        self._request = request
        self._response = response
        self._shape = shape
        self._kind = wanted.kind
        self._is_writing = False

    async def open(self) -> None:
        """Send the head of the answer."""
        await self._response.prepare(self._request)

    def cut(self) -> None:
        """Abort a connection whose client does not take what is being sent; else the answer would never end."""
        if self._is_writing and self._request.transport is not None:
            self._request.transport.abort()

    async def send(self, events: Iterable[Event]) -> None:
        """Write events, some at a time."""
        piece: list[bytes] = []
        for event in events:
            piece.append(_line(event.type, self._object(event)))
            if len(piece) >= _PIECE:
                await self._write(b"".join(piece))
                piece.clear()
                await asyncio.sleep(0)  # writing waits only when the client is slow
        if piece:
            await self._write(b"".join(piece))

    async def bookmark(self, version: int, annotations: dict[str, str] | None = None) -> None:
        """Say that everything up to a version has been sent."""
        metadata: Json = {"resourceVersion": str(version)}
        if annotations:
            metadata["annotations"] = annotations
        body = {"apiVersion": self._kind.api_version, "kind": self._kind.name, "metadata": metadata}
        await self._write(_line("BOOKMARK", self._shape.one(_encode(body))))

    async def refuse(self, error: StatusError) -> None:
        """Say that the watch cannot go on. The head of the answer is out, so it is an event."""
        await self._write(_line("ERROR", _encode(error.status)))

    def _object(self, event: Event) -> bytes:
        raw = answers.raw_of(self._kind, event.entry)
        if event.version != event.entry.version:
            body = msgspec.json.decode(raw)
            body["metadata"]["resourceVersion"] = str(event.version)
            raw = _encode(body)
        return self._shape.one(raw)

    async def _write(self, data: bytes) -> None:
        self._is_writing = True
        await self._response.write(data)
        self._is_writing = False


class _Watch:
    """One watch."""

    def __init__(self, api: Api, wanted: Selection, options: ListOptions, stream: _Stream) -> None:
        self._api = api
        self._wanted = wanted
        self._options = options
        self._stream = stream
        self._pending: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._ended = False
        self._time = asyncio.get_running_loop().time
        seconds = options.seconds or random.uniform(_SHORTEST_SECONDS, 2 * _SHORTEST_SECONDS)  # noqa: S311  no secret
        self._deadline = self._time() + seconds
        self._bookmark_at = self._next_bookmark(self._time())
        self._begins_with_list = options.initial or (options.initial is None and not options.version)

    async def run(self) -> None:
        """Send events until it is over."""
        unsubscribe = self._subscribe()
        try:
            initial, error = self._beginning()
            version = self._api.store.version
            await self._stream.open()
            async with asyncio.timeout_at(self._deadline):
                if error is not None:
                    await self._stream.refuse(error)
                else:
                    await self._send(initial, version)
        except TimeoutError:
            self._stream.cut()
        finally:
            unsubscribe()
            self._pending.clear()

    def end(self) -> None:
        """Stop sending."""
        self._ended = True
        self._wake.set()
        self._stream.cut()

    def _subscribe(self) -> Callable[[], None]:
        kind = self._wanted.kind
        kinds = (kind, DEFINITION) if kind.custom else (kind,)
        return self._api.store.subscribe(self._changed, *kinds)

    def _beginning(self) -> tuple[Iterable[Event], StatusError | None]:
        """What is sent first, or why nothing can be. This does not wait, so nothing happens meanwhile."""
        store, version = self._api.store, self._options.version
        if self._begins_with_list:
            return (Event("ADDED", entry, entry.version) for entry in self._wanted.of(store)), None
        if not version:
            return (), None
        try:
            changes = store.since(self._wanted.kind, version)
        except StatusError as error:
            return (), error
        return [event for change in changes if (event := self._event(change)) is not None], None

    async def _send(self, initial: Iterable[Event], version: int) -> None:
        await self._stream.send(initial)
        if self._options.bookmarks and self._begins_with_list:
            await self._stream.bookmark(version, _END_OF_INITIAL)
        while not self._ended:
            await self._stream.send(self._drain())
            if self._ended:
                return
            now = self._time()
            # What has happened while the last piece was written is not sent yet, and a bookmark would skip it.
            if self._options.bookmarks and now >= self._bookmark_at and not self._pending:
                self._bookmark_at = self._next_bookmark(now)
                await self._stream.bookmark(self._api.store.version)
            await self._wait()

    async def _wait(self) -> None:
        """Wait for an event, the end, or the time of the next bookmark."""
        if self._pending or self._ended:
            return
        self._wake.clear()
        try:
            async with asyncio.timeout_at(self._bookmark_at if self._options.bookmarks else None):
                await self._wake.wait()
        except TimeoutError:
            if self._time() >= self._deadline:
                raise

    def _next_bookmark(self, now: float) -> float:
        last = self._deadline - _LAST_BOOKMARK_SECONDS
        return min(now + BOOKMARK_SECONDS, last) if now < last else self._deadline + BOOKMARK_SECONDS

    def _drain(self) -> Iterator[Event]:
        while self._pending:
            yield self._pending.popleft()

    def _changed(self, change: Change) -> None:
        """Called inside each write: queue it, and wake the task."""
        kind = self._wanted.kind
        if change.kind.stored_as != kind.stored_as:
            if change.type == "DELETED" and change.entry.key[1] == kind.resource:
                self.end()  # with its definition the kind is no longer served
            return
        event = self._event(change)
        if event is None or self._ended:
            return
        self._pending.append(event)
        self._wake.set()
        if len(self._pending) > HISTORY:
            self._pending.clear()
            self.end()

    def _event(self, change: Change) -> Event | None:
        """What a change is to this watch: an object that comes to match is new, one that ceases to match is gone."""
        entry, before = change.entry, change.before
        matched = before is not None and self._wanted.matches(before)
        if change.type != "DELETED" and self._wanted.matches(entry):
            return Event("MODIFIED" if matched else "ADDED", entry, change.version)
        if matched and before is not None:
            return Event("DELETED", before, change.version)
        return None


def _line(event: str, raw: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (event.encode(), raw)
