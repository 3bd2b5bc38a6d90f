"""`python -m tests.bench.embedded`: what the embedded cluster holds, and what it costs.

Deployments of 100 are created on empty nodes; the clock stops when every pod is Running and nobody has anything left
to do. Times are CPU time of this process, and the reference is what msgspec alone needs to decode and encode the same
pods once: a pod is written about five times on its way (made, bound, started, and its owners' status).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import sys
import time

import msgspec

from kubemini.api import Target
from kubemini.cluster import EmbeddedCluster
from kubemini.kinds import DEPLOYMENT, POD
from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import AuthInfo, BearerToken, Connection
from tests.testbed.hollow import deployment

PER_DEPLOYMENT = 100


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.embedded", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=30_000)
    options = parser.parse_args()
    asyncio.run(measured(options.nodes, options.pods))


async def measured(nodes: int, pods: int) -> None:
    """Fill a cluster, let it rest, and list it."""
    async with EmbeddedCluster() as cluster:
        started, clock = time.process_time(), time.monotonic()
        await cluster.add_nodes(nodes)
        for number in range(-(-pods // PER_DEPLOYMENT)):
            body = deployment(f"app-{number}", min(PER_DEPLOYMENT, pods - number * PER_DEPLOYMENT))
            await cluster.api.create(Target(DEPLOYMENT, "default"), body)
        while not (cluster.idle and (running := _running(cluster)) == pods):
            print(
                f"\r{time.monotonic() - clock:4.0f} s: {_running(cluster):,} of {pods:,} run", end="", file=sys.stderr
            )
            await asyncio.sleep(1.0)
        filled = time.process_time() - started
        print(file=sys.stderr)
        print(f"{nodes:,} nodes, {running:,} pods, all Running")
        reference = _reference(cluster)
        print(
            f"  filling ÷ msgspec's round of all pods    {filled:.0f} s ÷ {reference:.2f} s = {filled / reference:.0f}"
        )
        print(f"  CPU a pod                                {filled / pods * 1000:.1f} ms")
        print(f"  peak memory                              {_peak_mb():.0f} MB")
        rested, beats = time.process_time(), time.monotonic()
        await asyncio.sleep(20.0)
        share = (time.process_time() - rested) / (time.monotonic() - beats)
        print(f"  a cluster at rest                        {share:.0%} of a core")
        await _listed(cluster, reference)


async def _listed(cluster: EmbeddedCluster, reference: float) -> None:
    """All pods in pages of 500, over HTTP, by our own client in this same process."""
    connection = Connection(cluster.url, "the benchmark", credentials=AuthInfo(BearerToken(cluster.token)))
    async with ApiClient(connection) as client:
        started, size = time.process_time(), 0
        async for page in client.list_pages("/api/v1/pods"):
            size += len(page.body)
        spent = time.process_time() - started
    told = f"{spent:.2f} s ÷ {reference:.2f} s = {spent / reference:.1f}"
    print(f"  listing {size / 1e6:,.0f} MB, client included        {told}")


def _reference(cluster: EmbeddedCluster) -> float:
    raws = [entry.raw for entry in cluster.api.store.entries(POD)]
    gc.collect()
    started = time.process_time()
    for raw in raws:
        msgspec.json.encode(msgspec.json.decode(raw))
    return time.process_time() - started


def _running(cluster: EmbeddedCluster) -> int:
    return sum(1 for entry in cluster.api.store.entries(POD) if entry.fields["status.phase"] == "Running")


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
