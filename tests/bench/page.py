"""`python -m tests.bench.page`: what the page costs a controller of a large cluster, in time and in memory.

The cluster in memory has 5,000 nodes and 150,000 pods, 500 migrations, and the page's own listeners. Measured are CPU
times: of one change, with the page beside the cache and without it; of a beat, which tells the pages that are open of
all that has changed; of each answer, as it is made, and beside it what msgspec alone takes to write such an answer. The
event loop can do nothing else meanwhile. What takes longer is done in a thread, or in pieces: there it is the CPU time
of the process, in all and between two turns of a task that only wants a turn, so what others do is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import platform
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.reader import without_gc
from rescheduler.model.migration import MigrationStatus, Phase
from rescheduler.model.plan import Method
from rescheduler.model.policy import Policy, Utilization
from rescheduler.model.snapshot import MeasuredUsage
from rescheduler.web.node_stats import NodeStatsTracker
from rescheduler.web.push import Broadcaster, EventHub, Subscriber
from rescheduler.web.responses import JsonBody, encode_json
from rescheduler.web.state import PageState
from rescheduler.web.views import columns, migrations, overview, search
from tests.bench.skewed import nodes_of, objects, workloads_of
from tests.support.pod_migrations import migration_spec
from tests.support.showing import Stage

NODES, PODS, MIGRATIONS = 5_000, 150_000, 500
CHANGES = 5_000
TURNS = 9
ROUNDS = 30
SECOND_OF_CHURN = 20  # pods that come or go in a second: beyond that Kubernetes promises nothing


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.page", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="a tenth of the cluster")
    options = parser.parse_args()
    share = 10 if options.small else 1
    nodes, pods = NODES // share, PODS // share
    _tell(f"generating {nodes:,} nodes and {pods:,} pods")
    bench = Bench(nodes, pods, random.Random(options.seed))
    print(f"{platform.machine()}, Python {platform.python_version()}, seed {options.seed}")
    print(f"{nodes:,} nodes, {pods:,} pods, {MIGRATIONS} migrations\n")
    bench.report_changes()
    bench.report_memory()
    bench.report_answers()
    asyncio.run(bench.report_off_the_loop())


class Bench:
    """A cluster in memory, with its page."""

    def __init__(self, nodes: int, pods: int, rng: random.Random) -> None:
        self._rng = rng
        self.stage = Stage()
        self.stage.clock.now = time.time()
        self._pods: list[tuple[bytes, bytes]] = []
        cache = self.stage.watching.cache
        with without_gc():
            planned = nodes_of(nodes, pods, rng)
            for text in objects(planned, workloads_of(planned, rng)):
                kind = text.partition('"kind": "')[2].partition('"')[0]
                raw = text.encode()
                cache.put(kind, raw)
                if kind == "Pod" and len(self._pods) < CHANGES:
                    ended = msgspec.json.decode(raw)
                    ended["status"]["phase"] = "Succeeded"
                    self._pods.append((raw, msgspec.json.encode(ended)))
        self._names = [row.name for row in cache.rows("Node")]
        for number in range(MIGRATIONS):
            source, target = rng.sample(self._names, 2)
            way = MigrationStatus(
                phase=Phase.IN_PROGRESS, step="Mark", method=Method.HANDOFF, source=source, target=target
            )
            over = MigrationStatus(phase=Phase.COMPLETED, method=Method.HANDOFF, source=source, target=target)
            order = migration_spec(f"pod-{number}")
            self.stage.migration(f"m{number}", order, way if number < 20 else over, created=self.stage.clock.now)

    @property
    def _showing(self) -> PageState:
        return self.stage.page.state

    def report_changes(self) -> None:
        """One pod that ends, and one that runs again: taken by the cache while nobody listens, and with the page."""
        cache = self.stage.watching.cache
        listeners = list(cache._listeners)
        gc.collect()
        gc.freeze()
        alone, beside = [], []
        for _ in range(TURNS):  # in turns, so that both have the same weather; each leaves the pods as they were
            cache._listeners.clear()
            alone.append(self._changes(cache))
            cache._listeners.extend(listeners)
            beside.append(self._changes(cache))
        base, ours = statistics.median(alone), statistics.median(beside)
        print("  a change of a pod that counts for its node")
        print(f"    {'decoding it into the cache':<44} {_us(base)}")
        print(f"    {'the same, and the page beside it':<44} {_us(ours)}   ÷ {ours / base:.2f}\n")

    def _changes(self, cache: ClusterCache) -> float:
        started = time.thread_time()
        for raw, ended in self._pods:
            cache.put("Pod", ended)
            cache.put("Pod", raw)
        return (time.thread_time() - started) / (2 * len(self._pods))

    def report_memory(self) -> None:
        """What the page holds besides what the cache holds anyway, and how long it takes to take in a whole cluster."""
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        loads = NodeStatsTracker(self.stage.watching.cache, Policy())
        held = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        started = time.thread_time()
        NodeStatsTracker(self.stage.watching.cache, Policy())
        took = time.thread_time() - started
        each = held / max(1, len(loads._pods))
        print(f"  {'memory beside the cache':<46} {held / 2**20:>6.1f} MB ({each:.0f} bytes a pod)")
        print(f"  {'taking the whole cluster in':<46} {took * 1e3:>6.0f} ms (spread over its first list)\n")

    def report_answers(self) -> None:
        """What the loop is kept from other things by each answer, beside what writing it alone takes."""
        showing = self._showing
        print(f"  {'an answer, on the loop':<32} {'size':>9} {'gzip':>9} {'made':>9} {'msgspec':>9} {'÷':>6}")
        for path, made in (
            ("/api/overview", lambda: overview(showing)),
            ("/api/nodes", lambda: columns(showing, 1)),
            ("/api/migrations", lambda: migrations(showing)),
        ):
            self._line(path, made)
        print()
        broadcaster, reader = self._broadcaster()
        quiet = _median(broadcaster.publish_changes, ROUNDS)
        times = []
        for _ in range(ROUNDS):
            for raw, ended in self._rng.sample(self._pods, SECOND_OF_CHURN // 4):
                self.stage.watching.cache.put("Pod", ended)
                self.stage.watching.cache.put("Pod", raw)
            times.append(_median(broadcaster.publish_changes, 1))
            reader.end()
            broadcaster, reader = self._broadcaster(broadcaster)
        print("  a beat (two a second) with a page open")
        print(f"    {'nothing has changed':<44} {_us(quiet)}")
        print(f"    {f'at {SECOND_OF_CHURN} pods a second':<44} {_us(statistics.median(times))}\n")

    def _line(self, path: str, made: Callable[[], Any]) -> None:
        def afresh() -> bytes:
            self._showing.loads.touch(self._names[0])
            self._showing.loads._stats = None  # as after a change
            return encode_json(made())

        data = made()
        body, took, base = encode_json(data), _median(afresh, ROUNDS), _median(lambda: encode_json(data), ROUNDS)
        packed = asyncio.run(_packed(body))
        sizes = f"{len(body) / 1024:>6.1f} KB {len(packed) / 1024:>6.1f} KB"
        print(f"    {path:<30} {sizes} {_us(took)} {_us(base)} {took / base:>6.1f}", flush=True)

    def _broadcaster(self, before: Broadcaster | None = None) -> tuple[Broadcaster, Subscriber]:
        """A broadcaster with one page open, that takes nothing."""
        hub, reader = EventHub(), Subscriber(lambda: None)
        hub._readers.add(reader)
        broadcaster = before or Broadcaster(self._showing, hub)
        broadcaster._hub = hub
        return broadcaster, reader

    async def report_off_the_loop(self) -> None:
        """What takes longer: how long it takes, and how long the loop waits at the most meanwhile."""
        gc.collect()
        gc.freeze()  # as the controller does after its first list
        plans = self._showing.plans
        pods = [key for keys in self._showing.loads.by_place() for key in keys]
        print(f"  {'off the loop, or in pieces':<32} {'took':>9} {'between turns, at most':>24}")
        some = self._rng.sample(pods, 3)
        loads, measured = self._measured()

        async def node() -> object:
            return await plans.objections(self._showing.loads.pods_on(self._names[0]))

        for name, work in (
            ("/api/search?q=1 (all pods)", lambda: search(self._showing, "1")),
            ("/api/nodes/… (first)", node),
            ("/api/nodes/… (again)", node),
            ("/api/plan", plans.get),
            ("/api/pods/… (plans anew)", lambda: plans.explain(some[0])),
            ("/api/pods/… (shares the plan)", lambda: plans.explain(some[1])),
            ("/api/pods/… (the same again)", lambda: plans.explain(some[1])),
            ("a measurement of all pods", lambda: loads.use_measured(measured)),
        ):
            await _watched(name, work)

    def _measured(self) -> tuple[NodeStatsTracker, MeasuredUsage]:
        """The same cluster by measured use, and a measurement: every pod uses half of what it asks."""
        cache = self.stage.watching.cache
        half = {
            (pod.namespace, pod.name): tuple((name, amount // 2) for name, amount in pod.held)
            for pod in cache.rows("Pod")
        }
        return NodeStatsTracker(cache, Policy(utilization=Utilization.USAGE)), MeasuredUsage(pods=half)


async def _watched(name: str, work: Callable[[], Awaitable[object]]) -> None:
    """Do it while somebody looks at the clock as often as the loop lets him."""
    longest, over = 0.0, asyncio.Event()

    async def look() -> None:
        nonlocal longest
        while not over.is_set():
            before = time.process_time()
            await asyncio.sleep(0.001)
            longest = max(longest, time.process_time() - before)

    looking = asyncio.create_task(look())
    await asyncio.sleep(0.01)
    longest = 0.0
    started = time.process_time()
    await work()
    took = time.process_time() - started
    over.set()
    await looking
    print(f"    {name:<30} {took * 1e3:>6,.0f} ms {longest * 1e3:>16,.1f} ms", flush=True)


async def _packed(plain: bytes) -> bytes:
    return await JsonBody(plain).compressed()


def _median(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        started = time.thread_time()
        work()
        times.append(time.thread_time() - started)
    return statistics.median(times)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:>6,.1f} µs" if seconds < 0.001 else f"{seconds * 1e3:>6,.2f} ms"


def _tell(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
