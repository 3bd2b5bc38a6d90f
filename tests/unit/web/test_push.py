"""The stream of events: what changes is told once and soon, slow readers are cut off, and nothing stays behind."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from rescheduler.model.migration import MigrationStatus, Phase
from rescheduler.model.plan import ClusterLoad, LoadDistribution, Method, Plan
from rescheduler.web import push
from rescheduler.web.api import Api
from rescheduler.web.push import Broadcaster, EventHub
from tests.support.pod_migrations import migration_spec, replace
from tests.support.showing import HERE, NOW, Stage, ask, served

Event = tuple[str, Any]
PATIENCE = 60.0  # seconds; nothing that is waited for here takes more than one


class Listener:
    """A page that listens."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.heard: list[Event] = []
        self._events = self._read()

    async def _read(self) -> AsyncIterator[Event]:
        name = ""
        async for line in self.answer.content:
            text = line.decode().rstrip("\n")
            if text.startswith("event: "):
                name = text.removeprefix("event: ")
            elif text.startswith("data: "):
                self.heard.append((name, json.loads(text.removeprefix("data: "))))
                yield self.heard[-1]

    async def until(self, wanted: str) -> Any:
        """The data of the next event of this name."""
        async with asyncio.timeout(PATIENCE):
            async for name, data in self._events:
                if name == wanted:
                    return data
        raise AssertionError(f"the stream has ended without {wanted}")

    async def hears(self, wanted: str, right: Callable[[Any], bool]) -> Any:
        """The data of an event of this name that is right, be it read already or still to come."""
        for name, data in self.heard:
            if name == wanted and right(data):
                return data
        while not right(data := await self.until(wanted)):
            pass
        return data

    async def rest(self) -> list[Event]:
        """All that comes until the end."""
        async with asyncio.timeout(PATIENCE):
            return [event async for event in self._events]


@asynccontextmanager
async def listening(address: str) -> AsyncGenerator[Listener]:
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"{address}/api/live") as answer,
    ):
        assert answer.status == 200
        yield Listener(answer)


def stage() -> Stage:
    made = Stage()
    made.node("a", cpu="10")
    made.node("b", cpu="10")
    return made


async def told_of_all(made: Stage) -> None:
    """What has changed up to now was told, or there was nobody to be told of it yet."""
    async with asyncio.timeout(PATIENCE):
        while made.page.state.loads.touched:  # noqa: ASYNC110 - nobody tells when it is
            await asyncio.sleep(0.05)


async def test_a_page_is_greeted_and_then_told_of_rows_that_change() -> None:
    made = stage()
    async with served(made) as address, listening(address) as page:
        assert page.answer.headers["Content-Type"].startswith("text/event-stream")
        assert "default-src 'none'" in page.answer.headers["Content-Security-Policy"]
        hello = await page.until("hello")
        assert hello["now"] == NOW
        await told_of_all(made)
        made.pod("web-1", "b", cpu="4")
        told = await page.hears("nodes", lambda told: "rows" in told)
        assert told["rows"] == [[1, 40.0, 6.25, 1, 0]]
        found = (await ask(address, "/api/nodes"))[1]
        assert (found["revision"], found["cpu"]) == (told["revision"], [0.0, 40.0])


async def test_a_node_that_comes_or_goes_has_the_page_look_anew() -> None:
    made = stage()
    async with served(made) as address, listening(address) as page:
        await page.until("hello")
        await told_of_all(made)
        before = (await ask(address, "/api/nodes"))[1]["revision"]
        made.node("c")
        told = await page.hears("nodes", lambda told: told["revision"] > before)
        assert (told["reset"], "rows" in told) == (True, False)


async def test_steps_of_a_move_are_told_as_they_happen_and_its_end_and_its_going() -> None:
    made = stage()
    begun = MigrationStatus(phase=Phase.IN_PROGRESS, method=Method.HANDOFF, source="a", target="b")
    async with served(made) as address, listening(address) as page:
        await page.until("hello")
        made.migration("m", migration_spec("web-1"), replace(begun, step="Mark", step_time=NOW))
        assert (await page.until("migration"))["step"] == "Mark"
        made.migration("m", migration_spec("web-1"), replace(begun, step="CreateCopy", step_time=NOW + 1))
        made.migration("m", migration_spec("web-1"), replace(begun, step="Nominate", step_time=NOW + 2))
        row = await page.until("migration")
        assert [each["step"] for each in row["history"]] == ["Mark", "CreateCopy", "Nominate"]
        await page.hears("overview", lambda told: told["counts"]["inProgress"] == 1)
        made.watching.migrations.drop(("shop", "m"))
        assert await page.until("gone") == {"namespace": "shop", "name": "m"}


async def test_a_plan_that_the_leader_made_is_told_and_is_then_the_newest() -> None:
    made = stage()
    flat = LoadDistribution(0.0, 0.0, 0.0, 0.0)
    picture = ClusterLoad(flat, flat, 0, ())
    async with served(made) as address, listening(address) as page:
        await page.until("hello")
        made.page.state.plans.put(Plan((), (), picture, picture, ("a warning",)), NOW - 1, 0.5)
        assert await page.until("plan") == {"made": NOW - 1}
        found = (await ask(address, "/api/plan"))[1]
        assert (found["made"], found["seconds"], found["plan"]["warnings"]) == (NOW - 1, 0.5, ["a warning"])
        overview = (await ask(address, "/api/overview"))[1]
        assert (overview["nextPlan"], overview["warnings"]) == (NOW + 29, ["a warning"])


async def test_the_overview_is_told_only_when_something_has_changed() -> None:
    made = stage()
    hub = EventHub()
    broadcaster = Broadcaster(made.page.state, hub)
    told: list[str] = []
    hub.publish = lambda event, data: told.append(event)  # type: ignore[method-assign] # to see what is told
    hub._readers.add(push.Subscriber(lambda: None))  # somebody listens
    for _ in range(2):
        broadcaster.publish_changes()
    assert told.count("overview") == 1
    told.clear()
    made.clock.now += 1
    for _ in range(6):
        broadcaster.publish_changes()
    assert told == []
    made.pause = None
    made.pod("web-1", "a")
    for _ in range(2):
        broadcaster.publish_changes()
    assert sorted(told) == ["nodes", "overview"]


async def test_thousands_of_migrations_are_told_a_part_at_a_time() -> None:
    made = stage()
    hub, told = EventHub(), list[str]()
    broadcaster = Broadcaster(made.page.state, hub)
    hub.publish = lambda event, data: told.append(event)  # type: ignore[method-assign] # to see what is told
    hub._readers.add(push.Subscriber(lambda: None))
    for number in range(1200):
        made.migration(f"m{number}", migration_spec("web-1"))
    counts = []
    for _ in range(4):
        broadcaster.publish_changes()
        counts.append(told.count("migration"))
    assert counts == [500, 1000, 1200, 1200]


async def test_samples_go_on_while_nobody_looks() -> None:
    made = stage()
    broadcaster = Broadcaster(made.page.state, EventHub())
    for _ in range(60):
        broadcaster.publish_changes()
        made.clock.now += 0.5
    times = [each.time - NOW for each in made.page.state.samples.all()]
    assert times == [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]
    async with served(made) as address:
        found = (await ask(address, "/api/spread"))[1]["samples"]
    assert [each["time"] for each in found][:6] == [NOW + each for each in times]
    assert found[0]["cpu"] == {"max": 0.0, "min": 0.0, "mean": 0.0}


async def test_all_streams_end_at_once_with_the_server_and_leave_no_task() -> None:
    made = stage()
    before = asyncio.all_tasks()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        async with served(made) as address:
            answers = [await session.get(f"{address}/api/live") for _ in range(5)]
            pages = [Listener(answer) for answer in answers]
            for page in pages:
                await page.until("hello")
            assert made.page.api.readers == 5
        for page in pages:
            await page.rest()
    assert made.page.api.readers == 0
    assert asyncio.all_tasks() == before


async def test_a_page_that_goes_is_forgotten() -> None:
    made = stage()
    async with served(made) as address, listening(address) as other:
        async with listening(address) as page:
            await page.until("hello")
            await other.until("hello")
            assert made.page.api.readers == 2
        async with asyncio.timeout(PATIENCE):
            while made.page.api.readers == 2:  # it is noticed when there is something to be told
                made.clock.now += 1
                made.pod("web-1", "a", cpu="1" if made.clock.now % 2 else "2")
                await other.until("nodes")
        assert made.page.api.readers == 1


async def test_whoever_comes_when_all_places_are_taken_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = stage()
    monkeypatch.setattr(push, "_MOST_READERS", 1)
    async with served(made) as address, listening(address) as page:
        await page.until("hello")
        async with aiohttp.ClientSession() as session, session.get(f"{address}/api/live") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
            assert "1 pages are open already" in (await answer.json())["error"]


async def test_a_reader_that_does_not_read_is_cut_off_and_the_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "_BEHIND", 2**20)
    hub = EventHub()
    big = {"text": "x" * 2**17}

    async def stream(request: web.Request) -> web.StreamResponse:
        return await hub.stream(request, {})

    app = web.Application()
    app.router.add_get("/api/live", stream)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, HERE, 0)
    await site.start()
    address = f"http://{HERE}:{runner.addresses[0][1]}"
    try:
        where = urlsplit(address)
        deaf = socket.create_connection((where.hostname, where.port))
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b"GET /api/live HTTP/1.1\r\nHost: x\r\n\r\n")
        async with listening(address) as page:
            most = 0
            async with asyncio.timeout(PATIENCE):
                while most < 2 or hub.readers == 2:
                    hub.publish("big", big)
                    await page.until("big")
                    most = max(most, hub.readers)
            assert hub.readers == 1
        deaf.close()
        hub.end()
    finally:
        await runner.cleanup()


def test_the_api_has_no_stream_before_it_is_served() -> None:
    made = stage()
    assert isinstance(made.page.api, Api)
    assert made.page.api.readers == 0
