"""Watches of the embedded API server: what is told, from when on, in which form, and how they end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable

import pytest

from kubemini.api import Api, Target
from kubemini.kinds import DEFINITION, POD, Kind
from kubemini.server import watching
from kubemini.server.listing import Selection
from kubemini.server.requests import ListOptions
from kubemini.server.watching import Watches
from kubemini.store import Subscriber
from tests.support.virtual_time import VirtualLoop
from tests.unit.kubemini.served import (
    CONFIG_MAP,
    MAPS,
    PODS,
    TABLE,
    TOKEN,
    Client,
    Json,
    pod,
    served,
)

INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


async def take(events: AsyncGenerator[Json, None], count: int) -> list[tuple[str, str, str]]:
    """Of some events: what happened, to which object, and a datum of it."""
    taken = [await anext(events) for _ in range(count)]
    return [
        (each["type"], each["object"]["metadata"]["name"], each["object"].get("data", {}).get("x", ""))
        for each in taken
    ]


async def rest(events: AsyncGenerator[Json, None]) -> list[Json]:
    return [event async for event in events]


def watches_of(client: Client) -> Watches:
    return client.server._watches


def subscriptions(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The subscriptions to the store that are open, from now on."""
    subscribe, there = client.api.store.subscribe, list[object]()

    def counted(subscriber: Subscriber, *kinds: Kind) -> Callable[[], None]:
        unsubscribe = subscribe(subscriber, *kinds)
        there.append(subscriber)

        def end() -> None:
            there.remove(subscriber)
            unsubscribe()

        return end

    monkeypatch.setattr(client.api.store, "subscribe", counted)
    return there


async def until_there_are(client: Client, count: int) -> None:
    while len(watches_of(client)._running) != count:  # noqa: ASYNC110  the server tells nobody
        await asyncio.sleep(0.01)


async def test_a_forgotten_version_is_an_error_event() -> None:
    async with served() as client:
        made = await client.make("a")
        await client.make("b")
        client.api.store.forget(CONFIG_MAP)
        version = made["metadata"]["resourceVersion"]
        async with client.watch(f"{MAPS}?resourceVersion={version}") as events:
            (event,) = await rest(events)
        assert event["type"] == "ERROR"
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
        assert event["object"]["message"].startswith(f"too old resource version: {version} (")


async def test_a_watch_that_wants_no_initial_events_gets_none() -> None:
    async with served() as client:
        await client.make("a")
        query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
        async with client.watch(f"{MAPS}?{query}") as events:
            await client.make("b")
            assert await take(events, 1) == [("ADDED", "b", "")]


async def test_a_streaming_list_of_a_version_that_is_not_reached_is_an_error_event() -> None:
    async with served() as client, client.watch(f"{MAPS}?{INITIAL}&resourceVersion=999") as events:
        (event,) = await rest(events)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 504)


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


class Bookmarks(watching._Stream):
    """When a watch would have sent them to its client."""

    def __init__(self) -> None:
        self._is_writing = False
        self.times: list[float] = []

    async def open(self) -> None:
        pass

    async def bookmark(self, version: int, annotations: dict[str, str] | None = None) -> None:
        self.times.append(asyncio.get_running_loop().time())


def test_a_last_bookmark_comes_before_the_time_is_over() -> None:
    told = Bookmarks()

    async def watch() -> float:
        api = Api()
        options = ListOptions(version=api.store.version, bookmarks=True, seconds=100)
        await watching._Watch(api, Selection(CONFIG_MAP, "default"), options, told).run()
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(watch()) == pytest.approx(100)
    assert told.times == pytest.approx([60, 98])


async def test_rows_can_be_watched() -> None:
    async with served() as client:
        await client.make("a", data={"x": "1"})
        async with client.watch(MAPS, TABLE) as rows:
            first = (await anext(rows))["object"]
            assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Age"]
            assert first["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
            changed = await client.change("a", data={"x": "1", "y": "2"})
            second = (await anext(rows))["object"]
            assert second["columnDefinitions"] is None
            assert second["rows"][0]["cells"][0] == "a"
            assert second["metadata"] == {"resourceVersion": changed["metadata"]["resourceVersion"]}


async def test_bookmarks_of_rows_have_the_form_of_rows() -> None:
    async with served() as client, client.watch(f"{PODS}?{INITIAL}", TABLE) as events:
        table = (await anext(events))["object"]
        assert table["kind"] == "Table"
        metadata = table["rows"][0]["object"]["metadata"]
        assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_closing_the_server_ends_all_watches() -> None:
    async with served() as client, client.watch(MAPS) as one, client.watch(PODS) as other:
        await until_there_are(client, 2)
        await client.server.close()
        assert await rest(one) == []
        assert await rest(other) == []
        assert len(watches_of(client)._running) == 0


async def test_a_watch_ends_with_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as client:
        subscribed = subscriptions(client, monkeypatch)
        async with client.watch(MAPS):
            await until_there_are(client, 1)
            assert len(subscribed) == 1
        await until_there_are(client, 0)
        assert not subscribed


async def test_a_client_that_takes_nothing_is_cut_off_instead_of_filling_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "HISTORY", 5)
    async with served() as client:
        subscribed = subscriptions(client, monkeypatch)
        url = client.server.url.removeprefix("http://").split(":")
        with socket.create_connection((url[0], int(url[1]))) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.sendall(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            await until_there_are(client, 1)
            await client.make("a")
            number = 0
            while len(watches_of(client)._running):
                number += 1
                await client.change("a", data={"x": "y" * 500_000, "n": str(number)})
                await asyncio.sleep(0.001)
        assert not subscribed


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
            assert len(watches_of(client)._running) == 1
            mine = client.api.store.get(DEFINITION, definition.key)
            assert mine is not None
            client.api.store.delete(DEFINITION, mine.object(), mine.version)
            assert await rest(events) == []


async def test_ten_thousand_events_arrive_in_order() -> None:
    async with served() as client:
        await client.make("a")
        async with client.watch(f"{MAPS}?resourceVersion={client.api.store.version}") as events:
            for number in range(10_000):
                await client.change("a", data={"x": str(number)})
            assert [data for _, _, data in await take(events, 10_000)] == [str(number) for number in range(10_000)]
