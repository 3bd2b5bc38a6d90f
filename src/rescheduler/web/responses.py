"""JSON responses, compressed where that helps, and errors as a sentence with a status.

Handlers return what `json_response` makes, or raise HttpError. The middleware `errors` turns that, and anything else
that goes wrong, into `{"error": …}`. Large bodies are compressed in a thread, since the loop has leases to renew.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import structlog
from aiohttp import ClientConnectionError, web

_log = structlog.stdlib.get_logger(__name__)
_SMALL = 1_024  # bytes that are sent as they are: a packet is a packet
_LARGE = 32_768  # bytes that take longer to compress than the loop may wait
_LEVEL = 5
_JSON = "application/json"
_NO_STORE = {"Cache-Control": "no-store"}
_SAID = {
    400: "the request is malformed",
    404: "there is nothing at this address: the page is at /, its API below /api",
    405: "the method is not allowed",
    413: "the request is too large",
    414: "the address is too long",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpError(Exception):
    """An error response: its status and a sentence that names the cure. Keywords such as `Retry_After` are headers."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.message = status, sentence
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class JsonBody:
    """A body that is encoded once, and compressed once when a client first accepts it so."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self._compressing: asyncio.Task[bytes] | None = None

    async def compressed(self) -> bytes:
        """Get the body compressed by gzip."""
        if len(self.plain) < _LARGE:
            return _compress(self.plain)
        if self._compressing is None:
            self._compressing = asyncio.create_task(asyncio.to_thread(_compress, self.plain))
        return await asyncio.shield(self._compressing)


def encode_json(data: object) -> bytes:
    """Encode as JSON."""
    return msgspec.json.encode(data)


async def json_response(request: web.Request, data: object, *, status: int = 200) -> web.Response:
    """Make the response to a request; `data` is anything that msgspec encodes, or a JsonBody."""
    body = data if isinstance(data, JsonBody) else JsonBody(encode_json(data))
    headers = {"Vary": "Accept-Encoding", **_NO_STORE}
    if len(body.plain) < _SMALL or not accepts_gzip(request):
        return web.Response(body=body.plain, status=status, content_type=_JSON, headers=headers)
    headers["Content-Encoding"] = "gzip"
    return web.Response(body=await body.compressed(), status=status, content_type=_JSON, headers=headers)


def accepts_gzip(request: web.Request) -> bool:
    """Whether the client accepts gzip: it is named, and its quality is not 0."""
    for part in request.headers.get("Accept-Encoding", "").lower().split(","):
        name, _, quality = part.partition(";")
        if name.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error into JSON. An internal error is logged with its traceback."""
    try:
        return await handler(request)
    except HttpError as refusal:
        return _error_response(refusal.status, refusal.message, refusal.headers)
    except web.HTTPException as answer:
        if answer.status < 400:
            raise
        sentence = _SAID.get(answer.status, answer.reason)
        if isinstance(answer, web.HTTPMethodNotAllowed):
            allowed = ", ".join(sorted(answer.allowed_methods))
            return _error_response(answer.status, f"{sentence}: use {allowed}", {"Allow": allowed})
        return _error_response(answer.status, sentence, {})
    except (ConnectionError, ClientConnectionError):
        raise  # the client has gone
    except Exception:  # noqa: BLE001 - whatever it is, the client gets a response
        _log.exception("request failed: internal error", method=request.method, path=request.path)
        return _error_response(500, "internal error of the rescheduler: see its log", {})


def _error_response(status: int, sentence: str, headers: Mapping[str, str]) -> web.Response:
    body = encode_json({"error": sentence})
    return web.Response(body=body, status=status, content_type=_JSON, headers={**_NO_STORE, **headers})


def _compress(plain: bytes) -> bytes:
    return gzip.compress(plain, _LEVEL, mtime=0)
