"""Every answer carries the headers that keep browsers strict: also errors, and what is not of the page."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web

from rescheduler.web.metrics import Metrics
from rescheduler.web.responses import HttpError
from rescheduler.web.server import WebApp, serve

HERE = "127.0.0.1"
POLICY = {
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
    "font-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
}  # fmt: skip


class Part:
    """Routes that answer, refuse, stream and fail."""

    def install(self, app: web.Application) -> None:
        app.router.add_get("/api/fine", self._fine)
        app.router.add_get("/api/refused", self._refused)
        app.router.add_get("/api/stream", self._stream)
        app.router.add_get("/api/bug", self._bug)
        app.router.add_get("/page/kept", self._kept)

    async def _fine(self, request: web.Request) -> web.Response:
        return web.json_response({"fine": True})

    async def _refused(self, request: web.Request) -> web.Response:
        raise HttpError(409, "not now", Retry_After="1")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"event: hello\n\n")
        return response

    async def _bug(self, request: web.Request) -> web.Response:
        raise ZeroDivisionError

    async def _kept(self, request: web.Request) -> web.Response:
        return web.Response(text="kept", headers={"Cache-Control": "max-age=60"})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/metrics", 200),
        ("GET", "/livez", 200),
        ("HEAD", "/livez", 200),
        ("GET", "/api/fine", 200),
        ("HEAD", "/api/fine", 200),
        ("GET", "/api/stream", 200),
        ("GET", "/page/kept", 200),
        ("GET", "/api/refused", 409),
        ("GET", "/api/bug", 500),
        ("GET", "/api/nothing", 404),
        ("GET", "/nothing", 404),
        ("POST", "/api/fine", 405),
        ("OPTIONS", "/api/fine", 405),
        ("DELETE", "/livez", 405),
    ],
)
async def test_every_answer_is_strict(method: str, path: str, status: int) -> None:
    async with (
        serve(WebApp(Metrics(), parts=[Part()]), HERE, 0) as port,
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{HERE}:{port}{path}") as answer,
    ):
        assert answer.status == status
        headers = answer.headers
        if status >= 400 and path.startswith("/api") and method != "HEAD":
            assert (await answer.json())["error"]
    assert set(headers["Content-Security-Policy"].split("; ")) == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Set-Cookie" not in headers
    assert not [name for name in headers if name.lower().startswith("access-control")]
    assert headers["Server"] == "rescheduler"
    assert headers.get("Cache-Control") == ("no-store" if path.startswith("/api") else headers.get("Cache-Control"))
    assert path != "/page/kept" or headers["Cache-Control"] == "max-age=60"
    assert status != 405 or "GET" in headers["Allow"]
