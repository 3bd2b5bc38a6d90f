"""Watches of the embedded API server: what is told, from when on, in which form, and how they end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable

import aiohttp
import pytest

from kubemini.api import Api, Target
from kubemini.kinds import DEFINITION, NAMESPACE, POD, Kind
from kubemini.server import watching
from kubemini.server.options import ListOptions
from kubemini.server.selection import selection
from kubemini.server.watching import Watches
from kubemini.store import Subscriber
from tests.support.virtual_time import VirtualLoop
from tests.unit.kubemini.served import (
    CONFIG_MAP,
    MAPS,
    METADATA,
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
    while len(watches_of(client)) != count:  # noqa: ASYNC110  the server tells nobody
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("query", ["", "resourceVersion=0"])
async def test_a_watch_without_a_version_begins_with_what_is_there(query: str) -> None:
    async with served() as client:
        await client.make("a", data={"x": "1"})
        async with client.watch(f"{MAPS}?{query}") as events:
            assert await take(events, 1) == [("ADDED", "a", "1")]
            await client.make("b", data={"x": "2"})
            await client.change("a", data={"x": "3"})
            await client.drop("b")
            assert await take(events, 3) == [("ADDED", "b", "2"), ("MODIFIED", "a", "3"), ("DELETED", "b", "2")]


async def test_a_watch_from_a_version_tells_what_happened_since() -> None:
    async with served() as client:
        made = await client.make("a", data={"x": "1"})
        await client.change("a", data={"x": "2"})
        await client.drop("a")
        async with client.watch(f"{MAPS}?resourceVersion={made['metadata']['resourceVersion']}") as events:
            assert await take(events, 2) == [("MODIFIED", "a", "2"), ("DELETED", "a", "2")]


async def test_events_carry_the_version_at_which_they_happened() -> None:
    async with served() as client:
        made = await client.make("a", data={"x": "1"})
        gone = await client.drop("a")
        version = int(made["metadata"]["resourceVersion"])
        async with client.watch(f"{MAPS}?resourceVersion={version - 1}") as events:
            added, deleted = [await anext(events), await anext(events)]
        assert added["object"]["metadata"]["resourceVersion"] == str(version)
        # A deleted object looks as it did before, and is as new as its deletion.
        assert deleted["object"]["metadata"]["resourceVersion"] == gone["metadata"]["resourceVersion"]
        expected = made | {"metadata": made["metadata"] | {"resourceVersion": gone["metadata"]["resourceVersion"]}}
        assert deleted["object"] == expected


async def test_an_object_that_comes_to_match_is_new_and_one_that_ceases_to_is_gone() -> None:
    async with served() as client, client.watch(f"{MAPS}?labelSelector=in%3Dyes") as events:
        await client.make("a", data={"x": "1"})
        await client.change("a", metadata={"labels": {"in": "yes"}}, data={"x": "2"})
        await client.change("a", data={"x": "3"})
        left = await client.change("a", metadata={"labels": {"in": "no"}}, data={"x": "4"})
        await client.change("a", data={"x": "5"})
        await client.change("a", metadata={"labels": {"in": "yes"}}, data={"x": "6"})
        await client.drop("a")
        assert await take(events, 2) == [("ADDED", "a", "2"), ("MODIFIED", "a", "3")]
        gone = await anext(events)
        assert (gone["type"], gone["object"]["data"]) == ("DELETED", {"x": "3"})  # how it looked when it matched
        assert gone["object"]["metadata"]["labels"] == {"in": "yes"}
        assert gone["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
        assert await take(events, 2) == [("ADDED", "a", "6"), ("DELETED", "a", "6")]


async def test_fields_namespaces_and_names_are_selected() -> None:
    async with (
        served() as client,
        client.watch(f"{PODS}?fieldSelector=spec.nodeName%3Dn") as bound,
        client.watch("/api/v1/namespaces/other/pods") as elsewhere,
        client.watch("/api/v1/watch/namespaces/default/pods/b") as one,
    ):
        await client.api.create(Target(NAMESPACE), {"metadata": {"name": "other"}})
        await client.post(PODS, pod("a"))
        await client.post(PODS, pod("b", spec={"nodeName": "n"}))
        await client.post("/api/v1/namespaces/other/pods", pod("c"))
        await client.patch(f"{PODS}/a", {"metadata": {"labels": {"last": "yes"}}})
        await client.patch(f"{PODS}/b", {"metadata": {"labels": {"last": "yes"}}})
        assert await take(bound, 2) == [("ADDED", "b", ""), ("MODIFIED", "b", "")]
        assert await take(elsewhere, 1) == [("ADDED", "c", "")]
        assert await take(one, 2) == [("ADDED", "b", ""), ("MODIFIED", "b", "")]


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


async def test_a_streaming_list_ends_with_a_bookmark_that_says_so() -> None:
    async with served() as client:
        await client.make("a", data={"x": "1"})
        async with client.watch(f"{MAPS}?{INITIAL}") as events:
            assert await take(events, 1) == [("ADDED", "a", "1")]
            bookmark = await anext(events)
            assert bookmark == {
                "type": "BOOKMARK",
                "object": {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {
                        "resourceVersion": str(client.api.store.version),
                        "annotations": {"k8s.io/initial-events-end": "true"},
                    },
                },
            }
            await client.make("b")
            assert await take(events, 1) == [("ADDED", "b", "")]


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


async def test_a_watch_from_a_later_version_leaves_out_what_comes_before_it() -> None:
    async with served() as client:
        version = client.api.store.version + 1
        async with client.watch(f"{MAPS}?resourceVersion={version}") as events:
            await client.make("a")
            await client.make("b")
            assert await take(events, 1) == [("ADDED", "b", "")]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("resourceVersionMatch=NotOlderThan", "is forbidden for watch unless sendInitialEvents is provided"),
        ("sendInitialEvents=true", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ("sendInitialEvents=true&resourceVersionMatch=Exact", 'Unsupported value: "Exact"'),
    ],
)
async def test_options_that_make_no_sense_are_refused(query: str, said: str) -> None:
    async with served() as client:
        answer = await client.get(f"{MAPS}?watch=true&{query}")
        assert answer.status == 422
        assert said in answer.message
        assert (await client.get(f"{MAPS}?watch=true", "application/yaml")).status == 406


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
        self.writing_since = None
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
        await watching._Watch(api, selection(CONFIG_MAP, "default", "", ""), options, told).run()
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(watch()) == pytest.approx(100)
    assert told.times == pytest.approx([60, 98])


async def test_rows_and_metadata_can_be_watched() -> None:
    async with served() as client:
        await client.make("a", data={"x": "1"})
        async with client.watch(MAPS, TABLE) as rows, client.watch(MAPS, METADATA) as heads:
            first = (await anext(rows))["object"]
            assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
            assert first["rows"][0]["cells"][:2] == ["a", 1]
            assert first["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
            changed = await client.change("a", data={"x": "1", "y": "2"})
            second = (await anext(rows))["object"]
            assert second["columnDefinitions"] is None
            assert second["rows"][0]["cells"][:2] == ["a", 2]
            assert second["metadata"] == {"resourceVersion": changed["metadata"]["resourceVersion"]}
            await anext(heads)
            assert (await anext(heads))["object"] == {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": changed["metadata"],
            }


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
        assert len(watches_of(client)) == 0


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
    monkeypatch.setattr(watching, "_PATIENCE_SECONDS", 0.0)
    async with served() as client:
        subscribed = subscriptions(client, monkeypatch)
        url = client.server.url.removeprefix("http://").split(":")
        with socket.create_connection((url[0], int(url[1]))) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.sendall(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            await until_there_are(client, 1)
            await client.make("a")
            number = 0
            while len(watches_of(client)):
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
            assert len(watches_of(client)) == 1
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


async def test_a_watch_is_not_held_up_by_a_slow_one() -> None:
    async with served() as client, aiohttp.ClientSession() as session:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with session.get(f"{client.server.url}{MAPS}?watch=1", headers=headers), client.watch(MAPS) as events:
            await client.make("a")
            for number in range(100):
                await client.change("a", data={"x": str(number), "pad": "y" * 100_000})
            taken = [await anext(events) for _ in range(101)]
            assert taken[-1]["object"]["data"]["x"] == "99"
