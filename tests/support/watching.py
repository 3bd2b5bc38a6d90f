"""The product's cache of a cluster under test, kept by its reflectors for as long as a block lasts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.structs import RESOURCES
from rescheduler.kube.client import ApiClient
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.reflector import Reflector
from rescheduler.runtime.orphans import WATCHED
from tests.support.both_clusters import ClusterUnderTest

SECONDS = 120.0


@dataclass(frozen=True)
class Watched:
    """A client, and what is known through it."""

    client: ApiClient
    cache: ClusterCache


@asynccontextmanager
async def watch_cluster(cluster: ClusterUnderTest) -> AsyncIterator[Watched]:
    """All kinds that the garbage collector and the cordons need, known from the start."""
    async with ApiClient(load_connection(KubeconfigOptions(cluster.kubeconfig, None), os.environ)) as client:
        cache = ClusterCache("test")
        kinds = [resource for resource in RESOURCES if resource.kind in WATCHED]
        reflectors = [Reflector(client, resource.path, cache.sink(resource.kind)) for resource in kinds]
        following = [asyncio.create_task(each.run()) for each in reflectors]
        try:
            async with asyncio.timeout(SECONDS):
                for each in reflectors:
                    await each.synced.wait()
            yield Watched(client, cache)
        finally:
            for task in following:
                task.cancel()
            await asyncio.wait(following)
