"""The events of one watch, as they come: from the bytes of the stream to a type and an undecoded object.

`reflector` asks for them and decides what they mean. Lines are put together here and not by `readline`, because one
event may be larger than any line that a stream reader accepts.
"""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import random
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Protocol, TypeVar

import msgspec

from rescheduler.decode.reader import without_gc
from rescheduler.decode.split import split
from rescheduler.decode.structs import ApiResource
from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import BROKEN_OFF, NOT_KUBERNETES, ApiError, Backoff, ClusterError

SILENCE = 150.0
"""Seconds. Bookmarks come about every minute, so a server that is silent for longer is not there any more."""


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """ADDED, MODIFIED, DELETED or BOOKMARK, and the object, undecoded."""

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
    """Puts chunks together and takes them apart at the ends of lines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
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
    """The events of a watch until the server ends it; an ERROR event is raised as the ApiError that it tells of.

    `opened` is called when the server has agreed to tell: the first event may be a minute away.
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
    """A part of the protocol, not of the cluster: if it makes no sense, whoever answers is no API server."""
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ApiError(None, NOT_KUBERNETES, f"a watch event does not decode: {error}", path) from error


_log = logging.getLogger(__name__)
_SHORTEST, _LONGEST = 300, 600  # seconds of one watch, as client-go's: servers can shed load, and we spread ours
_TOO_SHORT = 1.0  # seconds; whoever hangs up sooner would have us come back in a tight circle
_LIST_ENDS = "k8s.io/initial-events-end"


class Sink(Protocol):
    """Who keeps the objects. Each object comes as its JSON; the answers are their versions."""

    def begin(self) -> None:
        """A whole new state follows: what is not put before `complete` is gone."""

    def put(self, raw: bytes | memoryview | msgspec.Raw) -> str:
        """An object is there, or has changed."""

    def drop(self, raw: bytes | memoryview | msgspec.Raw) -> str:
        """An object is gone."""

    def complete(self) -> None:
        """The state that `begin` opened is whole."""


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _Meta


_bookmark = msgspec.json.Decoder(_Bookmark)


class Reflector:
    """One kind's copy."""

    def __init__(self, client: ApiClient, resource: ApiResource, sink: Sink, backoff: Backoff | None = None) -> None:
        self._client = client
        self._resource = resource
        self._sink = sink
        self._backoff = backoff or Backoff(longest=30.0)
        self._version = ""
        self._streams = True
        self._failures = 0
        self.synced = asyncio.Event()
        """Set once the first state is whole."""
        self.failure = ""
        """Why the copy is not up to date at the moment; empty when it is."""
        self._heard: float | None = None

    @property
    def lag(self) -> float | None:
        """For how many seconds the server has told nothing; None before it ever did.

        A server with nothing to tell says so about once a minute (bookmarks). While a watch is down or a list is read
        anew it grows, because nothing of that is in the copy yet.
        """
        return None if self._heard is None else time.monotonic() - self._heard

    async def run(self) -> None:
        """Follow the kind until cancelled."""
        while True:
            try:
                await self._follow()
            except ClusterError as error:
                await self._after(error)

    async def _follow(self) -> None:
        if self._version:
            await self._watch({"resourceVersion": self._version})
        elif self._streams:
            self._sink.begin()
            await self._watch({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})
        else:
            await self._list()

    async def _after(self, error: ClusterError) -> None:
        status = error.status if isinstance(error, ApiError) else None
        if status in (400, 422) and not self._version and self._streams:
            self._streams = False  # a server from before streaming lists, or with them switched off
            return
        if status == 410:
            _log.info("%s: the watch fell behind; listed anew", self._resource.plural)
            self._version = ""
            if not self._failures:
                self._failures += 1
                return
        self._failures += 1
        self.failure = str(error)
        _log.warning("%s: %s; tried again", self._resource.plural, error)
        asked = error.retry_after if isinstance(error, ApiError) else None
        await self._backoff.pause(min(self._failures, 20), asked)

    async def _list(self) -> None:
        version = ""
        async with aclosing(self._client.list_pages(self._resource.path)) as pages:
            async for page in pages:
                if page.first:
                    self._sink.begin()
                for part in split(io.BytesIO(page.body)):
                    if isinstance(part, memoryview):
                        self._sink.put(part)
                version = page.version
        self._complete(version)

    async def _watch(self, params: dict[str, str]) -> None:
        seconds = random.randint(_SHORTEST, _LONGEST)  # noqa: S311  it spreads load, nothing more
        params = {**params, "timeoutSeconds": str(seconds)}
        clock = asyncio.get_running_loop().time
        started, heard = clock(), False
        async with aclosing(watch(self._client, self._resource.path, params, self._opened)) as events:
            async for event in events:
                self._take(event)
                heard = True
        if not heard and clock() - started < _TOO_SHORT:
            raise ApiError(None, BROKEN_OFF, "the watch ended at once, without an event", self._resource.path)

    def _take(self, event: WatchEvent) -> None:
        match event.type:
            case "ADDED" | "MODIFIED":
                version = self._sink.put(event.object)
            case "DELETED":
                version = self._sink.drop(event.object)
            case "BOOKMARK":
                metadata = decode_message(_bookmark, event.object, self._resource.path).metadata
                version = metadata.resource_version
                if not self._version and (metadata.annotations or {}).get(_LIST_ENDS) == "true":
                    self._complete(version)
            case other:
                raise ApiError(None, "UnknownEvent", f"a watch event of type {other!r}", self._resource.path)
        if self._version:  # while a list is streamed, versions come in no order
            self._version = version or self._version
            self._healthy()

    def _opened(self) -> None:
        """The copy is as new as it can be, or soon will be; whether the server keeps its word only events show."""
        if self._version:
            self.failure = ""
            self._heard = time.monotonic()

    def _complete(self, version: str) -> None:
        if not version:
            raise ApiError(None, NOT_KUBERNETES, "a list without a version cannot be followed", self._resource.path)
        self._sink.complete()
        self._version = version
        self.synced.set()
        self._healthy()

    def _healthy(self) -> None:
        self._heard = time.monotonic()
        self._failures = 0
        self.failure = ""


async def wait_for_first_sync(reflectors: Iterable[Reflector], patience: float = 300.0) -> None:
    """Wait until every reflector has its first state. After `patience` seconds rubbish is collected as ever."""
    waiting = asyncio.gather(*(reflector.synced.wait() for reflector in reflectors))
    try:
        with without_gc():
            done, _ = await asyncio.wait([waiting], timeout=patience)
        if not done:
            await waiting
            gc.freeze()
    finally:
        waiting.cancel()
