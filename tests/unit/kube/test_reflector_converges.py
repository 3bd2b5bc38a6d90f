"""Whatever happens to objects and connections, in whatever order, the copy ends up as the cluster is.

A small API server acts out a script of changes, bookmarks, cuts and compactions while a reflector follows it: changes
come while it watches, in the middle of its lists, and while it is away. Pure: no network, and no time passes.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.structs import RESOURCES, ApiResource
from rescheduler.kube.client import ApiClient, ApiRequest, ListPage
from rescheduler.kube.errors import ApiError, Backoff
from rescheduler.kube.reflector import Reflector
from rescheduler.model.json import Json

END = {"k8s.io/initial-events-end": "true"}
BY_KIND = {resource.kind: resource for resource in RESOURCES}


@dataclass(frozen=True)
class Change:
    """An object is written (with a spec that makes sense, or none) or deleted; unless there is nothing to delete."""

    name: str
    write: bool
    mark: int = 0


@dataclass(frozen=True)
class Bookmark:
    """Says how far the watch has come."""


@dataclass(frozen=True)
class Cut:
    """The connection ends, with an error or without; so many changes happen before the next one."""

    away: int
    error: bool
    forgotten: bool
    """Whether what happened until then can still be watched from; if not, how it is told is drawn, too."""
    as_event: bool


Act = Change | Bookmark | Cut
ACTS = st.one_of(
    st.builds(Change, st.sampled_from("abcd"), st.sampled_from([True, True, False]), st.integers(0, 3)),
    st.builds(Bookmark),
    st.builds(Cut, st.integers(0, 3), st.booleans(), st.booleans(), st.booleans()),
)


class Server:
    """Acts the script out. What is left of it when the reflector has caught up is told to nobody: then all is over."""

    def __init__(self, resource: ApiResource, acts: list[Act], luck: random.Random, *, streams: bool) -> None:
        self.over = asyncio.Event()
        self.world: dict[str, Json] = {}
        self._path = resource.path
        self._acts = deque(acts)
        self._luck = luck
        self._streams = streams
        self._version = 10
        self._patience = 100 + 10 * len(acts)
        self._history: list[tuple[int, bytes]] = []
        self._forgotten, self._as_event = 0, False

    async def stream(self, request: ApiRequest, silence: float) -> AsyncGenerator[bytes, None]:
        params = request.params
        self._patience -= 1
        if not self._patience:  # it asks again and again: what it has by now is compared
            self.over.set()
            await asyncio.Event().wait()
        if "sendInitialEvents" in params and not self._streams:
            raise ApiError(422, "Invalid", "sendInitialEvents is forbidden", self._path)
        if "resourceVersion" in params and int(params["resourceVersion"]) < self._forgotten and not self._as_event:
            raise self._expired()
        yield b""
        events = self._listed() if "sendInitialEvents" in params else self._watched(int(params["resourceVersion"]))
        held = b""
        async for event in events:
            held += event
            cut = self._luck.choice((len(held), self._luck.randint(0, len(held)))) if event else len(held)
            if cut:
                yield held[:cut]
            held = held[cut:]  # if the connection ends now, it is lost, as on a real one
            if not event:
                self.over.set()  # whoever asks for more has taken all that there was
                await asyncio.Event().wait()

    async def list_pages(self, path: str) -> AsyncGenerator[ListPage, None]:
        for start in range(2):  # the second time, it has expired on the way
            version, items = self._version, list(self.world.values())
            pages = [items[at : at + 2] for at in range(0, len(items), 2)] or [[]]
            expires = not start and len(pages) > 1 and self._luck.random() < 0.3
            for index, page in enumerate(pages[:1] if expires else pages):
                self._live(self._luck.randint(0, 2))  # the pages stay as they were; the watch tells of it
                yield ListPage(json.dumps({"metadata": {}, "items": page}).encode(), not index, str(version))
            if not expires:
                return

    async def _listed(self) -> AsyncGenerator[bytes, None]:
        """What there is, in any order; what happens meanwhile; the bookmark; and then as any other watch."""
        items = list(self.world.values())
        self._luck.shuffle(items)
        since = self._version
        for item in items:
            if self._acts and isinstance(self._acts[0], Cut):
                self._away(cast("Cut", self._acts.popleft()))
                return
            yield _event("ADDED", item)
        self._live(self._luck.randint(0, 2))
        for version, line in self._history:
            if version > since:
                yield line
        yield _event("BOOKMARK", {"metadata": {"resourceVersion": str(self._version), "annotations": END}})
        async for line in self._watched(self._version):
            yield line

    async def _watched(self, since: int) -> AsyncGenerator[bytes, None]:
        if since < self._forgotten:
            yield _event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
            return
        for version, line in list(self._history):
            if version > since:
                yield line
        while self._acts:
            match self._acts.popleft():
                case Change() as change:
                    if line := self._change(change):
                        yield line
                case Bookmark():
                    yield _event("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}})
                case cut:
                    self._away(cut)
                    if cut.error:
                        raise ApiError(None, "BrokenOff", "the connection broke off", self._path)
                    return
        yield b""

    def _away(self, cut: Cut) -> None:
        self._live(cut.away)
        if cut.forgotten:
            self._version += 1  # of another kind
            self._forgotten, self._as_event = self._version, cut.as_event

    def _live(self, count: int) -> None:
        """So many changes, if they come next; nobody is told of them now."""
        while count and self._acts and isinstance(self._acts[0], Change):
            self._change(cast("Change", self._acts.popleft()))
            count -= 1

    def _change(self, change: Change) -> bytes:
        there = change.name in self.world
        if not change.write and not there:
            return b""
        self._version += self._luck.randint(1, 3)
        metadata = {"name": change.name, "labels": {"mark": str(change.mark)}, "resourceVersion": str(self._version)}
        spec: Any = {"unschedulable": True, "replicas": change.mark} if change.mark else 5  # which cannot be read
        body = {"metadata": metadata, "spec": spec}
        if change.write:
            line = _event("MODIFIED" if there else "ADDED", body)
            self.world[change.name] = body
        else:
            line = _event("DELETED", body)
            del self.world[change.name]
        self._history.append((self._version, line))
        return line

    def _expired(self) -> ApiError:
        return ApiError(410, "Expired", "too old resource version", self._path)


def _event(kind: str, body: Json) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


async def _at_once(seconds: float) -> None:
    await asyncio.sleep(0)


@given(
    st.sampled_from(["Node", "ReplicaSet", "PodDisruptionBudget"]),
    st.lists(ACTS, max_size=30),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_the_copy_ends_up_as_the_cluster_is(kind: str, acts: list[Act], seed: int, streams: bool) -> None:
    async def follow() -> None:
        server = Server(BY_KIND[kind], acts, random.Random(seed), streams=streams)
        cache, truth = ClusterCache("test"), ClusterCache("test")
        backoff = Backoff(sleep=_at_once)
        reflector = Reflector(cast("ApiClient", server), BY_KIND[kind].path, cache.sink(kind), backoff)
        task = asyncio.create_task(reflector.run())
        over = asyncio.create_task(server.over.wait())
        await asyncio.wait([task, over], return_when=asyncio.FIRST_COMPLETED)
        assert not task.done(), task
        task.cancel()
        await asyncio.wait([task])
        sink = truth.sink(kind)
        sink.begin()
        for body in server.world.values():
            sink.put(json.dumps(body).encode())
        sink.complete()
        assert cache.snapshot(0.0) == truth.snapshot(0.0)
        assert reflector.synced.is_set()
        assert not reflector.failure

    asyncio.run(follow())
