"""How long a watch has been silent: every event and bookmark is a sign of life, an error or a new list is none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from rescheduler.decode.cache import ClusterCache
from rescheduler.kube import reflector as module
from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import ApiError, Backoff
from rescheduler.kube.objects import MIGRATIONS
from rescheduler.kube.reflector import Reflector
from rescheduler.model.migration import Phase
from rescheduler.runtime.informers import Informers, InformerStatus
from tests.support.kubeconfigs import connection
from tests.support.pod_migrations import migration_spec, pod_migration
from tests.unit.kube.test_reflector import LIST_ENDS, NODES, ScriptedClient, bookmark, event, gone, node


class Clock:
    """Goes on only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class Script(ScriptedClient):
    """A client that lets time go by before each chunk."""

    clock: Clock

    async def stream(self, request: ApiRequest, silence: float) -> AsyncGenerator[bytes, None]:
        async for chunk in super().stream(request, silence):
            self.clock.now += 10
            yield chunk


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@asynccontextmanager
async def followed(clock: Clock, *watches: list[bytes] | ApiError) -> AsyncIterator[Reflector]:
    """The reflector when the client has said all, at the time of that."""

    async def at_once(seconds: float) -> None:
        pass

    client = Script(*watches)
    client.clock = clock
    reflector = Reflector(
        cast("ApiClient", client), NODES.path, ClusterCache("test").sink("Node"), Backoff(sleep=at_once)
    )
    task = asyncio.create_task(reflector.run())
    try:
        await client.exhausted.wait()
        yield reflector
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_before_the_first_list_is_whole_nothing_is_known(clock: Clock) -> None:
    async with followed(clock, [b"", event("ADDED", node("a", 1))]) as reflector:
        assert reflector.lag is None


async def test_every_event_and_bookmark_is_a_sign_of_life(clock: Clock) -> None:
    whole = [b"", event("ADDED", node("a", 1)), bookmark(2, LIST_ENDS)]
    async with followed(clock, whole) as reflector:
        assert reflector.lag == 0
        clock.now += 45
        assert reflector.lag == 45
    async with followed(clock, [*whole, event("MODIFIED", node("a", 3)), bookmark(4)]) as reflector:
        assert reflector.lag == 0


async def test_a_watch_that_is_opened_anew_is_one_too(clock: Clock) -> None:
    async with followed(clock, [b"", bookmark(2, LIST_ENDS)], [b""]) as reflector:
        assert reflector.lag == 0


async def test_an_error_and_a_list_that_is_not_whole_are_none(clock: Clock) -> None:
    whole = [b"", bookmark(2, LIST_ENDS)]
    async with followed(clock, [*whole, gone()], [b"", event("ADDED", node("a", 9))]) as reflector:
        assert reflector.lag == 30  # the error, the new answer and an event of the new list came after the last sign
    async with followed(clock, whole, ApiError(None, "Unreachable", "nobody", "/"), ApiError(503, "", "", "/")) as one:
        assert one.lag == 0
        clock.now += 7
        assert one.lag == 7


def test_each_kind_is_told_with_its_size(tmp_path: Path) -> None:
    client = ApiClient(connection(tmp_path, {"server": "http://127.0.0.1:1"}))
    watching = Informers(client, "test", [NODES, MIGRATIONS])
    watching.cache.put("Node", json.dumps(node("a", 1)).encode())
    for name in ("one", "two"):
        watching.migrations.put(pod_migration("shop", name, migration_spec("web")))
    assert watching.statuses() == [InformerStatus("nodes", 1, None, ""), InformerStatus("podmigrations", 2, None, "")]
    assert [watching.migrations.count(phase) for phase in Phase] == [2, 0, 0, 0]
