"""The server that API servers and schedulers call: what it answers, to whom, and how it ends."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import aiohttp
import pytest
from structlog.testing import capture_logs

from rescheduler.admission.server import Address, AdmissionServer, RequestError, ServerLimits
from rescheduler.kube.errors import ClusterError

HOST = "127.0.0.1"
JSON = {"Content-Type": "application/json"}
SECONDS = 30.0
QUICK = ServerLimits(body=1000, bodies={"/large": 100_000}, at_once=150_000, linger=0.2, drain=5.0)


def refuse(body: bytes) -> bytes:
    raise RequestError(422, "that is no review")


def fail(body: bytes) -> bytes:
    raise KeyError("uid")


ROUTES: dict[str, Callable[[bytes], bytes]] = {"/echo": bytes, "/large": bytes, "/refuse": refuse, "/fail": fail}


@asynccontextmanager
async def running(limits: ServerLimits = QUICK) -> AsyncIterator[AdmissionServer]:
    async with asyncio.timeout(SECONDS), AdmissionServer(ROUTES, None, Address(HOST, 0), limits).listening() as server:
        yield server


@asynccontextmanager
async def calling(server: AdmissionServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(f"http://{HOST}:{server.address.port}") as session:
        yield session


@asynccontextmanager
async def line(server: AdmissionServer) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(HOST, server.address.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


def head(path: str = "/echo", length: int = 2, *more: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {length}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


async def test_a_post_is_answered_by_its_routes_handler_as_json() -> None:
    async with running() as server, calling(server) as client:
        async with client.post("/echo?timeout=5s", data=b'{"a":1}', headers=JSON) as got:
            assert (got.status, got.content_type, await got.read()) == (200, "application/json", b'{"a":1}')
        async with client.post("/echo", data=b"{}", headers={"Content-Type": "Application/JSON; charset=utf-8"}) as got:
            assert got.status == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
async def test_another_method_is_told_which_one_is_allowed(method: str) -> None:
    async with running() as server, calling(server) as client:
        async with client.request(method, "/echo", headers=JSON) as got:
            assert (got.status, got.headers["Allow"]) == (405, "POST")
        async with client.post("/healthz", headers=JSON) as got:
            assert (got.status, got.headers["Allow"]) == (405, "GET, HEAD")


async def test_an_unknown_path_is_told_what_is_there() -> None:
    async with running() as server, calling(server) as client, client.post("/elsewhere", headers=JSON) as got:
        assert got.status == 404
        assert "/echo, /fail, /large, /refuse" in await got.text()


@pytest.mark.parametrize(
    "given", ["text/plain", "application/x-www-form-urlencoded", "application/vnd.x+json", "", "/"]
)
async def test_another_content_type_is_refused(given: str) -> None:
    headers = {"Content-Type": given}
    async with running() as server, calling(server) as client, client.post("/echo", headers=headers) as got:
        assert got.status == 415
        assert "application/json" in await got.text()


async def test_a_compressed_body_is_refused_unread() -> None:
    headers, body = JSON | {"Content-Encoding": "gzip"}, gzip.compress(b"0" * 10**7)
    async with running() as server, calling(server) as client, client.post("/echo", data=body, headers=headers) as got:
        assert got.status == 415


async def test_each_route_has_its_largest_body() -> None:
    async with running() as server, calling(server) as client:
        for path, size, status in (("/echo", 1000, 200), ("/echo", 1001, 413), ("/large", 100_000, 200)):
            async with client.post(path, data=b"x" * size, headers=JSON) as got:
                assert got.status == status

        async def endless() -> AsyncIterator[bytes]:
            for _ in range(200):
                yield b"x" * 1000

        async with client.post("/large", data=endless(), headers=JSON) as got:  # in chunks: no size is declared
            assert (got.status, "100000 bytes" in await got.text()) == (413, True)


async def test_bodies_that_are_too_much_together_are_put_off() -> None:
    async with running() as server, line(server) as (reader, writer):
        writer.write(head("/large", 100_000) + b"x" * 99_000)
        await writer.drain()
        async with calling(server) as client:
            for _ in range(1000):
                async with client.post("/large", data=b"x" * 90_000, headers=JSON) as got:
                    if got.status == 503:
                        break
            assert (got.status, got.headers["Retry-After"]) == (503, "1")
            writer.write(b"x" * 1000)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            async with client.post("/large", data=b"x" * 90_000, headers=JSON) as got:
                assert got.status == 200


async def test_the_oldest_connection_makes_room_also_if_it_sends_byte_by_byte() -> None:
    async with running(replace(QUICK, connections=3)) as server, line(server) as (slow, asking):
        asking.write(head("/echo", 2, "Expect: 100-continue"))
        assert b"100 Continue" in await slow.readuntil(b"\r\n\r\n")
        asking.write(b"{")
        async with line(server) as (oldest, _), line(server) as (younger, still), line(server) as (newest, new):
            assert await slow.read() == b""
            for reader, writer in ((newest, new), (younger, still)):
                writer.write(head(length=2) + b"{}")
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            async with line(server) as (last, writer):
                assert await oldest.read() == b""
                writer.write(head(length=2) + b"{}")
                assert (await last.readline()).startswith(b"HTTP/1.1 200")


async def test_what_a_handler_refuses_is_said_with_its_status() -> None:
    async with running() as server, calling(server) as client, client.post("/refuse", data=b"{}", headers=JSON) as got:
        assert (got.status, await got.text()) == (422, "that is no review\n")


async def test_a_bug_of_a_handler_is_answered_with_a_reason_and_logged_once() -> None:
    with capture_logs() as logs:
        async with running() as server, calling(server) as client:
            async with client.post("/fail", data=b"{}", headers=JSON) as got:
                assert got.status == 500
                assert "KeyError" in await got.text()
            async with client.post("/echo", data=b"{}", headers=JSON) as got:
                assert got.status == 200
    (logged,) = [each for each in logs if each["log_level"] == "error"]
    assert (logged["event"], logged["path"], logged["exc_info"]) == ("request failed: internal error", "/fail", True)


async def test_health_is_told_and_why_it_is_not_ready() -> None:
    async with running() as server, calling(server) as client:
        async with client.get("/readyz") as got:
            assert (got.status, await got.text()) == (200, "ok\n")
        server.ready = lambda: "nothing is known yet"
        async with client.get("/readyz") as got:
            assert (got.status, await got.text()) == (503, "nothing is known yet\n")
        async with client.get("/healthz") as got:
            assert got.status == 200


async def test_every_answer_is_reported_and_unknown_paths_are_one_route() -> None:
    told: list[tuple[str, int]] = []
    async with running() as server, calling(server) as client:
        server.report = lambda route, status, seconds: told.append((route, status))
        for path in ("/echo", "/fail", "/refuse", "/nowhere", "/nowhere/else"):
            async with client.post(path, data=b"{}", headers=JSON):
                pass
    assert told == [("/echo", 200), ("/fail", 500), ("/refuse", 422), ("", 404), ("", 404)]


async def test_a_body_that_does_not_come_is_given_up() -> None:
    async with running(replace(QUICK, to_send=0.2)) as server, line(server) as (reader, writer):
        writer.write(head(length=100) + b"{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        assert b"1 bytes arrived in 0.2 s" in await reader.read()  # and it hangs up


@pytest.mark.parametrize("sent", [b"", b"POST /ec", head()[:-2], head()[:40]])
async def test_a_head_that_does_not_come_is_given_up(sent: bytes) -> None:
    async with running(replace(QUICK, idle=0.2)) as server, line(server) as (reader, writer):
        writer.write(sent)
        with suppress(ConnectionError):  # where it was given up before the first byte came
            assert await reader.read() == b""


async def test_one_that_does_not_take_its_answer_is_given_up() -> None:
    told: asyncio.Queue[int] = asyncio.Queue()

    def answer(body: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        before = loop.time

        def later() -> None:
            loop.time = lambda: before() + SECONDS  # type: ignore[method-assign]  # the loop is this test's own

        loop.call_soon(later)  # when as much is sent as is taken
        return body

    size = 20 * 2**20
    limits = replace(QUICK, to_send=SECONDS / 2, bodies={"/large": 2 * size}, at_once=4 * size)
    async with (
        asyncio.timeout(10 * SECONDS),
        AdmissionServer({"/large": answer}, None, Address(HOST, 0), limits).listening() as server,
    ):
        server.report = lambda route, status, seconds: told.put_nowait(status)
        async with line(server) as (reader, writer):
            writer.write(head("/large", size) + b"x" * size)
            await writer.drain()
            assert await told.get() == 200  # nothing is read here; without a limit it would wait for ever
            got = b""
            with suppress(ConnectionError):
                while part := await reader.read(2**20):
                    got += part
            assert len(got) < size


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500,  # TLS, where there is none
        b"GET\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /echo HTTP/9.9\r\n\r\n",
        b"POST /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nA: " + b"x" * 100_000 + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_answered_400_and_logged_nowhere(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as server, line(server) as (reader, writer):
        writer.write(sent)
        writer.write_eof()
        assert (await reader.read()).startswith((b"HTTP/1.1 400", b"HTTP/1.0 400", b""))
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_a_broken_chunk_is_answered_400() -> None:
    lines = ["POST /echo HTTP/1.1", "Host: x", "Content-Type: application/json", "Transfer-Encoding: chunked", "", ""]
    async with running() as server, line(server) as (reader, writer):
        writer.write("\r\n".join(lines).encode() + b"zz\r\n{}\r\n")
        assert (await reader.readline()).split()[1] == b"400"


async def test_one_that_hangs_up_in_its_body_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as server:
        async with line(server) as (_, writer):
            writer.write(head(length=100) + b"{")
            await writer.drain()
        async with calling(server) as client, client.post("/echo", data=b"{}", headers=JSON) as got:
            assert got.status == 200
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_curl_is_told_to_go_on() -> None:
    async with running() as server, line(server) as (reader, writer):
        writer.write(head("/echo", 2, "Expect: 100-continue"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


async def test_at_its_end_it_answers_what_has_begun_and_says_that_it_closes() -> None:
    listening = AdmissionServer(ROUTES, None, Address(HOST, 0), QUICK).listening()
    server = await listening.__aenter__()
    async with asyncio.timeout(SECONDS), line(server) as (reader, writer), line(server) as (idle, _):
        writer.write(head(length=2) + b"{")
        await writer.drain()
        ending = asyncio.create_task(listening.__aexit__(None, None, None))
        await asyncio.sleep(0)  # it has begun to end
        writer.write(b"}")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"Connection: close" in answer
        assert await idle.read() == b""
        await ending


async def test_calls_on_kept_connections_all_get_an_answer_while_it_ends() -> None:
    answers: list[int] = []
    listening = AdmissionServer(ROUTES, None, Address(HOST, 0), replace(QUICK, linger=SECONDS)).listening()
    port = (await listening.__aenter__()).address.port
    async with asyncio.timeout(SECONDS):

        async def caller() -> None:
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                while True:
                    writer.write(head(length=2) + b"{}")
                    got = await reader.readuntil(b"\r\n\r\n")
                    await reader.readexactly(2)
                    answers.append(int(got.split()[1]))
                    if b"Connection: close" in got:
                        return
            finally:
                writer.close()
                await writer.wait_closed()

        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(caller())
            while len(answers) < 500:  # noqa: ASYNC110 - the callers count
                await asyncio.sleep(0)
            await listening.__aexit__(None, None, None)
    assert set(answers) == {200}


async def test_a_port_that_is_taken_is_told_of() -> None:
    async with running() as server:
        with pytest.raises(ClusterError, match=f"cannot listen on {HOST}:{server.address.port}"):
            async with AdmissionServer(ROUTES, None, server.address).listening():
                pass
