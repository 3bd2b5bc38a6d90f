"""`python -m tests.bench.admission`: how long the webhook and the extender take to answer, alone and through HTTPS.

The cluster in memory has 5,000 nodes and 150,000 pods; 200 workloads have records of failures, 50 migrations wait for
pods. Requests come from a process of its own, over as many connections as it has requests at once, each kept alive as
the API server does it. The reference, in the same run: the same requests to a route that answers a fixed body of the
same size without looking. So the difference is what deciding costs. Deciding alone is CPU time; whoever asks measures
wall-clock time: with 64 at once most of it is waiting for a turn, for the reference just as well, and what else the
machine does is in it, too.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import random
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from rescheduler.admission.advisor import PlacementAdvisor
from rescheduler.admission.certificates import new_authority, new_serving
from rescheduler.admission.extender import Extender
from rescheduler.admission.server import Address, AdmissionServer, ServerLimits
from rescheduler.admission.webhook import PodMutator
from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.reader import without_gc
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.plan import Method
from rescheduler.recovery.record import WHOLE, NodeFailure, RecordEntry, format_record
from rescheduler.recovery.settings import RecoverySettings
from rescheduler.runtime.migration_cache import MigrationCache
from tests.bench.skewed import nodes_of, objects, workloads_of
from tests.support.pod_migrations import migration_spec, pod_migration

Handler = Callable[[bytes], bytes]

NODES, PODS = 5_000, 150_000
RECORDS, MIGRATIONS = 200, 50
SAMPLED = 500  # of 5,000 nodes, kube-scheduler looks for 10 % that fit, and shows these to extenders
AT_ONCE = (1, 16, 64)
BODIES = 200
ROUNDS = 10
TURNS = 20
FIXED = "/fixed"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.admission", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="a tenth of the cluster")
    parser.add_argument("--requests", type=int, default=4_000, help="how many each measurement sends")
    parser.add_argument("--ask", help=argparse.SUPPRESS)  # what the process that asks is told, as JSON
    options = parser.parse_args()
    if options.ask:
        print(json.dumps(asyncio.run(asking(json.loads(options.ask)))))
        return
    share = 10 if options.small else 1
    nodes, pods = NODES // share, PODS // share
    _tell(f"generating {nodes:,} nodes and {pods:,} pods")
    world = World(nodes, pods, random.Random(options.seed))
    print(f"{platform.machine()}, Python {platform.python_version()}, seed {options.seed}")
    print(f"{nodes:,} nodes, {pods:,} pods, {RECORDS} workloads with records, {MIGRATIONS} migrations\n")
    world.report_alone()
    asyncio.run(world.report_served(options.requests))


class World:
    """A cluster in memory, those who decide about its new pods, and what they are asked."""

    def __init__(self, nodes: int, pods: int, rng: random.Random) -> None:
        self.cache, self.migrations, self.now = ClusterCache("bench"), MigrationCache(), time.time()
        self.names: list[str] = []
        self._pods: list[Json] = []
        with without_gc():
            self._fill(nodes, pods, rng)
            self._trouble(rng)
        placement_advisor = PlacementAdvisor(
            self.cache, self.migrations, RecoverySettings, lambda: self.now, gate=False
        )
        mutation = PodMutator(placement_advisor, lambda: ("kube-system",), lambda: self.now)
        extender = Extender(placement_advisor, lambda new_pod, reason: None)
        rng.shuffle(self._pods)
        some = rng.sample(self.names, min(SAMPLED, len(self.names)))
        self.questions: dict[str, tuple[Handler, list[bytes]]] = {
            "/mutate": (mutation.review, [_review(pod) for pod in self._pods]),
            "/extender/filter": (extender.filter, [_arguments(pod, some) for pod in self._pods]),
            "/extender/prioritize": (extender.prioritize, [_arguments(pod, some) for pod in self._pods]),
            "/extender/filter/all": (extender.filter, [_arguments(pod, self.names) for pod in self._pods]),
        }

    def _fill(self, nodes: int, pods: int, rng: random.Random) -> None:
        """The cluster, and beside it one pod of each ReplicaSet, to be made anew."""
        planned = nodes_of(nodes, pods, rng)
        known: set[str] = set()
        for text in objects(planned, workloads_of(planned, rng)):
            kind = text.partition('"kind": "')[2].partition('"')[0]
            self.cache.put(kind, text.encode())
            if kind == "Node":
                self.names.append(text.partition('"name": "')[2].partition('"')[0])
            elif kind == "Pod" and '"kind": "ReplicaSet"' in text and len(known) < 2 * BODIES:
                pod = json.loads(text)
                owner = pod["metadata"]["ownerReferences"][0]["name"]
                if owner not in known:
                    known.add(owner)
                    self._pods.append(pod)

    def _trouble(self, rng: random.Random) -> None:
        """Records for the first 200 workloads, migrations for every fourth of them; the others have neither."""
        for number, pod in enumerate(self._pods):
            metadata = pod["metadata"]
            reference, namespace = metadata["ownerReferences"][0], metadata["namespace"]
            reference["uid"] = f"controller-{number}"
            for key in ("nodeName", "nominatedNodeName"):
                pod["spec"].pop(key, None)
            pod["status"] = {"phase": "Pending"}
            app, tried = reference["name"].rpartition("-")[0], rng.sample(self.names, 5)
            if number < RECORDS:
                failures = {name: NodeFailure(self.now - 60, "CrashLoopBackOff") for name in tried}
                self._own(app, reference, namespace, format_record({WHOLE: RecordEntry(5, failures)}))
            if number < RECORDS and number % (RECORDS // MIGRATIONS) == 0:
                self.migrations.put(_migration(f"move-{number}", namespace, reference, (tried[0], self.names[number])))

    def _own(self, app: str, reference: Json, namespace: str, record: str) -> None:
        notes = {labels.SCHEDULING_RETRIES: "3", labels.FAILURES: record}
        above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": app, "uid": f"{app}-uid", "controller": True}
        holder = {"name": app, "namespace": namespace, "uid": f"{app}-uid", "annotations": notes}
        controller = {"name": reference["name"], "namespace": namespace, "uid": reference["uid"]}
        self.cache.put("Deployment", msgspec.json.encode({"metadata": holder}))
        self.cache.put("ReplicaSet", msgspec.json.encode({"metadata": {**controller, "ownerReferences": [above]}}))

    def report_alone(self) -> None:
        """What a decision takes without network: CPU time of single calls, beside what msgspec needs for the body."""
        print(f"  {'deciding, without network':<30} {'body':>9} {'p50':>9} {'p99':>9} {'msgspec':>9} {'p50 ÷':>6}")
        for path, (handler, bodies) in self.questions.items():
            took, reading = _times(handler, bodies), _times(msgspec.json.decode, bodies)
            base = statistics.median(reading)
            size = statistics.median(map(len, bodies)) / 1024
            figures = f"{_us(_rank(took, 50))} {_us(_rank(took, 99))} {_us(base)}"
            print(f"    {path:<28} {size:>6.1f} KB {figures} {_rank(took, 50) / base:>6.2f}", flush=True)
        print()

    async def report_served(self, requests: int) -> None:
        """What whoever asks waits for an answer, through our server, at several levels of concurrency."""
        fixed = {FIXED + path: _fixed(handler(bodies[0])) for path, (handler, bodies) in self.questions.items()}
        routes = {path: handler for path, (handler, _) in self.questions.items()} | fixed
        with tempfile.TemporaryDirectory(prefix="rescheduler-bench-") as text:
            folder = Path(text)
            for number, (_, bodies) in enumerate(self.questions.values()):
                (folder / str(number)).write_bytes(msgspec.json.encode(bodies))
            async with AdmissionServer(
                routes, _certified(folder), Address("127.0.0.1", 0), ServerLimits()
            ).listening() as server:
                head = f"{'p50':>9} {'p99':>9} {'fixed p50':>10} {'p99':>9} {'p50 ÷':>6} {'p99 ÷':>6} {'a second':>9}"
                print(f"  {'through HTTPS':<28} {'at once':>7} {head}")
                for number, path in enumerate(self.questions):
                    for at_once in AT_ONCE:
                        job = {"port": server.address.port, "folder": text, "bodies": number, "at_once": at_once}
                        await _compared(job | {"requests": requests}, path)


async def _compared(job: Json, path: str) -> None:
    """One line: the route and its reference."""
    found = await _asked(job | {"paths": [path, FIXED + path]})
    ours, late, base, base_late = (_rank(times, rank) for times in found["seconds"] for rank in (50, 99))
    told = f"{_us(ours)} {_us(late)} {_us(base):>10} {_us(base_late)} {ours / base:>6.2f} {late / base_late:>6.2f}"
    print(f"    {path:<26} {job['at_once']:>7} {told} {found['rates'][0]:>9,.0f}", flush=True)


async def _asked(job: Json) -> Json:
    """What a process of its own has measured; meanwhile this one serves it."""
    command = (sys.executable, "-m", "tests.bench.admission", "--ask", json.dumps(job))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"whoever asks ended with {process.returncode}")
    found: Json = json.loads(out)
    return found


async def asking(job: Json) -> Json:
    """Send the requests of a job and note how long each answer took; one connection for each that is under way.

    The paths have turns of a part of a second, so that all of them have the same weather.
    """
    folder = Path(job["folder"])
    bodies = msgspec.json.decode((folder / str(job["bodies"])).read_bytes(), type=list[bytes])
    asked = [[_request(path, body) for body in bodies] for path in job["paths"]]
    trusted = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    gc.freeze()
    lines = [
        await asyncio.open_connection("127.0.0.1", job["port"], ssl=trusted, limit=2**20) for _ in range(job["at_once"])
    ]
    seconds: list[list[float]] = [[] for _ in asked]
    spent = [0.0 for _ in asked]
    await asyncio.gather(*(_asks(line, asked[0], range(3), []) for line in lines))  # each connection is warm then
    for turn in range(TURNS):
        for requests, times, at in zip(asked, seconds, range(len(asked)), strict=True):
            left = iter(range(turn * 7, turn * 7 + job["requests"] // TURNS))
            started = time.perf_counter()
            await asyncio.gather(*(_asks(line, requests, left, times) for line in lines))
            spent[at] += time.perf_counter() - started
    for _, writer in lines:
        writer.close()
        await writer.wait_closed()
    rates = [len(times) / total for times, total in zip(seconds, spent, strict=True)]
    return {"seconds": seconds, "rates": rates}


def _request(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _asks(
    line: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    requests: list[bytes],
    numbers: Iterable[int],
    seconds: list[float],
) -> None:
    reader, writer = line
    for number in numbers:
        begun = time.perf_counter()
        writer.write(requests[number % len(requests)])
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        answer = await reader.readexactly(length)
        seconds.append(time.perf_counter() - begun)
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"{head!r} {answer[:200]!r}")


def _times(handler: Callable[[bytes], object], bodies: list[bytes]) -> list[float]:
    found: list[float] = []
    for _ in range(ROUNDS):
        for body in bodies:
            begun = time.thread_time()
            handler(body)
            found.append(time.thread_time() - begun)
    return found


def _review(pod: Json) -> bytes:
    """As the API server shows a pod that a ReplicaSet is about to make."""
    metadata = {key: pod["metadata"][key] for key in pod["metadata"] if key not in ("name", "uid", "resourceVersion")}
    asked = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": pod["metadata"]["namespace"],
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller", "groups": ["x"] * 3},
        "object": {**pod, "metadata": metadata},
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": asked})


def _arguments(pod: Json, nodes: list[str]) -> bytes:
    return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": nodes})


def _migration(name: str, namespace: str, reference: Json, way: tuple[str, str]) -> PodMigration:
    progress = MigrationStatus(
        phase=Phase.IN_PROGRESS, step="AwaitRebuilt", method=Method.EVICT, pod_uid=f"{name}-original",
        source=way[0], target=way[1], start_time=1.0,
        controller=ObjectReference("ReplicaSet", reference["name"], reference["uid"]),
    )  # fmt: skip
    return pod_migration(
        namespace, name, migration_spec("original", strategy="LoadBalancing"), progress, f"{name}-uid", "1"
    )


def _fixed(answer: bytes) -> Handler:
    return lambda body: answer


def _certified(folder: Path) -> ssl.SSLContext:
    authority = new_authority("bench", time.time())
    serving = new_serving(authority, ["127.0.0.1"], time.time())
    (folder / "ca.pem").write_bytes(authority.certificate)
    (folder / "tls.crt").write_bytes(serving.certificate)
    (folder / "tls.key").write_bytes(serving.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


def _rank(times: list[float], percent: int) -> float:
    return statistics.quantiles(times, n=100)[percent - 1]


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:>6,.0f} µs" if seconds < 0.01 else f"{seconds * 1e3:>6,.1f} ms"


def _tell(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
