"""Watches: what happens to a collection, told as it happens, from a version on or after a list of what is there.

Each write calls every watch of its kind, which only notes what concerns it; a task per watch does the rest, so that a
slow client holds up nobody. One that does not keep up at all is cut off and has to come again, instead of filling the
memory. Bookmarks tell quiet clients how far they have seen.
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
from kubemini.kinds import DEFINITION
from kubemini.refusals import Json, Refusal
from kubemini.server import answers, negotiation, selection, shapes
from kubemini.server.listing import too_large
from kubemini.server.negotiation import JSON, METADATA, TABLE
from kubemini.server.options import ListOptions
from kubemini.server.paths import Place
from kubemini.server.selection import Selection
from kubemini.server.shapes import Shape
from kubemini.store import HISTORY, Change, Entry

BOOKMARK_SECONDS = 60.0
_LAST_BOOKMARK_SECONDS = 2.0  # before the end: whoever comes again then has least to catch up with
_SHORTEST_SECONDS = 1800  # of a watch that names no time; up to twice as long, so that not all end at once
_PATIENCE_SECONDS = 5.0
_PIECE = 100
_END_OF_INITIAL = {"k8s.io/initial-events-end": "true"}

_encode = msgspec.json.encode


class Happening(NamedTuple):
    """Something that a watch tells: `entry` as it is now, or as it was before it went, at the version when it did."""

    type: str
    entry: Entry
    version: int


class Watches:
    """All watches that run."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._running: set[_Watch] = set()

    async def serve(self, request: web.Request, place: Place, options: ListOptions) -> web.StreamResponse:
        """Watch until the client goes, its time is over, or the server ends."""
        accepted = negotiation.accepted(request.headers.get("Accept", ""), TABLE, METADATA, yaml=False)
        shape = shapes.shape_of(place.kind, accepted, request.query.get("includeObject", ""))
        if place.name:
            wanted = selection.one(place.kind, place.namespace, place.name)
        else:
            wanted = selection.selection(place.kind, place.namespace, options.labels, options.fields)
        response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
        watch = _Watch(self._api, wanted, options, _Stream(request, response, shape, wanted))
        self._running.add(watch)
        try:
            with answers.breaking_off(request):
                await watch.run()
        except ConnectionResetError:
            pass  # the client has gone in the middle of a piece: there is nobody to tell
        finally:
            self._running.discard(watch)
        return response

    def end(self) -> None:
        """End all of them."""
        for watch in self._running:
            watch.end()

    def __len__(self) -> int:
        return len(self._running)


class _Stream:
    """Writes events to one client."""

    def __init__(self, request: web.Request, response: web.StreamResponse, shape: Shape, wanted: Selection) -> None:
        self._request = request
        self._response = response
        self._shape = shape
        self._kind = wanted.kind
        self.writing_since: float | None = None
        """Since when a piece waits for the client to take it."""

    async def open(self) -> None:
        """Send the answer's head."""
        await self._response.prepare(self._request)

    def cut(self) -> None:
        """Hang up if the client does not take what it was sent: it would hold up the end of the answer for ever."""
        if self.writing_since is not None and self._request.transport is not None:
            self._request.transport.abort()

    async def tell(self, happenings: Iterable[Happening]) -> None:
        """Write events, some at a time."""
        piece: list[bytes] = []
        for happening in happenings:
            piece.append(self._event(happening.type, self._object(happening)))
            if len(piece) >= _PIECE:
                await self._write(b"".join(piece))
                piece.clear()
                await asyncio.sleep(0)  # writing waits only when the client is slow: let others have their turn
        if piece:
            await self._write(b"".join(piece))

    async def bookmark(self, version: int, annotations: dict[str, str] | None = None) -> None:
        """Say that everything up to a version has been told."""
        metadata: Json = {"resourceVersion": str(version)}
        if annotations:
            metadata["annotations"] = annotations
        body = {"apiVersion": self._kind.api_version, "kind": self._kind.name, "metadata": metadata}
        await self._write(self._event("BOOKMARK", self._shape.event(_encode(body))))

    async def refuse(self, refusal: Refusal) -> None:
        """Say that the watch cannot go on; the answer's head has gone out, so it is an event."""
        await self._write(self._event("ERROR", _encode(refusal.status)))

    def _object(self, happening: Happening) -> bytes:
        raw = shapes.raw_of(self._kind, happening.entry)
        if happening.version != happening.entry.version:
            raw = shapes.versioned(raw, happening.version)
        return self._shape.event(raw)

    def _event(self, sort: str, raw: bytes) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (sort.encode(), raw)

    async def _write(self, data: bytes) -> None:
        self.writing_since = asyncio.get_running_loop().time()
        await self._response.write(data)
        self.writing_since = None


class _Watch:
    """One watch."""

    def __init__(self, api: Api, wanted: Selection, options: ListOptions, stream: _Stream) -> None:
        self._api = api
        self._wanted = wanted
        self._options = options
        self._stream = stream
        self._pending: deque[Happening] = deque()
        self._wake = asyncio.Event()
        self._ended = False
        loop = asyncio.get_running_loop()
        seconds = options.seconds or random.uniform(_SHORTEST_SECONDS, 2 * _SHORTEST_SECONDS)  # noqa: S311  no secret
        self._deadline = loop.time() + seconds
        self._bookmark_at = self._next_bookmark(loop.time())
        self._time = loop.time

    async def run(self) -> None:
        """Tell until it is over."""
        unsubscribe = self._subscribe()
        try:
            initial, refusal = self._beginning()
            told = self._api.store.version
            await self._stream.open()
            async with asyncio.timeout_at(self._deadline):
                if refusal is not None:
                    await self._stream.refuse(refusal)
                else:
                    await self._tell(initial, told)
        except TimeoutError:
            self._stream.cut()
        finally:
            unsubscribe()
            self._pending.clear()

    def end(self) -> None:
        """Stop telling."""
        self._ended = True
        self._wake.set()
        self._stream.cut()

    def _subscribe(self) -> Callable[[], None]:
        kind = self._wanted.kind
        kinds = (kind, DEFINITION) if kind.custom else (kind,)
        return self._api.store.subscribe(self._changed, *kinds)

    def _beginning(self) -> tuple[Iterable[Happening], Refusal | None]:
        """What is told first, or why nothing can be. Nothing happens meanwhile: this does not wait."""
        options, store = self._options, self._api.store
        if options.initial and (options.version or 0) > store.version:
            return (), too_large(options.version or 0, store.version)
        if options.initial or (options.initial is None and not options.version):
            entries = self._wanted.of(store)
            return (Happening("ADDED", entry, entry.version) for entry in entries), None
        if not options.version:
            return (), None
        try:
            changes = store.since(self._wanted.kind, options.version)
        except Refusal as refusal:
            return (), refusal
        return [told for change in changes if (told := self._happening(change)) is not None], None

    async def _tell(self, initial: Iterable[Happening], told: int) -> None:
        await self._stream.tell(initial)
        options = self._options
        # The old way of asking for what is there (no version, or 0) is told the end of it, too, if it takes bookmarks.
        if options.bookmarks and (options.initial or (options.initial is None and not options.version)):
            await self._stream.bookmark(told, _END_OF_INITIAL)
        while not self._ended:
            await self._stream.tell(self._drain())
            if self._ended:
                return
            now = self._time()
            # What has happened while the last piece was written is not told yet, and a bookmark would skip it.
            if options.bookmarks and now >= self._bookmark_at and not self._pending:
                self._bookmark_at = self._next_bookmark(now)
                await self._stream.bookmark(self._api.store.version)
            await self._wait()

    async def _wait(self) -> None:
        """Until there is something to do; a time-out is no end."""
        if self._pending or self._ended:
            return
        self._wake.clear()
        if not self._options.bookmarks:
            await self._wake.wait()
            return
        try:
            async with asyncio.timeout_at(self._bookmark_at):
                await self._wake.wait()
        except TimeoutError:
            if self._time() >= self._deadline:
                raise

    def _next_bookmark(self, now: float) -> float:
        last = self._deadline - _LAST_BOOKMARK_SECONDS
        return min(now + BOOKMARK_SECONDS, last) if now < last else self._deadline + BOOKMARK_SECONDS

    def _drain(self) -> Iterator[Happening]:
        while self._pending:
            yield self._pending.popleft()

    def _changed(self, change: Change) -> None:
        """Called inside each write: note it, and wake the task."""
        kind = self._wanted.kind
        if change.kind.stored_as != kind.stored_as:
            if change.type == "DELETED" and change.entry.key[1] == kind.resource:
                self.end()  # with its definition the kind is no longer served
            return
        if change.version <= (self._options.version or 0):
            return
        happening = self._happening(change)
        if happening is None or self._ended:
            return
        self._pending.append(happening)
        self._wake.set()
        since = self._stream.writing_since
        # One that merely had no turn yet, because very much happened at once, is not slow.
        if len(self._pending) > HISTORY and since is not None and self._time() - since > _PATIENCE_SECONDS:
            self._pending.clear()
            self.end()

    def _happening(self, change: Change) -> Happening | None:
        """What a change is to this watch: an object that comes to match is new, one that ceases to is gone."""
        entry, before = change.entry, change.before
        matched = before is not None and self._wanted.matches(before)
        if change.type != "DELETED" and self._wanted.matches(entry):
            return Happening("MODIFIED" if matched else "ADDED", entry, change.version)
        if matched and before is not None:
            return Happening("DELETED", before, change.version)
        return None
