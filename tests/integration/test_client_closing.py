"""The end of a client: when its block is left, every connection is closed, however it was used and whoever is there.

The client's loop ends right after it, as that of a command does. A socket that is open then is never closed by anybody:
Python tells of it when the object is collected, in the middle of whatever happens to run.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest

from rescheduler.kube.client import ApiClient, ApiRequest
from tests.support.kubeconfigs import RecordedWaits, connection
from tests.support.stubborn_server import StubbornServer, stubborn
from tests.testbed.processes import until

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
BEGUN = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
FLOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n" + b" " * 65536

Use = Callable[[ApiClient, StubbornServer], Awaitable[None]]


async def one_request(client: ApiClient, server: StubbornServer) -> None:
    await client.get("/version")


async def concurrent_requests(client: ApiClient, server: StubbornServer) -> None:
    await asyncio.gather(*(client.get("/version") for _ in range(5)))


async def cancelled_in_flight(client: ApiClient, server: StubbornServer) -> None:
    task = asyncio.create_task(client.get("/version"))
    await asyncio.to_thread(server.asked.wait)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def a_watch_left_in_the_middle(client: ApiClient, server: StubbornServer) -> None:
    async with aclosing(client.stream(ApiRequest("GET", "/watch"), 60.0)) as chunks:
        async for chunk in chunks:
            if chunk:
                return


async def timed_out(client: ApiClient, server: StubbornServer) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await client.get("/version")


def client_of(folder: Path, url: str) -> ApiClient:
    return ApiClient(connection(folder, {"server": url}), backoff=RecordedWaits().backoff)


@contextmanager
def full_listener() -> Iterator[int]:
    """The port of a server that is too busy to accept anybody: whoever knocks hears nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = int(listener.getsockname()[1])
        with socket.create_connection(("127.0.0.1", port)):  # takes the only place in the queue
            yield port


def knocks_at(port: int) -> bool:
    """Whether somebody has asked for a connection and got no answer yet, as Linux tells (state 2: SYN sent)."""
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[2:4] == [f"0100007F:{port:04X}", "02"] for line in lines)


def open_after(run: Coroutine[None, None, None]) -> list[str]:
    """What Python finds to be open when the client's loop has ended."""
    gc.collect()  # what others have left is not ours
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(run)
        gc.collect()
    return [str(each.message) for each in warned]


def open_after_use(folder: Path, server: StubbornServer, use: Use) -> list[str]:
    async def run() -> None:
        async with client_of(folder, server.url) as client:
            await use(client, server)

    return open_after(run())


@pytest.mark.parametrize("polite", [True, False], ids=["polite", "mute"])
@pytest.mark.parametrize(
    ("answer", "use"),
    [
        pytest.param(WHOLE, one_request, id="one request"),
        pytest.param(WHOLE, concurrent_requests, id="concurrent requests"),
        pytest.param(LAST, one_request, id="the server wants to close"),
        pytest.param(b"", cancelled_in_flight, id="cancelled before the answer"),
        pytest.param(BEGUN, cancelled_in_flight, id="cancelled within the answer"),
        pytest.param(b"", timed_out, id="timed out"),
        pytest.param(BEGUN, a_watch_left_in_the_middle, id="a watch left in the middle"),
    ],
)
def test_nothing_is_open_after_the_client(tmp_path: Path, answer: bytes, use: Use, polite: bool) -> None:
    with stubborn(StubbornServer(answer, polite=polite)) as server:
        assert open_after_use(tmp_path, server, use) == []


def test_a_watch_that_is_left_while_more_comes_than_anybody_reads_is_closed(tmp_path: Path) -> None:
    with stubborn(StubbornServer(FLOOD, times=None)) as server:
        assert open_after_use(tmp_path, server, a_watch_left_in_the_middle) == []


def test_a_request_that_is_cancelled_while_hands_are_shaken_is_closed(tmp_path: Path) -> None:
    with stubborn(StubbornServer(b"", shakes_hands=False)) as server:
        assert open_after_use(tmp_path, server, cancelled_in_flight) == []


@pytest.mark.parametrize("shakes_hands", [True, False], ids=["in flight", "shaking hands"])
def test_a_request_that_outlives_its_client_is_cut(tmp_path: Path, shakes_hands: bool) -> None:
    async def run() -> None:
        async with client_of(tmp_path, server.url) as client:
            task = asyncio.create_task(client.get("/version"))
            await asyncio.to_thread(server.asked.wait)
        await asyncio.wait([task])
        assert isinstance(task.exception(), RuntimeError)

    with stubborn(StubbornServer(b"", shakes_hands=shakes_hands)) as server:
        assert open_after(run()) == []


def test_a_connection_that_nobody_accepts_does_not_hold_the_client_up(tmp_path: Path) -> None:
    async def run() -> None:
        async with client_of(tmp_path, url) as client:
            task = asyncio.create_task(client.get("/version"))
            await asyncio.to_thread(until, "it knocks", lambda: knocks_at(port))
        await asyncio.wait([task])
        assert isinstance(task.exception(), RuntimeError)

    with full_listener() as port:
        url = f"https://127.0.0.1:{port}"
        assert open_after(run()) == []
