"""Thousands of requests that make no sense, to the whole server: no 5xx, every refusal says why, no memory is kept."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from kubemini.cluster import EmbeddedCluster
from rescheduler.app import planning as app
from rescheduler.app.context import RunRequest
from rescheduler.app.controller import run_controller
from rescheduler.web import server
from tests.support.examples import examples
from tests.support.raw_http import HOST, resident, send

REQUESTS = examples(few=500, many=4000)
CALLERS = 8
LARGEST = 256 * 1024
BODIES = {
    "pause": {"reason": "because"},
    "resume": {},
    "approve": {"migrations": [{"namespace": "default", "name": "one"}]},
    "migrate": {"namespace": "default", "pod": "web", "target": "", "method": ""},
    "maintenance": {"node": "node-0", "on": True},
}
PATHS = [
    "/", "/metrics", "/livez", "/readyz?verbose", "/readyz?verbose=%ff", "/page/main.js", "/page/",
    "/page/..%2fserver.py", "/page/../server.py", "/page/%00", "/page/" + "x" * 4000, "/api", "/api/",
    "/api/overview", "/api/nodes", "/api/spread", "/api/plan", "/api/migrations", "/api/config", "/api/outcomes",
    "/api/captions", "/api/whoami", "/api/nodes/node-0", "/api/nodes/%ff", "/api/nodes/none", "/api/pods/default/none",
    "/api/pods/%00/%0a", "/api/pods/default", "/api/search", "/api/search?q=", "/api/search?q=no&q=de",
    "/api/search?q=%ff%fe", "/api/search?q=" + "n" * 4000, "/api/actions/", "/api/actions/nothing",
    "/api/actions/pause/", "/api/actions/%2e%2e", "/%00", "*", "/..//api/whoami", "http://evil.example/api/whoami",
    "//evil.example/", "/api/actions/pause?x=\x7f", "/" + "x" * 9000,
]  # fmt: skip
"""All but the stream of events, which does not end by itself (tests/unit/web/test_push.py)."""
METHODS = ["GET", "GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "", "\x00"]
Random = random.Random


class World:
    """Where requests go, and what they may carry."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token

    def head(self, first: str, length: int, **headers: str) -> bytes:
        given = {"Host": f"{HOST}:{self.port}", "Content-Length": str(length), "Connection": "close", **headers}
        lines = [first, *(f"{name.replace('_', '-')}: {value}" for name, value in given.items())]
        return "\r\n".join([*lines, "", ""]).encode(errors="surrogateescape")

    def action(self, rng: Random, body: bytes, **headers: str) -> bytes:
        name = rng.choice(sorted(BODIES))
        usual = {
            "Content-Type": "application/json",
            "X-Rescheduler-Action": name,
            "Origin": f"http://{HOST}:{self.port}",
        }
        usual["Authorization"] = f"Bearer {self.token}"
        usual |= {key.replace("_", "-"): value for key, value in headers.items()}
        return self.head(f"POST /api/actions/{name} HTTP/1.1", len(body), **usual) + body


def fuzzed(world: World, rng: Random) -> bytes:
    body = bytearray(json.dumps(rng.choice(list(BODIES.values()))).encode())
    for _ in range(rng.randint(1, 5)):
        body[rng.randrange(len(body))] = rng.randrange(256)
    return world.action(rng, bytes(body))


def wrong_body(world: World, rng: Random) -> bytes:
    value: object = rng.choice(
        [None, [], 1, "x", True, {"": 1}, {"migrations": {}}, {"reason": 5}, {"node": "x" * 300}]
    )
    return world.action(rng, json.dumps(value).encode())


def deep(world: World, rng: Random) -> bytes:
    depth = rng.randint(100, 50_000)
    return world.action(rng, rng.choice([b"[", b'{"reason":']) * depth)


def huge(world: World, rng: Random) -> bytes:
    return world.action(rng, b'{"reason":"' + b"x" * rng.randint(LARGEST // 2, LARGEST * 2) + b'"}')


def truncated(world: World, rng: Random) -> bytes:
    whole = world.action(rng, json.dumps(rng.choice(list(BODIES.values()))).encode())
    return whole[: rng.randrange(len(whole))]


def wrong_header(world: World, rng: Random) -> bytes:
    name = rng.choice(
        ["Authorization", "Host", "Origin", "Sec-Fetch-Site", "X-Rescheduler-Action", "Content-Type", "Cookie"]
    )
    value = rng.choice(
        [
            "",
            " ",
            "Bearer",
            "Bearer x",
            "Basic eDp5",
            "null",
            "ü",
            "\udcff",
            "a" * 9000,
            "a" * 40_000,
            "http://[",
            "[::1",
        ]
    )
    return world.action(rng, b"{}", **{name: value})


def wrong_token(world: World, rng: Random) -> bytes:
    token = "".join(rng.choice("abc.-_XYZ019") for _ in range(rng.randint(1, 3000)))
    return world.head("GET /api/whoami HTTP/1.1", 0, Authorization=f"Bearer {token}")


def anywhere(world: World, rng: Random) -> bytes:
    body = rng.randbytes(rng.randint(0, 100))
    first = f"{rng.choice(METHODS)} {rng.choice(PATHS)} HTTP/{rng.choice(['1.1', '1.1', '1.0', '2', '9.9', ''])}"
    return world.head(first, len(body)) + body


def noise(world: World, rng: Random) -> bytes:
    return rng.randbytes(rng.randint(0, 2000))


def good(world: World, rng: Random) -> bytes:
    return world.head("GET /api/whoami HTTP/1.1", 0, Authorization=f"Bearer {world.token}")


KINDS: tuple[Callable[[World, Random], bytes], ...] = (
    fuzzed, fuzzed, wrong_body, deep, huge, truncated, wrong_header, wrong_header, wrong_token, anywhere, anywhere,
    noise, good,
)  # fmt: skip


@asynccontextmanager
async def whole_server(tmp_path: Path, *, local: bool) -> AsyncIterator[World]:
    """All that a controller serves, on an embedded cluster with a few nodes."""
    async with EmbeddedCluster() as cluster:
        await cluster.add_nodes(3)
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(cluster.kubeconfig()))
        config = app.load_configuration(None, {"leaderElection.leaderElect": False, "web.bindAddress": HOST})
        opened: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        running = RunRequest(app.LiveCluster(str(path)), config, insecure_local=local, port=0, opened=opened.set_result)
        stop = asyncio.Event()
        controller = asyncio.create_task(run_controller(running, stop))
        try:
            begun: list[asyncio.Future[Any]] = [controller, opened]
            await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
            world = World(urlsplit(opened.result()).port or 0, cluster.token)
            async with asyncio.timeout(60):
                ask = world.head("GET /readyz HTTP/1.1", 0)
                while b" 200 " not in (await send(world.port, ask))[:20]:  # noqa: ASYNC110 - nobody tells when it is
                    await asyncio.sleep(0.05)
            yield world
        finally:
            stop.set()
            await controller


@pytest.mark.parametrize("local", [False, True])
async def test_thousands_of_requests_of_garbage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, local: bool
) -> None:
    statuses: Counter[int] = Counter()
    sizes: list[int] = []
    numbers = iter(range(REQUESTS))
    rng = Random(7)
    async with whole_server(tmp_path, local=local) as world:

        async def caller() -> None:
            for number in numbers:
                sent = rng.choice(KINDS)(world, rng)
                answer = await send(world.port, sent)
                if answer:
                    status = int(answer.split()[1])
                    statuses[status] += 1
                    reason = answer.partition(b"\r\n\r\n")[2]
                    assert status < 400 or reason or sent.startswith(b"HEAD"), answer
                    assert status < 500, (sent[:3000], answer)
                if number % (REQUESTS // 10) == REQUESTS // 10 - 1:
                    gc.collect()
                    sizes.append(resident())

        async with asyncio.TaskGroup() as group:
            for _ in range(CALLERS):
                group.create_task(caller())
        assert (await send(world.port, good(world, rng))).startswith(b"HTTP/1.1 200")
    assert {200, 400, 401, 403, 404, 405, 413, 415, 422, 429} <= set(statuses), statuses
    # What is in flight differs from moment to moment; all that was sent is 100 MB.
    assert max(sizes[5:]) <= max(sizes[:5]) + 16 * 2**20, sizes
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


async def test_whoever_holds_many_connections_open_keeps_nobody_out(tmp_path: Path) -> None:
    async with whole_server(tmp_path, local=False) as world, contextlib.AsyncExitStack() as held:
        readers: list[asyncio.StreamReader] = []

        async def hold(count: int) -> None:
            for _ in range(count):
                reader, writer = await asyncio.open_connection(HOST, world.port)
                writer.write(b"GET /livez HTT")
                held.callback(writer.close)
                readers.append(reader)

        await hold(server._CONNECTIONS - 10)
        ask = world.head("GET /livez HTTP/1.1", 0)
        assert (await send(world.port, ask)).endswith(b"ok")
        assert not any(reader.at_eof() for reader in readers)  # there is room for all of them
        await hold(20)
        async with asyncio.timeout(60):
            assert await readers[0].read() == b""  # the oldest had to go
        assert (await send(world.port, ask)).endswith(b"ok")
        assert not any(reader.at_eof() for reader in readers[30:])


async def test_what_is_no_http_is_answered_as_strictly(tmp_path: Path) -> None:
    async with whole_server(tmp_path, local=False) as world:
        for sent in (b"<script>alert(1)</script> HTTP/1.1\r\n\r\n", b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection(HOST, world.port)
            writer.write(sent)
            answer = await reader.read()
            writer.close()
            assert answer.split()[1] == b"400"
            for header in (b"Content-Security-Policy: default-src 'none'", b"X-Content-Type-Options: nosniff"):
                assert header in answer
            assert b"Content-Type: text/plain" in answer
