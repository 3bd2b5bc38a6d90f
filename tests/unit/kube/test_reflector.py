"""A reflector keeps its copy right: by streamed lists and pages, after cuts and 410, with objects it can't read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.structs import RESOURCES
from rescheduler.kube.client import ApiClient, ApiRequest, ListPage
from rescheduler.kube.errors import ApiError, Backoff
from rescheduler.kube.reflector import LineBuffer, Reflector
from rescheduler.model.json import Json
from tests.support.virtual_time import VirtualLoop

NODES = next(resource for resource in RESOURCES if resource.kind == "Node")
LIST_ENDS = {"k8s.io/initial-events-end": "true"}


def node(name: str, version: int, **labels: str) -> Json:
    return {"kind": "Node", "metadata": {"name": name, "resourceVersion": str(version), "labels": labels}}


def event(kind: str, body: Json) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def bookmark(version: int, annotations: Mapping[str, str] | None = None) -> bytes:
    metadata = {"resourceVersion": str(version), "annotations": dict(annotations or {})}
    return event("BOOKMARK", {"kind": "Node", "metadata": metadata})


def gone() -> bytes:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})


def refused(status: int) -> ApiError:
    return ApiError(status, "Invalid", "sendInitialEvents is forbidden", NODES.path)


class ScriptedClient:
    """Answers each watch with the next chunks of its script, and waits for ever when it has said all."""

    def __init__(self, *watches: list[bytes] | ApiError, pages: list[ListPage] | None = None) -> None:
        self.asked: list[Mapping[str, str]] = []
        self.exhausted = asyncio.Event()
        self._watches = list(watches)
        self._pages = pages or []

    async def stream(self, request: ApiRequest, silence: float) -> AsyncGenerator[bytes, None]:
        self.asked.append(request.params)
        if not self._watches:
            self.exhausted.set()
            await asyncio.Event().wait()
        script = self._watches.pop(0)
        if isinstance(script, ApiError):
            raise script
        for chunk in script:
            yield chunk

    async def list_pages(self, path: str) -> AsyncGenerator[ListPage, None]:
        for page in self._pages:
            yield page


@pytest.fixture
def paused() -> list[float]:
    return []


@pytest.fixture
def backoff(paused: list[float]) -> Backoff:
    async def note(seconds: float) -> None:
        paused.append(seconds)

    return Backoff(sleep=note)


async def followed(client: ScriptedClient, backoff: Backoff) -> tuple[ClusterCache, Reflector]:
    """The copy, when the client has said all it had to say."""
    cache = ClusterCache("test")
    reflector = Reflector(cast("ApiClient", client), NODES.path, cache.sink("Node"), backoff)
    task = asyncio.create_task(reflector.run())
    try:
        await client.exhausted.wait()
    finally:
        task.cancel()
        await asyncio.wait([task])
    return cache, reflector


def names(cache: ClusterCache) -> list[str]:
    return [each.name for each in cache.snapshot(0.0).nodes]


async def test_a_streamed_list_that_breaks_off_is_not_taken_for_whole(backoff: Backoff) -> None:
    client = ScriptedClient([event("ADDED", node("a", 5))])
    _, reflector = await followed(client, backoff)
    assert not reflector.synced.is_set()
    assert client.asked[-1]["sendInitialEvents"] == "true"


async def test_a_watch_goes_on_where_the_last_one_ended(backoff: Backoff) -> None:
    client = ScriptedClient(
        [event("ADDED", node("a", 5)), bookmark(9, LIST_ENDS), event("MODIFIED", node("a", 11, x="y")), bookmark(20)],
        [event("ADDED", node("b", 21)), event("DELETED", node("a", 22))],
    )
    cache, _ = await followed(client, backoff)
    assert names(cache) == ["b"]
    assert [asked.get("resourceVersion") for asked in client.asked] == [None, "20", "22"]


async def test_until_the_new_list_is_whole_the_old_state_stands(backoff: Backoff) -> None:
    client = ScriptedClient(
        [event("ADDED", node("a", 5)), bookmark(9, LIST_ENDS)], [gone()], [event("ADDED", node("b", 30))]
    )
    cache, _ = await followed(client, backoff)
    assert names(cache) == ["a", "b"]


async def test_failures_are_tried_again_with_growing_pauses_and_told(backoff: Backoff, paused: list[float]) -> None:
    broken = ApiError(None, "BrokenOff", "the connection broke off", NODES.path)
    cache, reflector = await followed(ScriptedClient(broken, broken, broken), backoff)
    assert len(paused) == 3
    assert "the connection broke off" in reflector.failure
    assert names(cache) == []


async def test_what_the_server_asks_to_wait_is_waited(backoff: Backoff, paused: list[float]) -> None:
    busy = ApiError(429, "TooManyRequests", "busy", NODES.path)
    busy.retry_after = 7.0
    await followed(ScriptedClient(busy), backoff)
    assert paused[0] >= 7.0


def test_a_watch_that_ends_at_once_is_not_asked_for_in_a_tight_circle(backoff: Backoff, paused: list[float]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:  # in which "at once" takes no time, whatever the machine
        runner.run(followed(ScriptedClient([bookmark(9, LIST_ENDS)], [], []), backoff))
    assert len(paused) == 2


async def test_an_object_that_cannot_be_read_is_a_warning_and_the_rest_goes_on(backoff: Backoff) -> None:
    broken = {"kind": "Node", "metadata": {"name": "bad", "resourceVersion": "7"}, "spec": 5}
    mended = node("bad", 12)
    script = [event("ADDED", broken), event("ADDED", node("a", 5)), bookmark(9, LIST_ENDS)]
    cache, _ = await followed(ScriptedClient(script), backoff)
    assert names(cache) == ["a", "bad"]
    assert "Node bad" in cache.snapshot(0.0).warnings[0]
    cache, _ = await followed(ScriptedClient([*script, event("MODIFIED", mended)]), backoff)
    assert cache.snapshot(0.0).warnings == ()


def test_a_snapshot_does_not_change_with_the_cache() -> None:
    cache = ClusterCache("test")
    sink = cache.sink("Namespace")
    sink.put(json.dumps({"metadata": {"name": "a"}}).encode())
    taken = cache.snapshot(0.0)
    sink.put(json.dumps({"metadata": {"name": "b"}}).encode())
    sink.drop(json.dumps({"metadata": {"name": "a"}}).encode())
    assert sorted(taken.namespaces) == ["a"]
    assert sorted(cache.snapshot(0.0).namespaces) == ["b"]


def test_listeners_hear_what_changed_and_what_went() -> None:
    heard: list[tuple[str, Any]] = []
    cache = ClusterCache("test")
    cache.listen(lambda kind, key, _: heard.append((kind, key)))
    sink = cache.sink("Deployment")
    sink.begin()
    sink.put(json.dumps({"metadata": {"name": "web", "namespace": "shop"}}).encode())
    sink.complete()
    sink.begin()
    sink.complete()
    assert heard == [("Deployment", ("Deployment", "shop", "web"))] * 2
    assert cache.row("Deployment", ("Deployment", "shop", "web")) is None


LINE = st.binary(min_size=1, max_size=20).map(lambda line: line.replace(b"\n", b"-"))


@given(st.lists(LINE, max_size=8), st.data())
def test_lines_come_out_whole_wherever_the_stream_is_cut(expected: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in expected)
    lines = LineBuffer()
    found: list[bytes] = []
    at = 0
    while at < len(stream):
        size = data.draw(st.integers(1, max(1, len(stream) - at)))
        found += lines.feed(stream[at : at + size])
        at += size
    assert found == expected


def test_a_line_that_is_not_complete_is_kept_for_the_next_chunk() -> None:
    lines = LineBuffer()
    assert lines.feed(b"half") == []
    assert lines.feed(b" a line\nand ") == [b"half a line"]
    assert lines.feed(b"more\n\n") == [b"and more"]
