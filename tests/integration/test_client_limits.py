"""What holds a request back before it is sent: the fence around writes, and the pace of all requests."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rescheduler.kube.client import ApiClient, ApiRequest, RateLimiter
from rescheduler.kube.errors import ApiError, ClusterError, FencedError
from tests.support.api_server import Answer, ApiServer, api_server, status_answer
from tests.support.connect_proxy import connect_proxy
from tests.support.kubeconfigs import RecordedWaits, connection

BUSY = status_answer(429, "TooManyRequests", "too many requests", {"Retry-After": "7"})
WRITES = ["POST", "PATCH", "PUT", "DELETE"]


@dataclass
class Lead:
    """Whether we lead: what a leader's client asks before each write."""

    held: bool = True

    def lose(self) -> None:
        self.held = False

    def may_write(self) -> bool:
        return self.held


@dataclass
class Waits:
    """A clock that stands still, and what a Pace would have waited by it."""

    waited: list[float] = field(default_factory=list)

    def pace(self, qps: float, burst: int) -> RateLimiter:
        return RateLimiter(qps, burst, clock=lambda: 0.0, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


def leader(server: ApiServer, folder: Path, lead: Lead) -> ApiClient:
    to = connection(folder, {"server": server.url})
    return ApiClient(to, backoff=RecordedWaits().backoff, may_write=lead.may_write)


def paced(server: ApiServer, folder: Path, pace: RateLimiter) -> ApiClient:
    to = connection(folder, {"server": server.url})
    return ApiClient(to, backoff=RecordedWaits().backoff, pace=pace)


@pytest.mark.parametrize("method", WRITES)
async def test_a_write_is_not_sent_without_the_lead(tmp_path: Path, method: str) -> None:
    lead = Lead()
    async with api_server() as server, leader(server, tmp_path, lead) as client:
        server.script("/x", Answer())
        await client.send(ApiRequest(method, "/x"))
        lead.lose()
        with pytest.raises(FencedError) as raised:
            await client.send(ApiRequest(method, "/x"))
        assert len(server.seen) == 1
    assert str(raised.value) == f"{method} /x was not sent: this replica may no longer be the leader"
    assert isinstance(raised.value, ClusterError)


@pytest.mark.parametrize("method", WRITES)
async def test_a_write_is_not_sent_if_the_lead_is_lost_between_its_connection_and_its_first_byte(
    tmp_path: Path, method: str
) -> None:
    """As when the process is frozen there, and thawed when somebody else leads."""
    answers = iter([True, False])
    async with api_server() as server:
        to = connection(tmp_path, {"server": server.url})
        async with ApiClient(to, backoff=RecordedWaits().backoff, may_write=lambda: next(answers)) as client:
            with pytest.raises(FencedError, match=f"{method} /x was not sent"):
                await client.send(ApiRequest(method, "/x", body=b"{}"))
        assert not server.seen


@pytest.mark.parametrize("method", WRITES)
async def test_a_retry_is_not_sent_after_the_lead_was_lost(tmp_path: Path, method: str) -> None:
    lead = Lead()
    busy = Answer(BUSY.status, BUSY.body, BUSY.headers, before=lead.lose)
    async with api_server() as server, leader(server, tmp_path, lead) as client:
        server.script("/x", busy, Answer())
        with pytest.raises(FencedError):
            await client.send(ApiRequest(method, "/x"))
        assert len(server.seen) == 1


async def test_a_write_is_not_sent_when_the_lead_is_lost_while_it_is_connected(tmp_path: Path) -> None:
    """To make a connection may take longer than the lease lasts."""
    async with api_server() as server, connect_proxy(server.port) as proxy:
        to = connection(tmp_path, {"server": server.url, "proxy-url": proxy.url})
        async with ApiClient(to, may_write=lambda: not proxy.asked) as client:
            with pytest.raises(FencedError):
                await client.send(ApiRequest("POST", "/x"))
        assert (len(proxy.asked), server.seen) == (1, [])


async def test_reading_needs_no_lead(tmp_path: Path) -> None:
    async with api_server() as server, leader(server, tmp_path, Lead(held=False)) as client:
        server.script("/x", Answer())
        assert await client.get("/x") == b"{}"
        async with aclosing(client.stream(ApiRequest("GET", "/x"), 60.0)) as chunks:
            assert b"".join([chunk async for chunk in chunks]) == b"{}"


async def test_a_fenced_connection_serves_the_next_request(tmp_path: Path) -> None:
    lead = Lead(held=False)
    async with api_server() as server, leader(server, tmp_path, lead) as client:
        server.script("/x", Answer())
        for _ in range(200):  # more than there are connections in a client
            with pytest.raises(FencedError):
                await client.send(ApiRequest("POST", "/x"))
        assert await client.get("/x") == b"{}"


async def test_requests_keep_the_pace(tmp_path: Path) -> None:
    waits = Waits()
    async with api_server() as server, paced(server, tmp_path, waits.pace(qps=4.0, burst=2)) as client:
        server.script("/x", Answer())
        for _ in range(4):
            await client.get("/x")
    assert waits.waited == [0.25, 0.5]


async def test_each_retry_takes_a_turn_and_a_watch_takes_one(tmp_path: Path) -> None:
    waits = Waits()
    async with api_server() as server, paced(server, tmp_path, waits.pace(qps=1.0, burst=1)) as client:
        server.script("/x", BUSY, Answer())
        server.script("/watch", Answer(body=b"x" * 1_000_000))
        await client.get("/x")
        async with aclosing(client.stream(ApiRequest("GET", "/watch"), 60.0)) as chunks:
            assert sum([len(chunk) async for chunk in chunks]) == 1_000_000
    assert waits.waited == [1.0, 2.0]


async def test_waiting_for_a_turn_is_not_the_servers_time(tmp_path: Path) -> None:
    turns = 0

    async def some_time(seconds: float) -> None:
        nonlocal turns
        for _ in range(10):
            await asyncio.sleep(0)
        turns += 1

    pace = RateLimiter(1.0, 1, clock=lambda: 0.0, sleep=some_time)
    await pace.wait()
    to = connection(tmp_path, {"server": "https://127.0.0.1:1"})
    async with ApiClient(to, request_timeout=0.0, pace=pace) as client:
        with pytest.raises(ApiError, match="did not answer in time"):
            await client.get("/x")
    assert turns == 1
