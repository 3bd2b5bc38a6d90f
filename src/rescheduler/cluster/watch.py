"""The events of one watch, as they come: from the bytes of the stream to a type and an undecoded object.

`reflector` asks for them and decides what they mean. Lines are put together here and not by `readline`, because one
event may be larger than any line that a stream reader accepts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TypeVar

import msgspec

from rescheduler.cluster.client import ApiClient, Request
from rescheduler.cluster.errors import ApiError
from rescheduler.cluster.failures import NOT_KUBERNETES

SILENCE = 150.0
"""Seconds. Bookmarks come about every minute, so a server that is silent for longer is not there any more."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """ADDED, MODIFIED, DELETED or BOOKMARK, and the object, undecoded."""

    type: str
    object: msgspec.Raw


class _Failure(msgspec.Struct):
    code: int = 500
    reason: str = ""
    message: str = ""


T = TypeVar("T")
_event = msgspec.json.Decoder(Event)
_failure = msgspec.json.Decoder(_Failure)


class Lines:
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
) -> AsyncGenerator[Event, None]:
    """The events of a watch until the server ends it; an ERROR event is raised as the ApiError that it tells of.

    `opened` is called when the server has agreed to tell: the first event may be a minute away.
    """
    lines = Lines()
    request = Request("GET", path, {**params, "watch": "true", "allowWatchBookmarks": "true"})
    async with aclosing(client.stream(request, SILENCE)) as chunks:
        async for chunk in chunks:
            if not chunk:
                opened()
            for line in lines.feed(chunk):
                event = decoded(_event, line, path)
                if event.type == "ERROR":
                    failure = decoded(_failure, event.object, path)
                    raise ApiError(failure.code, failure.reason, failure.message, path)
                yield event


def decoded(decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw, path: str) -> T:
    """A part of the protocol, not of the cluster: if it makes no sense, whoever answers is no API server."""
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ApiError(None, NOT_KUBERNETES, f"a watch event does not decode: {error}", path) from error
