"""Puts answers on the wire: objects, Statuses, texts, and lists that are too long for one piece.

Everything that is not a watch is sent from here. Large answers are compressed for clients that ask for it, and long
lists are written in pieces, so that neither the event loop nor the memory has to hold all of them at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import yaml
from aiohttp import web

from kubemini.refusals import Json, Refusal
from kubemini.server.negotiation import JSON, YAML
from kubemini.server.options import flag

_COMPRESSED_FROM = 128 * 1024
_LEVEL = 1  # on loopback, time counts for more than bytes
_PIECE = 250
_HEADERS = {"Cache-Control": "no-cache, private"}
_READ_BY_PEOPLE = ("curl", "Wget", "Mozilla/5.0")


def answer(request: web.Request, body: Any, *, status: int = 200, encoding: str = JSON) -> web.Response:
    """One object, as bytes or not."""
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    if encoding == YAML:
        raw = as_yaml(raw)
    elif _pretty(request):
        raw = msgspec.json.format(raw, indent=2)
    if not raw.endswith(b"\n"):
        raw += b"\n"
    response = web.Response(status=status, content_type=encoding, headers=_HEADERS)
    response.body = _compressed(request, response, raw)
    return response


def refusal_answer(request: web.Request, refusal: Refusal) -> web.Response:
    """The Status of a request that was refused."""
    response = answer(request, refusal.status, status=refusal.code)
    seconds = refusal.details.get("retryAfterSeconds")
    if seconds:
        response.headers["Retry-After"] = str(seconds)
    return response


def success(details: Json) -> Json:
    """The Status of something done that leaves nothing to show."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def text(body: str, status: int = 200) -> web.Response:
    """Plain text."""
    return web.Response(text=body, status=status, headers=_HEADERS)


def as_yaml(raw: bytes) -> bytes:
    """JSON as YAML."""
    dumped: bytes = yaml.dump(msgspec.json.decode(raw), Dumper=yaml.CSafeDumper, encoding="utf-8", allow_unicode=True)
    return dumped


async def send_list(request: web.Request, opening: bytes, items: Iterable[bytes], closing: bytes) -> web.StreamResponse:
    """A long list, in pieces."""
    response = web.StreamResponse(headers=_HEADERS | {"Content-Type": JSON})
    compressor = zlib.compressobj(_LEVEL, wbits=31) if _wants_gzip(request) else None
    if compressor is not None:
        response.headers["Content-Encoding"] = "gzip"
    await response.prepare(request)
    with breaking_off(request):
        for piece in _pieces(opening, items, closing):
            packed = piece if compressor is None else compressor.compress(piece)
            if packed:
                await response.write(packed)
            await asyncio.sleep(0)  # writing waits only when the client is slow: let others have their turn
        await response.write_eof(b"" if compressor is None else compressor.flush())
    return response


def _pieces(opening: bytes, items: Iterable[bytes], closing: bytes) -> Iterator[bytes]:
    pending, separator = [opening], b""
    for number, item in enumerate(items, 1):
        pending += (separator, item)
        separator = b","
        if number % _PIECE == 0:
            yield b"".join(pending)
            pending.clear()
    yield b"".join(pending) + closing


@contextlib.contextmanager
def breaking_off(request: web.Request) -> Iterator[None]:
    """An answer in pieces that fails half-way is broken off, so that the client does not take it for the whole."""
    try:
        yield
    except Exception:
        if request.transport is not None:
            request.transport.abort()
        raise


def _compressed(request: web.Request, response: web.Response, raw: bytes) -> bytes:
    if len(raw) < _COMPRESSED_FROM or not _wants_gzip(request):
        return raw
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    return gzip.compress(raw, _LEVEL)


def _wants_gzip(request: web.Request) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "")


def _pretty(request: web.Request) -> bool:
    if "pretty" in request.query:
        return flag(request.query, "pretty")
    return request.headers.get("User-Agent", "").startswith(_READ_BY_PEOPLE)
