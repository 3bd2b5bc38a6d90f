"""The client reports every try, with its status or why there was none; the writer reports every refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import ApiError, FencedError
from rescheduler.kube.objects import CommandSender
from rescheduler.migration import commands
from rescheduler.migration.commands import Verb
from tests.support.api_server import Answer, ApiServer, api_server, status_answer
from tests.support.kubeconfigs import RecordedWaits, connection

POD = {"kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": {}}
EVICTION = "/api/v1/namespaces/shop/pods/web/eviction"
SPENT = "Cannot evict pod as it would violate the pod's disruption budget."


class Heard:
    """What was reported: method and outcome; whether there was a time."""

    def __init__(self) -> None:
        self.tries: list[tuple[str, int | str]] = []
        self.timed: list[bool] = []

    def __call__(self, method: str, outcome: int | str, seconds: float | None) -> None:
        self.tries.append((method, outcome))
        self.timed.append(seconds is not None and seconds >= 0)


@asynccontextmanager
async def reporting(folder: Path) -> AsyncIterator[tuple[ApiServer, ApiClient, Heard]]:
    async with api_server() as server:
        to = connection(folder, {"server": server.url})
        async with ApiClient(to, backoff=RecordedWaits().backoff) as client:
            client.report = heard = Heard()
            yield server, client, heard


async def test_every_try_of_a_request_is_reported_with_its_status_and_its_time(tmp_path: Path) -> None:
    async with reporting(tmp_path) as (server, client, heard):
        server.script("/x", status_answer(503, "ServiceUnavailable", "starting", {"Retry-After": "1"}), Answer())
        await client.get("/x")
        await client.find("/nothing")
        await client.send(ApiRequest("POST", "/x", body=b"{}"))
    assert heard.tries == [("GET", 503), ("GET", 200), ("GET", 404), ("POST", 200)]
    assert all(heard.timed)


async def test_what_got_no_whole_answer_is_reported_with_the_reason(tmp_path: Path) -> None:
    async with reporting(tmp_path) as (server, client, heard):
        server.script("/x", Answer(body=b"{", promised=100), Answer())
        await client.get("/x")
    assert heard.tries == [("GET", "BrokenOff"), ("GET", 200)]


async def test_a_server_that_is_not_there_is_reported(tmp_path: Path) -> None:
    to = connection(tmp_path, {"server": "http://127.0.0.1:1"})
    async with ApiClient(to, backoff=RecordedWaits().backoff) as client:
        client.report = heard = Heard()
        with pytest.raises(ApiError):
            await client.get("/x")
    assert set(heard.tries) == {("GET", "Unreachable")}


async def test_a_request_that_is_not_waited_for_any_longer_is_reported(tmp_path: Path) -> None:
    async with reporting(tmp_path) as (server, client, heard):
        asked = asyncio.Event()
        server.script("/x", Answer(never=True, before=asked.set))
        task = asyncio.create_task(client.get("/x"))
        await asked.wait()
        task.cancel()
        await asyncio.wait([task])
    assert heard.tries == [("GET", "GivenUp")]


async def test_a_write_that_is_fenced_off_was_never_sent_and_is_not_reported(tmp_path: Path) -> None:
    async with (
        api_server() as server,
        ApiClient(connection(tmp_path, {"server": server.url}), may_write=lambda: False) as client,
    ):
        client.report = heard = Heard()
        with pytest.raises(FencedError):
            await client.send(ApiRequest("DELETE", "/x", body=b"{}"))
    assert heard.tries == []


async def test_a_watch_is_reported_when_it_is_answered_without_a_time(tmp_path: Path) -> None:
    async with reporting(tmp_path) as (server, client, heard):
        server.script("/watch", Answer(body=b"{}\n"))
        async with aclosing(client.stream(ApiRequest("GET", "/watch"), 60.0)) as chunks:
            assert await anext(chunks) == b""
            assert heard.tries == [("GET", 200)]
            assert [chunk async for chunk in chunks] == [b"{}\n"]
        with pytest.raises(ApiError):
            async with aclosing(client.stream(ApiRequest("GET", "/nothing"), 60.0)) as chunks:
                await anext(chunks)
    assert heard.tries == [("GET", 200), ("GET", 404)]
    assert heard.timed == [False, False]


async def test_a_watch_that_breaks_off_later_is_reported_once(tmp_path: Path) -> None:
    async with reporting(tmp_path) as (server, client, heard):
        server.script("/watch", Answer(body=b"{}\n", promised=100))
        async with aclosing(client.stream(ApiRequest("GET", "/watch"), 60.0)) as chunks:
            assert [await anext(chunks), await anext(chunks)] == [b"", b"{}\n"]
            with pytest.raises(ApiError):
                await anext(chunks)
    assert heard.tries == [("GET", 200)]


async def test_the_writer_tells_of_a_refusal_and_not_of_what_is_done_already(tmp_path: Path) -> None:
    async with reporting(tmp_path) as (server, client, _):
        server.script(EVICTION, status_answer(429, "TooManyRequests", SPENT), status_answer(404, "NotFound", "gone"))
        writer = CommandSender(client)
        told: list[tuple[Verb, int | None, str]] = []
        writer.refused = lambda command, refused: told.append((command.verb, refused.code, refused.message))
        assert await writer.carry_out(commands.evict(POD, 30, "it shall go")) is not None
        assert await writer.carry_out(commands.evict(POD, 30, "it shall go")) is None
    assert told == [(Verb.EVICT, 429, SPENT)]
