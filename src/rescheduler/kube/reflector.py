"""Keeps a copy of one kind: lists it, watches it, and passes every change to a sink.

Watch lines are assembled here and not by `readline`, because one event may be larger than any line that a stream reader
accepts.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Protocol, TypeVar

import msgspec
import structlog

from rescheduler.decode.reader import Bytes, without_gc
from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import BROKEN_OFF, NOT_KUBERNETES, ApiError, Backoff, ClusterError

SILENCE = 150.0
"""Seconds. Bookmarks come about every minute, so a server that is silent for longer is gone."""


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """ADDED, MODIFIED, DELETED or BOOKMARK, and the undecoded object."""

    type: str
    object: msgspec.Raw


class _Failure(msgspec.Struct):
    code: int = 500
    reason: str = ""
    message: str = ""


T = TypeVar("T")
_event = msgspec.json.Decoder(WatchEvent)
_failure = msgspec.json.Decoder(_Failure)


class LineBuffer:
    """Splits a stream of chunks into lines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes."""
        head, newline, tail = chunk.partition(b"\n")
        if not newline:
            self._parts.append(chunk)
            return []
        first = b"".join((*self._parts, head))
        *lines, rest = tail.split(b"\n")
        self._parts = [rest] if rest else []
        return [line for line in (first, *lines) if line]


async def watch(
    client: ApiClient, path: str, params: Mapping[str, str], opened: Callable[[], None]
) -> AsyncGenerator[WatchEvent, None]:
    """Yield the events of a watch until the server ends it; raise ApiError for an ERROR event.

    `opened` is called when the server has accepted the watch: the first event may come a minute later.
    """
    lines = LineBuffer()
    request = ApiRequest("GET", path, {**params, "watch": "true", "allowWatchBookmarks": "true"})
    async with aclosing(client.stream(request, SILENCE)) as chunks:
        async for chunk in chunks:
            if not chunk:
                opened()
            for line in lines.feed(chunk):
                event = decode_message(_event, line, path)
                if event.type == "ERROR":
                    failure = decode_message(_failure, event.object, path)
                    raise ApiError(failure.code, failure.reason, failure.message, path)
                yield event


def decode_message(decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw, path: str) -> T:
    """Decode a message of the watch protocol; if it is invalid, the server is not an API server."""
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ApiError(None, NOT_KUBERNETES, f"a watch event does not decode: {error}", path) from error


_log = structlog.stdlib.get_logger(__name__)
_SHORTEST, _LONGEST = 300, 600  # seconds of one watch, as in client-go: spreads load over servers
_TOO_SHORT = 1.0  # seconds; a shorter watch without events counts as a failure, else this would be a busy loop
_LIST_ENDS = "k8s.io/initial-events-end"


class Sink(Protocol):
    """A store of objects. Each object is passed as JSON; the methods return its resourceVersion."""

    def begin(self) -> None:
        """Start a new state: objects that are not put before `complete` are gone."""

    def put(self, raw: Bytes) -> str:
        """Add or update an object."""

    def drop(self, raw: Bytes) -> str:
        """Remove an object."""

    def complete(self) -> None:
        """Finish the state that `begin` started."""


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _Meta


_bookmark = msgspec.json.Decoder(_Bookmark)


class Reflector:
    """Keeps the copy of one kind."""

    def __init__(self, client: ApiClient, path: str, sink: Sink, backoff: Backoff | None = None) -> None:
        self._client = client
        self._path = path
        self._plural = path.rpartition("/")[2]
        self._sink = sink
        self._backoff = backoff or Backoff(longest=30.0)
        self._version = ""
        self._streams = True
        self._failures = 0
        self.synced = asyncio.Event()
        """Set when the first state is complete."""
        self.failure = ""
        """Why the copy is out of date now; empty if it is up to date."""
        self._heard: float | None = None

    @property
    def lag(self) -> float | None:
        """Seconds since the last message from the server; None before the first one.

        An idle server sends a bookmark about once a minute. The lag grows while a watch is down or a list is read,
        because the copy has nothing of it yet.
        """
        return None if self._heard is None else time.monotonic() - self._heard

    async def run(self) -> None:
        """Keep the copy up to date until cancelled."""
        while True:
            try:
                await self._follow()
            except ClusterError as error:
                await self._handle(error)

    async def _follow(self) -> None:
        if self._version:
            await self._watch({"resourceVersion": self._version})
        elif self._streams:
            self._sink.begin()
            await self._watch({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})
        else:
            await self._list()

    async def _handle(self, error: ClusterError) -> None:
        status = error.status if isinstance(error, ApiError) else None
        if status in (400, 422) and not self._version and self._streams:
            self._streams = False  # the server has no streaming lists, or they are disabled
            return
        if status == 410:
            _log.info("watch expired, listing again", resource=self._plural)
            self._version = ""
            if not self._failures:
                self._failures += 1
                return
        self._failures += 1
        self.failure = str(error)
        _log.warning("watch failed, retrying", resource=self._plural, error=str(error))
        asked = error.retry_after if isinstance(error, ApiError) else None
        await self._backoff.pause(min(self._failures, 20), asked)

    async def _list(self) -> None:
        version = ""
        async with aclosing(self._client.list_pages(self._path)) as pages:
            async for page in pages:
                if page.first:
                    self._sink.begin()
                for item in page.items():
                    self._sink.put(item)
                version = page.version
        self._complete(version)

    async def _watch(self, params: dict[str, str]) -> None:
        seconds = random.randint(_SHORTEST, _LONGEST)  # noqa: S311  only spreads load
        params = {**params, "timeoutSeconds": str(seconds)}
        clock = asyncio.get_running_loop().time
        started, received = clock(), False
        async with aclosing(watch(self._client, self._path, params, self._opened)) as events:
            async for event in events:
                self._take(event)
                received = True
        if not received and clock() - started < _TOO_SHORT:
            raise ApiError(None, BROKEN_OFF, "the watch ended at once, without an event", self._path)

    def _take(self, event: WatchEvent) -> None:
        match event.type:
            case "ADDED" | "MODIFIED":
                version = self._sink.put(event.object)
            case "DELETED":
                version = self._sink.drop(event.object)
            case "BOOKMARK":
                metadata = decode_message(_bookmark, event.object, self._path).metadata
                version = metadata.resource_version
                if not self._version and (metadata.annotations or {}).get(_LIST_ENDS) == "true":
                    self._complete(version)
            case other:
                raise ApiError(None, "UnknownEvent", f"a watch event of type {other!r}", self._path)
        if self._version:  # while a list is streamed, versions are in no order
            self._version = version or self._version
            self._healthy()

    def _opened(self) -> None:
        """Note that the server has accepted the watch. Only events show whether it works, so failures are not reset."""
        if self._version:
            self.failure = ""
            self._heard = time.monotonic()

    def _complete(self, version: str) -> None:
        if not version:
            raise ApiError(None, NOT_KUBERNETES, "a list without a version cannot be followed", self._path)
        self._sink.complete()
        self._version = version
        self.synced.set()
        self._healthy()

    def _healthy(self) -> None:
        self._heard = time.monotonic()
        self._failures = 0
        self.failure = ""


async def wait_for_first_sync(reflectors: Iterable[Reflector], patience: float = 300.0) -> None:
    """Wait until every reflector is synced, without garbage collection for up to `patience` seconds."""
    waiting = asyncio.gather(*(reflector.synced.wait() for reflector in reflectors))
    try:
        with without_gc():
            done, _ = await asyncio.wait([waiting], timeout=patience)
        if not done:
            await waiting
            gc.freeze()
    finally:
        waiting.cancel()
