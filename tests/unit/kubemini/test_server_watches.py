"""Watches of the embedded API server: bookmarks, slow clients and ends, which contract tests cannot provoke."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator

import pytest

from kubemini.api import Target
from kubemini.kinds import DEFINITION, POD, Kind
from kubemini.server import watching
from rescheduler.model.json import Json
from tests.unit.kubemini.served import MAPS, PODS, TOKEN, Client, pod, served


async def rest(events: AsyncGenerator[Json, None]) -> list[Json]:
    return [event async for event in events]


async def until_there_are(client: Client, count: int) -> None:
    while len(client.server._watches._running) != count:  # noqa: ASYNC110  the server tells nobody
        await asyncio.sleep(0.01)


async def test_bookmarks_come_now_and_then_to_those_who_take_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "BOOKMARK_SECONDS", 0.05)
    async with served() as client:
        version = client.api.store.version
        async with (
            client.watch(f"{MAPS}?resourceVersion={version}&allowWatchBookmarks=true") as events,
            client.watch(f"{MAPS}?resourceVersion={version}&timeoutSeconds=1") as silent,
        ):
            first = await anext(events)
            assert (first["type"], first["object"]["metadata"]) == ("BOOKMARK", {"resourceVersion": str(version)})
            await client.make("other", POD, spec=pod("x")["spec"])
            while (event := await anext(events))["object"]["metadata"]["resourceVersion"] == str(version):
                assert event["type"] == "BOOKMARK"
            assert event["object"]["metadata"]["resourceVersion"] == str(client.api.store.version)
            assert await rest(silent) == []


async def test_a_bookmark_never_comes_before_what_it_covers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "BOOKMARK_SECONDS", 0.001)
    write_at_once = watching._Stream._write

    async def write_slowly(stream: watching._Stream, data: bytes) -> None:
        await write_at_once(stream, data)
        await asyncio.sleep(0.002)  # much happens meanwhile

    monkeypatch.setattr(watching._Stream, "_write", write_slowly)
    async with served() as client:
        made = await client.make("a")
        version = made["metadata"]["resourceVersion"]
        async with client.watch(f"{MAPS}?resourceVersion={version}&allowWatchBookmarks=true") as events:

            async def write() -> None:
                for number in range(500):
                    await client.change("a", data={"x": str(number)})
                    await asyncio.sleep(0)

            writing, seen = asyncio.create_task(write()), int(version)
            while True:
                event = await anext(events)
                told = int(event["object"]["metadata"]["resourceVersion"])
                if event["type"] == "BOOKMARK":
                    assert told >= seen
                else:
                    assert told > seen
                    if event["object"]["data"]["x"] == "499":
                        break
                seen = told
            await writing


async def test_closing_the_server_ends_all_watches() -> None:
    async with served() as client, client.watch(MAPS) as one, client.watch(PODS) as other:
        await until_there_are(client, 2)
        await client.server.close()
        assert await rest(one) == []
        assert await rest(other) == []
        assert len(client.server._watches._running) == 0


async def test_a_watch_ends_with_its_client() -> None:
    async with served() as client:
        async with client.watch(MAPS):
            await until_there_are(client, 1)
        await until_there_are(client, 0)
        assert not any(client.api.store._subscribers.values())


async def test_a_client_that_takes_nothing_is_cut_off_instead_of_filling_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "HISTORY", 5)
    async with served() as client:
        url = client.server.url.removeprefix("http://").split(":")
        with socket.create_connection((url[0], int(url[1]))) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.sendall(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            await until_there_are(client, 1)
            await client.make("a")
            number = 0
            while len(client.server._watches._running):
                number += 1
                await client.change("a", data={"x": "y" * 500_000, "n": str(number)})
                await asyncio.sleep(0.001)
        assert not any(client.api.store._subscribers.values())


async def test_the_watches_of_a_custom_kind_end_with_its_definition() -> None:
    thing = Kind("example.io", "v1", "Thing", "things", custom=True)
    async with served() as client:
        client.api.kinds.add(thing)
        path = "/apis/example.io/v1/things"
        definition = Target(DEFINITION, name="things.example.io")
        client.api.store.create(DEFINITION, {"metadata": {"name": definition.name, "uid": "1"}})
        other = {"metadata": {"name": "others.example.io", "uid": "2"}}
        entry = client.api.store.create(DEFINITION, other)
        async with client.watch(path) as events:
            await until_there_are(client, 1)
            client.api.store.delete(DEFINITION, entry.object(), entry.version)
            assert len(client.server._watches._running) == 1
            mine = client.api.store.get(DEFINITION, definition.key)
            assert mine is not None
            client.api.store.delete(DEFINITION, mine.object(), mine.version)
            assert await rest(events) == []
