"""`python -m tests.bench.watching`: first sync, changes, snapshots and memory of the watches' copy of a cluster.

A scripted stream in this process gives the reflector of pods what an API server would: a streamed list, then changes.
Times are CPU time, and the floor is what msgspec alone needs to decode the same events into our lean structs. What is
measured runs in a process of its own, which reads the stream from a file, so that its peak of memory is its own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from statistics import median
from typing import cast

import msgspec

from rescheduler.decode import structs as wire
from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.structs import RESOURCES
from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.reflector import LineBuffer, Reflector, WatchEvent, wait_for_first_sync
from tests.bench.skewed import nodes_of, objects, workloads_of

CHUNK = 65536  # what aiohttp reads at once
CHANGES = 30_000
SIZES = ((1_000, 30_000), (5_000, 150_000))
RUNS = 3  # of what can be measured more than once; the median counts
KINDS = {resource.kind: resource for resource in RESOURCES}
FED = ("Pod", "Node", "Namespace", "Deployment", "ReplicaSet", "DaemonSet", "PodDisruptionBudget")
Figures = dict[str, float]


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.watching", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="only the smaller cluster")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # the folder of a stream: what the child process does
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(asyncio.run(measured(Path(options.measure)))))
        return
    sizes = SIZES[:1] if options.small else SIZES
    found = [figures_of(nodes, pods, options.seed) for nodes, pods in sizes]
    print(f"{platform.machine()}, Python {platform.python_version()}, seed {options.seed}; CPU seconds\n")
    for row in table(found):
        print(f"  {row[0]:<38}" + "".join(f"{cell:>28}" for cell in row[1:]))


def figures_of(nodes: int, pods: int, seed: int) -> Figures:
    """What a process of its own measures on a cluster of this size."""
    with tempfile.TemporaryDirectory(prefix="rescheduler-bench-") as folder:
        print(f"… generating {nodes:,} nodes and {pods:,} pods", file=sys.stderr, flush=True)
        write_streams(Path(folder), nodes, pods, seed)
        print("… measuring", file=sys.stderr, flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.watching", "--measure", folder],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
    found: Figures = json.loads(done.stdout)
    return found


def write_streams(folder: Path, nodes: int, pods: int, seed: int) -> None:
    """A file a kind, each a streamed list of it, and the file of the pods' changes."""
    rng = random.Random(seed)
    planned = nodes_of(nodes, pods, rng)
    files = {kind: (folder / kind).open("wb") for kind in FED}
    changing: list[bytes] = []
    try:
        for text in objects(planned, workloads_of(planned, rng)):
            body = json.loads(text)
            line = _event("ADDED", body)
            files[body["kind"]].write(line)
            if body["kind"] == "Pod" and rng.random() < CHANGES / pods:
                changing.append(_event("MODIFIED", _changed(body, rng)))
        for out in files.values():
            annotations = {"k8s.io/initial-events-end": "true"}
            out.write(_event("BOOKMARK", {"metadata": {"resourceVersion": "2000", "annotations": annotations}}))
    finally:
        for out in files.values():
            out.close()
    rng.shuffle(changing)
    (folder / "changes").write_bytes(b"".join(changing))


def _changed(pod: dict[str, object], rng: random.Random) -> dict[str, object]:
    """What most events are: a condition turned, or a move to another node."""
    changed: dict[str, object] = json.loads(json.dumps(pod))
    cast("dict[str, str]", changed["metadata"])["resourceVersion"] = str(rng.randrange(3_000, 1_000_000))
    conditions = cast("dict[str, list[dict[str, str]]]", changed["status"])["conditions"]
    for condition in conditions:
        condition["status"] = rng.choice(("True", "False"))
    return changed


def _event(kind: str, body: object) -> bytes:
    """As an API server writes it, without blanks."""
    return json.dumps({"type": kind, "object": body}, separators=(",", ":")).encode() + b"\n"


class Script:
    """Stands for the client: each kind's stream is its file; the pods' goes on with the changes when asked to."""

    def __init__(self, folder: Path) -> None:
        self.go_on = asyncio.Event()
        self.told = asyncio.Event()
        self._folder = folder

    async def stream(self, request: ApiRequest, silence: float) -> AsyncGenerator[bytes, None]:
        kind = next(kind for kind in FED if KINDS[kind].path == request.path)
        yield b""
        for chunk in chunks(self._folder / kind):
            yield chunk
            await asyncio.sleep(0)  # as a socket, it lets the other kinds go on
        if kind == "Pod":
            await self.go_on.wait()
            for chunk in chunks(self._folder / "changes"):
                yield chunk
                await asyncio.sleep(0)
            self.told.set()
        await asyncio.Event().wait()


def chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


async def measured(folder: Path) -> Figures:
    """The copy first, because its peak of memory is measured; then the floor."""
    script, cache = Script(folder), ClusterCache("the benchmark")
    reflectors = [Reflector(cast("ApiClient", script), KINDS[kind].path, cache.sink(kind)) for kind in FED]
    imports = _peak_mb()
    started = time.process_time()
    tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
    await wait_for_first_sync(reflectors)
    synced = time.process_time() - started
    started = time.process_time()
    script.go_on.set()
    await script.told.wait()
    changed = time.process_time() - started
    watching = _peak_mb()
    found = {
        "sync": synced,
        "changes": changed,
        "snapshot": median(_snapshot(cache) for _ in range(RUNS)),
        "imports_mb": imports,
        "watching_mb": watching,
        "peak_mb": _peak_mb(),
        "nodes": cache.count("Node"),
        "pods": cache.count("Pod"),
        "stream_mb": sum((folder / kind).stat().st_size for kind in FED) / 1e6,
    }
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return found | floors(folder)


def _snapshot(cache: ClusterCache) -> float:
    started = time.process_time()
    cache.snapshot(0.0)
    return time.process_time() - started


def floors(folder: Path) -> Figures:
    """What decoding alone takes of the first state and of the changes."""
    gc.disable()
    changes = [_decoded(folder / "changes", "Pod") for _ in range(RUNS)]
    return {
        "sync_floor": median(sum(_decoded(folder / kind, kind)[0] for kind in FED) for _ in range(RUNS)),
        "changes_floor": median(seconds for seconds, _ in changes),
        "events": changes[0][1],
    }


def _decoded(path: Path, kind: str) -> tuple[float, int]:
    """Seconds of decoding alone, without the cutting into lines, and how many events there are."""
    structs = {"Pod": wire.ApiPod, "Node": wire.ApiNode, "Namespace": wire.ApiObject}
    budget, workload = wire.ApiPodDisruptionBudget, wire.ApiWorkload
    decoder = msgspec.json.Decoder(structs.get(kind, budget if kind == "PodDisruptionBudget" else workload))
    envelope = msgspec.json.Decoder(WatchEvent)
    spent, count, lines = 0.0, 0, LineBuffer()
    for chunk in chunks(path):
        whole = lines.feed(chunk)
        started = time.process_time()
        for line in whole:
            event = envelope.decode(line)
            if event.type != "BOOKMARK":
                decoder.decode(event.object)
        spent += time.process_time() - started
        count += len(whole)
    return spent, count


def _peak_mb() -> float:
    """Of this program alone: what getrusage tells begins with the size of the process that started us."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def table(found: list[Figures]) -> list[tuple[str, ...]]:
    """A column a cluster, and the goals."""
    rows: list[tuple[str, Callable[[Figures], str], str]] = [
        ("", lambda f: f"{f['nodes']:,.0f} nodes, {f['pods']:,.0f} pods", "goal"),
        ("what the watches send", lambda f: f"{f['stream_mb']:,.0f} MB", ""),
        ("first sync ÷ decoding alone", lambda f: _ratio(f["sync"], f["sync_floor"]), ""),
        ("pods a second", lambda f: f"{f['pods'] / f['sync']:,.0f}", ""),
        ("30,000 changes ÷ decoding alone", lambda f: _ratio(f["changes"], f["changes_floor"]), ""),
        ("events a second", lambda f: f"{f['events'] / f['changes']:,.0f}", ""),
        ("a snapshot", lambda f: f"{f['snapshot']:.2f} s", ""),
        ("peak memory before the first byte", lambda f: f"{f['imports_mb']:,.0f} MB", ""),
        ("peak memory, watching", lambda f: f"{f['watching_mb']:,.0f} MB", ""),
        ("peak memory, snapshots included", _memory, "≤ 1,000 MB"),
    ]
    return [(name, *(cell(each) for each in found), goal) for name, cell, goal in rows]


def _memory(found: Figures) -> str:
    return f"{found['peak_mb']:,.0f} MB" + ("" if found["peak_mb"] <= 1000 else ", missed")


def _ratio(spent: float, floor: float) -> str:
    return f"{spent:.2f} s ÷ {floor:.2f} s = {spent / floor:.1f}"


if __name__ == "__main__":
    main()
