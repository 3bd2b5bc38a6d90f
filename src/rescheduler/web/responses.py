"""How the API answers: JSON, compressed where that pays, and every refusal as a sentence with its status.

The handlers of `api` and `actions` return what `json_response` makes, or raise Refusal; `errors` is the middleware that
turns that, and whatever else goes wrong, into `{"error": …}`. What is large is compressed in a thread: the loop has
leases to renew.
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
    400: "the request makes no sense",
    404: "nothing is here: the page is at /, what it reads below /api",
    405: "this is not how it is asked",
    413: "the request is too large",
    414: "the address is too long",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpError(Exception):
    """A request that is not done: the status and a sentence that names the cure; `Retry_After` and such are headers."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.message = status, sentence
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class JsonBody:
    """A body that several may ask for: encoded once, compressed once, when somebody first takes it so."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self._compressing: asyncio.Task[bytes] | None = None

    async def compressed(self) -> bytes:
        """The same, by gzip."""
        if len(self.plain) < _LARGE:
            return _compressed(self.plain)
        if self._compressing is None:
            self._compressing = asyncio.create_task(asyncio.to_thread(_compressed, self.plain))
        return await asyncio.shield(self._compressing)


def encode_json(data: object) -> bytes:
    """As JSON."""
    return msgspec.json.encode(data)


async def json_response(request: web.Request, data: object, *, status: int = 200) -> web.Response:
    """The answer to a request; `data` is anything that msgspec writes as JSON, or a Body."""
    body = data if isinstance(data, JsonBody) else JsonBody(encode_json(data))
    headers = {"Vary": "Accept-Encoding", **_NO_STORE}
    if len(body.plain) < _SMALL or not accepts_gzip(request):
        return web.Response(body=body.plain, status=status, content_type=_JSON, headers=headers)
    headers["Content-Encoding"] = "gzip"
    return web.Response(body=await body.compressed(), status=status, content_type=_JSON, headers=headers)


def accepts_gzip(request: web.Request) -> bool:
    """Whether whoever asks reads gzip: named, and not with the quality 0."""
    for part in request.headers.get("Accept-Encoding", "").lower().split(","):
        name, _, quality = part.partition(";")
        if name.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every refusal as JSON. A bug of ours is told of in the log, and in a word to whoever asked."""
    try:
        return await handler(request)
    except HttpError as refusal:
        return _refused(refusal.status, refusal.message, refusal.headers)
    except web.HTTPException as answer:
        if answer.status < 400:
            raise
        sentence = _SAID.get(answer.status, answer.reason)
        if isinstance(answer, web.HTTPMethodNotAllowed):
            allowed = ", ".join(sorted(answer.allowed_methods))
            return _refused(answer.status, f"{sentence}: use {allowed}", {"Allow": allowed})
        return _refused(answer.status, sentence, {})
    except (ConnectionError, ClientConnectionError):
        raise  # nobody is there to be answered
    except Exception:  # noqa: BLE001 - whatever it is, whoever asked gets an answer
        _log.exception("a request failed: a bug of ours", method=request.method, path=request.path)
        return _refused(500, "a bug of the rescheduler's: its log says more", {})


def _refused(status: int, sentence: str, headers: Mapping[str, str]) -> web.Response:
    body = encode_json({"error": sentence})
    return web.Response(body=body, status=status, content_type=_JSON, headers={**_NO_STORE, **headers})


def _compressed(plain: bytes) -> bytes:
    return gzip.compress(plain, _LEVEL, mtime=0)
