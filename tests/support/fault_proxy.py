"""A proxy before an API server that breaks what goes through it, in every way that networks and servers know.

The controller under test talks plain HTTP to it on loopback; it talks to the real or the embedded server with the
credentials of a kubeconfig. While `faulty`, each request is dealt a fault or none from seeded dice: refusals before
anything is done, answers that come late or never although the write was done, connections and watches cut in the
middle. It runs in a thread with an event loop of its own.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import ssl
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml
from aiohttp import web

from rescheduler.model.json import Json
from tests.support.loop_thread import LoopThread

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "host", "content-length", "authorization"})
_GONE = {"code": 410, "reason": "Expired", "message": "too old resource version: chaos"}


@dataclass(frozen=True)
class Odds:
    """How likely each fault is for one request, and how long delays are, in seconds."""

    requests: Mapping[str, float] = field(
        default_factory=lambda: {
            "conflict": 0.02,
            "busy": 0.01,
            "busy for a second": 0.01,
            "error 500": 0.01,
            "error 503": 0.01,
            "error 504": 0.01,
            "held": 0.005,
            "reset before": 0.015,
            "reset after": 0.02,
            "slow": 0.04,
        }
    )
    watches: Mapping[str, float] = field(
        default_factory=lambda: {"cut": 0.5, "gone": 0.05, "gone later": 0.1, "error 503": 0.05, "reset before": 0.05}
    )
    slow: tuple[float, float] = (0.2, 2.0)
    held: float = 15.0
    cut_after: tuple[float, float] = (0.5, 8.0)


@dataclass(frozen=True)
class Upstream:
    """The API server, and how to be let in."""

    server: str
    tls: ssl.SSLContext | None
    headers: Mapping[str, str]

    @classmethod
    def of(cls, kubeconfig: Path) -> Upstream:
        """From a kubeconfig of a test bed."""
        written = yaml.safe_load(kubeconfig.read_text())
        cluster, user = written["clusters"][0]["cluster"], written["users"][0]["user"]
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        if not cluster["server"].startswith("https"):
            return cls(cluster["server"], None, headers)
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        if "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile() as both:
                both.write(base64.b64decode(user["client-certificate-data"]))
                both.write(base64.b64decode(user["client-key-data"]))
                both.flush()
                context.load_cert_chain(both.name)
        return cls(cluster["server"], context, headers)


class FaultProxy:
    """One proxy, from the beginning of a block to its end."""

    def __init__(self, upstream: Upstream, seed: int, odds: Odds | None = None) -> None:
        self.port = 0
        self.faulty = False
        self.faults: Counter[str] = Counter()
        self.requests = 0
        self._upstream = upstream
        self._odds = odds or Odds()
        self._dice = random.Random(seed)
        self._session: aiohttp.ClientSession
        self._thread: LoopThread[None]

    def __enter__(self) -> Self:
        self._thread = LoopThread(self._serving, "fault-proxy")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.end()

    def kubeconfig(self, path: Path) -> Path:
        """One that leads here."""
        named = {"cluster": "chaos", "user": "chaos"}
        written = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "chaos", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "chaos", "user": {}}],
            "contexts": [{"name": "chaos", "context": named}],
            "current-context": "chaos",
        }
        path.write_text(yaml.safe_dump(written))
        return path

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        unlimited = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=unlimited, auto_decompress=False) as self._session:
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                self.port = runner.addresses[0][1]
                yield
            finally:
                await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        watching = request.query.get("watch") in ("true", "1")
        fault = self._dealt(self._odds.watches if watching else self._odds.requests)
        if fault == "conflict" and request.method in ("GET", "DELETE"):
            fault = ""
        if fault:
            self.faults[f"watch: {fault}" if watching else fault] += 1
        if (refusal := _REFUSALS.get(fault)) is not None:
            return refusal()
        if fault == "reset before":
            return _reset(request)
        return await (self._watch(request, fault) if watching else self._pass_on(request, fault))

    async def _pass_on(self, request: web.Request, fault: str) -> web.StreamResponse:
        body = await request.read()
        async with self._asked(request, body) as answer:
            read = await answer.read()
        if fault == "held":
            await asyncio.sleep(self._odds.held)
        if fault == "slow":
            await asyncio.sleep(self._dice.uniform(*self._odds.slow))
        if fault in ("reset after", "held"):
            return _reset(request)
        return web.Response(status=answer.status, body=read, headers=_keep_headers(answer.headers))

    async def _watch(self, request: web.Request, fault: str) -> web.StreamResponse:
        try:
            async with self._asked(request, None) as answer:
                passed = web.StreamResponse(status=answer.status, headers=_keep_headers(answer.headers))
                await passed.prepare(request)
                if await self._stream(answer, passed, fault):
                    return passed
        except (ConnectionError, aiohttp.ClientError):
            pass  # either end has hung up
        return _reset(request)

    async def _stream(self, answer: aiohttp.ClientResponse, passed: web.StreamResponse, fault: str) -> bool:
        """Hand a watch on, until it ends or is to be broken; whether it has a proper end."""
        limit = self._dice.uniform(*self._odds.cut_after) if fault in ("cut", "gone later") else None
        try:
            async with asyncio.timeout(limit):
                async for chunk in answer.content.iter_any():
                    await passed.write(chunk)
        except TimeoutError:
            if fault == "gone later":
                await passed.write(json.dumps({"type": "ERROR", "object": _status(_GONE)}).encode() + b"\n")
                return True
            await passed.write(b'{"type":"MODIFIED","object":{"kind":')  # in the middle of an event
            return False
        return True

    def _asked(self, request: web.Request, body: bytes | None) -> Any:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        headers["Accept-Encoding"] = "identity"
        return self._session.request(
            request.method,
            f"{self._upstream.server}{request.path_qs}",
            data=body or None,
            headers=headers | dict(self._upstream.headers),
            ssl=self._upstream.tls or False,
            timeout=aiohttp.ClientTimeout(total=None),
        )

    def _dealt(self, odds: Mapping[str, float]) -> str:
        if not self.faulty:
            return ""
        drawn = self._dice.random()
        for fault, chance in odds.items():
            drawn -= chance
            if drawn < 0:
                return fault
        return ""


def _status(said: Json) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", **said}


def _refusal(code: int, reason: str, message: str, **headers: str) -> Callable[[], web.Response]:
    body = json.dumps(_status({"code": code, "reason": reason, "message": f"{message} (chaos)"}))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda: web.Response(status=code, text=body, content_type="application/json", headers=named)


_REFUSALS = {
    "conflict": _refusal(409, "Conflict", "the object has been modified"),
    "busy": _refusal(429, "TooManyRequests", "too many requests"),
    "busy for a second": _refusal(429, "TooManyRequests", "too many requests", Retry_After="1"),
    "error 500": _refusal(500, "InternalError", "etcdserver: leader changed"),
    "error 503": _refusal(503, "ServiceUnavailable", "the server is not ready"),
    "error 504": _refusal(504, "Timeout", "the request did not complete in time"),
    "gone": _refusal(410, "Expired", "too old resource version"),
}


def _keep_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


def _reset(request: web.Request) -> web.StreamResponse:
    """Cut the client's connection: what is returned never arrives."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)
