"""Sends answers: single objects, lists in pieces, Statuses, and the shapes in which objects are shown.

Whole objects are never decoded: the bytes of the store go out as they are. Clients that ask for a Table get rows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator

import msgspec
from aiohttp import web

from kubemini import events
from kubemini.errors import Json, StatusError
from kubemini.kinds import EVENT, Kind
from kubemini.server import tables
from kubemini.store import Entry

JSON = "application/json"
NOT_CACHED = {"Cache-Control": "no-cache, private"}

_PIECE = 250

_encode = msgspec.json.encode
_decode = msgspec.json.decode


class ObjectFormat:
    """Shows the objects themselves."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._head = b'{"apiVersion":"%b","kind":"%b",' % (kind.api_version.encode(), kind.name.encode())

    def one(self, raw: bytes) -> bytes:
        """An object by itself."""
        return raw

    def opening(self, metadata: Json) -> bytes:
        """A list up to its first item."""
        kind = self._kind
        head = {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata}
        return _encode(head)[:-1] + b',"items":['

    def item(self, raw: bytes) -> bytes:
        """An object in a list. Built-in objects do not repeat what they are."""
        if self._kind.custom or not raw.startswith(self._head):
            return raw
        return b"{" + raw[len(self._head) :]


class TableFormat:
    """Shows rows of a Table, as `kubectl get` prints them."""

    def __init__(self, kind: Kind) -> None:
        self._columns = tables.columns_of(kind)

    def one(self, raw: bytes) -> bytes:
        """A Table of one row."""
        version = _decode(raw)["metadata"].get("resourceVersion", "")
        return self.opening({"resourceVersion": version}) + self.item(raw) + b"]}"

    def opening(self, metadata: Json) -> bytes:
        """A Table up to its first row."""
        columns = [column.definition for column in self._columns]
        head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns}
        return _encode(head)[:-1] + b',"rows":['

    def item(self, raw: bytes) -> bytes:
        """A row."""
        body = _decode(raw)
        return _encode({"cells": [column.cell(body) for column in self._columns], "object": body})


Shape = ObjectFormat | TableFormat


def shape_of(request: web.Request, kind: Kind) -> Shape:
    """The format that a client accepts."""
    is_table = "as=Table" in request.headers.get("Accept", "").replace(",", ";").split(";")
    return TableFormat(kind) if is_table else ObjectFormat(kind)


def raw_of(kind: Kind, entry: Entry) -> bytes:
    """The bytes of a stored object in the form of the kind that was asked for."""
    return _encode(events.shown(entry.object())) if kind.resource == EVENT.resource else entry.raw


def answer(body: Json | bytes, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """One document."""
    raw = body if isinstance(body, bytes) else _encode(body)
    return web.Response(body=raw, status=status, content_type=JSON, headers=NOT_CACHED | (headers or {}))


def answer_object(request: web.Request, kind: Kind, body: Json, status: int = 200) -> web.Response:
    """An object as it was written, in the format that the client accepts."""
    if kind.resource == EVENT.resource:
        body = events.shown(body)
    return answer(shape_of(request, kind).one(_encode(body)), status)


def answer_error(error: StatusError) -> web.Response:
    """The Status of a request that was refused."""
    seconds = error.details.get("retryAfterSeconds")
    return answer(error.status, error.code, {"Retry-After": str(seconds)} if seconds else None)


def answer_text(body: str, status: int = 200) -> web.Response:
    """Plain text."""
    return web.Response(text=body, status=status, headers=NOT_CACHED)


async def send_list(request: web.Request, opening: bytes, items: Iterable[bytes]) -> web.StreamResponse:
    """A list, in pieces: the event loop does other work between two of them."""
    response = web.StreamResponse(headers=NOT_CACHED | {"Content-Type": JSON})
    await response.prepare(request)
    with abort_on_error(request):
        for piece in _pieces(opening, items):
            await response.write(piece)
            await asyncio.sleep(0)
        await response.write_eof()
    return response


@contextlib.contextmanager
def abort_on_error(request: web.Request) -> Iterator[None]:
    """Break off an answer that fails half-way, so that the client does not take it for the whole."""
    try:
        yield
    except Exception:
        if request.transport is not None:
            request.transport.abort()
        raise


def _pieces(opening: bytes, items: Iterable[bytes]) -> Iterator[bytes]:
    pending, separator = [opening], b""
    for number, item in enumerate(items, 1):
        pending += (separator, item)
        separator = b","
        if number % _PIECE == 0:
            yield b"".join(pending)
            pending.clear()
    yield b"".join(pending) + b"]}\n"
