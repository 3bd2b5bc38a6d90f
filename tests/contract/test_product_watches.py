"""The product's copy of a cluster, kept by watches, is what a list of everything gives; also after any trouble."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.reader import SnapshotBuilder
from rescheduler.decode.split import split
from rescheduler.decode.structs import RESOURCES, ApiResource
from rescheduler.kube.client import ApiClient, ApiRequest, ListPage
from rescheduler.kube.connection import Connection
from rescheduler.kube.errors import ApiError, Backoff
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.objects import list_cluster
from rescheduler.kube.reflector import Reflector
from rescheduler.model.snapshot import ClusterSnapshot
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.custom_kinds import Widgets, widgets
from tests.support.cut_proxy import CutProxy, cut_proxy
from tests.support.manifests import budget, deployment, pod
from tests.testbed.hollow import NodeShape

WATCHED = tuple(resource for resource in RESOURCES if not resource.optional)
SECONDS = 120.0


class Client(ApiClient):
    """The product's client; it remembers which watches were asked for, and can play a server without streamed lists."""

    def __init__(self, connection: Connection, *, streams: bool) -> None:
        super().__init__(connection)
        self.lists: list[str] = []
        self._streams = streams

    async def stream(self, request: ApiRequest, silence: float) -> AsyncGenerator[bytes, None]:
        if "sendInitialEvents" in request.params:
            if not self._streams:
                raise ApiError(422, "Invalid", "sendInitialEvents is forbidden", request.path)
            self.lists.append(request.path)
        async with aclosing(super().stream(request, silence)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def list_pages(
        self,
        path: str,
        limit: int = 500,
        params: Mapping[str, str] | None = None,
        answers: frozenset[int] = frozenset(),
    ) -> AsyncGenerator[ListPage, None]:
        self.lists.append(path)
        async with aclosing(super().list_pages(path, 2, params, answers)) as pages:  # so that there are several
            async for page in pages:
                yield page


def plain(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """Each field as JSON would have it: rows of pods are themselves and equal to no others."""
    found = {each.name: getattr(snapshot, each.name) for each in fields(ClusterSnapshot)}
    pairs = {name: sorted(given.items()) if isinstance(given, Mapping) else given for name, given in found.items()}
    made: dict[str, Any] = msgspec.to_builtins(pairs | {"kinds": sorted(snapshot.kinds)}, order="sorted")
    return made


class Copy:
    """A copy that reflectors keep, and what to compare it with."""

    def __init__(self, connection: Connection, client: Client, resources: Sequence[ApiResource]) -> None:
        self.client = client
        self.cache = ClusterCache(connection.source)
        backoff = Backoff(first=0.05, longest=0.5)
        self.reflectors = {
            resource.kind: Reflector(client, resource.path, self.cache.sink(resource.kind), backoff)
            for resource in resources
        }
        self._connection = connection
        self._resources = resources

    async def listed(self) -> ClusterSnapshot:
        """The cluster as `plan` reads it."""
        collector = SnapshotBuilder()

        def take(resource: ApiResource, page: ListPage) -> None:
            for part in split(io.BytesIO(page.body)):
                if isinstance(part, memoryview):
                    collector.add(resource.kind, part, self._connection.source)

        async with ApiClient(self._connection) as client:
            await list_cluster(client, take, self._resources)
        for resource in self._resources:
            collector.saw(resource.kind)
        return collector.snapshot(0.0)

    async def agrees(self) -> None:
        """Wait until the copy is what a list gives; both move on, so they are compared until they meet."""
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    if plain(await self.listed()) == plain(self.cache.snapshot(0.0)):
                        break
                    await asyncio.sleep(0.05)
        except TimeoutError:
            assert plain(self.cache.snapshot(0.0)) == plain(await self.listed())

    async def calm(self) -> None:
        """Wait until all watches are open again, those too that have nothing to tell."""
        async with asyncio.timeout(SECONDS):
            while True:
                if not any(reflector.failure for reflector in self.reflectors.values()):
                    return
                await asyncio.sleep(0.05)


@asynccontextmanager
async def following(
    cluster: ClusterUnderTest,
    resources: Sequence[ApiResource] = WATCHED,
    *,
    streams: bool = True,
    proxy: CutProxy | None = None,
) -> AsyncIterator[Copy]:
    """A copy of the cluster, complete, and kept up to date until the end of the block."""
    direct = load_connection(KubeconfigOptions(Path(cluster.kubeconfig), None), {})
    by_proxy = urlsplit(direct.server)._replace(netloc=f"127.0.0.1:{proxy.port}") if proxy else None
    connection = replace(direct, server=by_proxy.geturl()) if by_proxy else direct
    async with Client(connection, streams=streams) as client:
        copy = Copy(direct, client, resources)
        tasks = [asyncio.create_task(reflector.run()) for reflector in copy.reflectors.values()]
        try:
            async with asyncio.timeout(SECONDS):
                await asyncio.gather(*(reflector.synced.wait() for reflector in copy.reflectors.values()))
            yield copy
            await copy.calm()
            assert not [task for task in tasks if task.done()]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


@asynccontextmanager
async def proxied(cluster: ClusterUnderTest) -> AsyncIterator[CutProxy]:
    server = urlsplit(load_connection(KubeconfigOptions(Path(cluster.kubeconfig), None), {}).server)
    async with cut_proxy(server.hostname or "", server.port or 80) as proxy:
        yield proxy


def changed(space: Space, node: str) -> None:
    """Something new, something else, and something gone; the controllers add theirs."""
    space.create(budget("web", "web", minAvailable=1))
    space.patch("Deployment", "web", {"spec": {"replicas": 4}})
    space.patch("Pod", "single", {"metadata": {"labels": {"color": "red"}}})
    space.runs(pod("late"))
    space.delete("Pod", "gone", gracePeriodSeconds=0)
    space.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"contract.test/color": space.name}}})


@pytest.fixture
def filled(space: Space, nodes: list[str]) -> Space:
    space.create(deployment("web", 2))
    space.create(budget("old", "web", maxUnavailable=1))
    for name in ("single", "gone"):
        space.runs(pod(name))
    space.rolled_out("web")
    return space


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "paged"])
async def test_the_copy_follows_what_happens(
    cluster: ClusterUnderTest, filled: Space, nodes: list[str], streams: bool
) -> None:
    async with following(cluster, streams=streams) as copy:
        await copy.agrees()
        changed(filled, nodes[0])
        await copy.agrees()
        assert copy.cache.row("Pod", (filled.name, "single")).labels["color"] == "red"
        assert copy.cache.row("Pod", (filled.name, "gone")) is None
        more = cluster.add_nodes(2, NodeShape(cpu="1"), prefix="passing")
        await copy.agrees()
        assert {each.name for each in copy.cache.snapshot(0.0).nodes} >= set(more)
        cluster.remove_nodes(more)
        filled.delete("Deployment", "web", propagationPolicy="Foreground")
        filled.delete("PodDisruptionBudget", "old")
        filled.gone("Deployment", "web")
        await copy.agrees()
        assert copy.cache.row("Deployment", ("Deployment", filled.name, "web")) is None
        assert sorted(copy.client.lists) == sorted(resource.path for resource in WATCHED)  # each kind once


async def test_after_a_cut_it_goes_on_where_it_was(cluster: ClusterUnderTest, filled: Space, nodes: list[str]) -> None:
    async with proxied(cluster) as proxy, following(cluster, proxy=proxy) as copy:
        copy.client.lists.clear()
        proxy.shut()
        changed(filled, nodes[1])  # while nobody listens
        proxy.open()
        await copy.agrees()
        for number in range(5):  # and in the middle of what is told
            filled.create(pod(f"more-{number}"))
            await asyncio.sleep(0)
            proxy.cut()
            filled.delete("Pod", f"more-{number}", gracePeriodSeconds=0)
        await copy.agrees()
        assert proxy.cuts
        assert copy.client.lists == []  # nothing had to be listed anew


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "paged"])
async def test_a_first_list_that_breaks_off_again_and_again_becomes_whole_in_the_end(
    cluster: ClusterUnderTest, filled: Space, streams: bool
) -> None:
    async with proxied(cluster) as proxy:
        proxy.allowances = [*range(500, 12_000, 500)]
        async with following(cluster, streams=streams, proxy=proxy) as copy:
            await copy.agrees()
            assert proxy.cuts


@pytest.fixture
def fresh_kind(space: Space) -> Iterator[Widgets]:
    """A kind that was not there a moment ago: nobody can watch it from before that."""
    with widgets(space.cluster) as made:
        for name in ("gone", "stays"):
            space.api.post(made.path(space.name), made.widget(name))
        yield made


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "paged"])
async def test_when_the_past_is_forgotten_it_lists_anew_and_drops_what_went_unseen(
    cluster: ClusterUnderTest, space: Space, fresh_kind: Widgets, streams: bool
) -> None:
    # What a ReplicaSet and a widget have in common, name and labels, is all that is looked at here.
    resource = ApiResource("ReplicaSet", f"{fresh_kind.group}/v1", "widgets")
    async with (
        proxied(cluster) as proxy,
        following(cluster, (resource,), streams=streams, proxy=proxy) as copy,
    ):
        await copy.agrees()
        assert copy.cache.row("ReplicaSet", ("ReplicaSet", space.name, "gone")) is not None
        copy.client.lists.clear()
        proxy.shut()
        space.api.delete(fresh_kind.path(space.name, "gone"))
        space.api.patch(fresh_kind.path(space.name, "stays"), {"metadata": {"labels": {"color": "red"}}})
        space.api.post(fresh_kind.path(space.name), fresh_kind.widget("new"))
        copy.reflectors["ReplicaSet"]._version = "1"
        proxy.open()
        await copy.agrees()
        assert sorted(key[2] for key in copy.cache.snapshot(0.0).workloads) == ["new", "stays"]
        assert copy.client.lists == [resource.path]
