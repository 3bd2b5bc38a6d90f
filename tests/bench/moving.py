"""`python -m tests.bench.moving`: how many handoffs a second land on the real control plane, and where their time goes.

Deployments stand on half of the nodes; these are labelled for maintenance, and `rescheduler run` hands every pod off to
the other half. The reference is measured in the same run, on the same control plane: how many pods a second it makes,
places and starts when the same Deployments are scaled up. A handoff is such a pod and seven writes more.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

from rescheduler.model.json import Json
from tests.support.audit_log import entries
from tests.support.both_clusters import Space, is_ready, name_of
from tests.support.controller_process import Controller, write_config
from tests.support.manifests import deployment
from tests.support.migrations import MIGRATIONS
from tests.support.skewed_cluster import kind_is_served, migrations
from tests.testbed.api import Api
from tests.testbed.binaries import binaries
from tests.testbed.cluster import ControlPlane
from tests.testbed.hollow import NodeShape
from tests.testbed.processes import until

NODES = 20
MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
USER = "rescheduler"
LONGEST = 600.0
RAISED = {"total": "unlimited", "perNode": "unlimited"}  # perWorkload stays 1: a ReplicaSet takes one copy at a time


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.moving", description=__doc__)
    parser.add_argument("--deployments", type=int, default=40)
    parser.add_argument("--replicas", type=int, default=5)
    options = parser.parse_args()
    with ControlPlane(binaries()) as cluster, tempfile.TemporaryDirectory(prefix="rescheduler-bench-") as folder:
        Bench(cluster, options.deployments, options.replicas).run(Path(folder))


class Bench:
    """One cluster, filled and emptied again by half."""

    def __init__(self, cluster: ControlPlane, deployments: int, replicas: int) -> None:
        self.cluster = cluster
        self.space = Space(cluster, "default")
        self.apps = [f"web-{number}" for number in range(deployments)]
        self.replicas = replicas
        self.pods = deployments * replicas

    def run(self, folder: Path) -> None:
        """The reference first, then the moves of the very pods that it made."""
        shape = NodeShape(cpu="32", memory="128Gi")
        crowded = self.cluster.add_nodes(NODES // 2, shape, prefix="crowded")
        _tell(f"scaling {len(self.apps)} Deployments up to {self.replicas}")
        reference = self.scaled_up()
        self.cluster.add_nodes(NODES // 2, shape, prefix="late")
        _tell(f"handing {self.pods} pods off")
        before = self.cpu_of_control_plane()
        moved, steps, spent = self.moved(crowded, folder)
        served = self.cpu_of_control_plane() - before
        print(
            f"{self.pods} handoffs of {len(self.apps)} Deployments on {NODES} nodes, Kubernetes {self.cluster.version}"
        )
        _line("handoffs a second", f"{self.pods / moved:.1f}")
        _line("pods a second when Deployments are scaled up", f"{self.pods / reference:.1f}")
        _line("a handoff ÷ a pod of a scale-up", f"{moved:.1f} s ÷ {reference:.1f} s = {moved / reference:.1f}")
        _line("CPU of the controller, a handoff", f"{spent / self.pods * 1000:.0f} ms")
        _line("CPU of the control plane, a handoff", f"{served / self.pods * 1000:.0f} ms")
        self.requests()
        steps.report()

    def scaled_up(self) -> float:
        """Seconds from the first request to the last Ready pod."""
        for app in self.apps:
            self.space.create(deployment(app, 0))
        for app in self.apps:
            self.space.rolled_out(app)
        started = time.monotonic()
        for app in self.apps:
            self.space.patch("Deployment", app, {"spec": {"replicas": self.replicas}})
        until("all pods are Ready", lambda: self.ready() == self.pods, seconds=LONGEST, every=0.1)
        return time.monotonic() - started

    def ready(self) -> int:
        return sum(is_ready(each) for each in self.space.list("Pod"))

    def moved(self, crowded: list[str], folder: Path) -> tuple[float, StepRecord, float]:
        """Seconds from the label to the last completed handoff; its steps; and the controller's CPU seconds."""
        how = {"evictionGracePeriod": "1s", "concurrency": RAISED}
        alone = {"leaderElect": False}  # on a busy machine a lease may run out
        wanted = {"enabledStrategies": ["NodeMaintenance"], "migration": how, "leaderElection": alone}
        config = write_config(folder / "config.yaml", "default", **wanted)
        before = _cpu_of_children()
        with Controller(self.cluster.kubeconfig_as(USER, "system:masters"), config, folder / "run.log") as controller:
            kind_is_served(self.space, controller)
            with contextlib.closing(StepRecord(self.cluster.api, self.pods)) as steps:
                started = time.monotonic()
                for node in crowded:
                    self.cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {MAINTENANCE: "true"}}})
                until("all handoffs have landed", steps.over.is_set, [controller], LONGEST, every=0.1)
            self.check()
            controller.stop()
        return steps.last - started, steps, _cpu_of_children() - before

    def cpu_of_control_plane(self) -> float:
        """Seconds that all of its programs have used."""
        stats = [Path(f"/proc/{pid}/stat").read_text() for pid in self.cluster.pids.values()]
        times = [each.rpartition(")")[2].split()[11:13] for each in stats]  # user and system, after the name
        return sum(int(user) + int(system) for user, system in times) / os.sysconf("SC_CLK_TCK")

    def check(self) -> None:
        """That they were handoffs, all of them, and landed where they were planned to."""
        nodes = {name_of(each): each["spec"].get("nodeName") for each in self.space.list("Pod")}
        for each in migrations(self.space):
            status = each["status"]
            if (status["phase"], status["method"]) != ("Completed", "handoff"):
                raise RuntimeError(f"not a handoff that landed: {status}")
            if nodes.get(status["replacement"]["name"]) != status["target"]:
                raise RuntimeError(f"not on its planned node: {status}")

    def requests(self) -> None:
        """How often the API server was asked, by its own record."""
        asked = Counter(each.right.verb for each in entries(self.cluster.audit_log, USER))
        told = ", ".join(f"{verb} {count / self.pods:.1f}" for verb, count in asked.most_common())
        _line("requests a handoff", f"{asked.total() / self.pods:.0f}: {told}")


class StepRecord:
    """When each migration came to each of its steps, seen by a watch in a thread."""

    def __init__(self, api: Api, count: int) -> None:
        self.over = threading.Event()
        self.last = 0.0
        self._count = count
        self._api = api.another()
        self._times: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
        self._version = self._api.get(MIGRATIONS.format("default"))["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._run, name="step-record", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._api.close()

    def _run(self) -> None:
        path = f"{MIGRATIONS.format('default')}?resourceVersion={self._version}&timeoutSeconds={LONGEST:.0f}"
        completed = 0
        with self._api.watch(path) as events:
            for event in events:
                completed += self._noted(event["object"], time.monotonic())
                if completed == self._count:
                    break
        self.last = time.monotonic()
        self.over.set()

    def _noted(self, migration: Json, now: float) -> bool:
        """Whether it is the end of a migration."""
        status = migration.get("status", {})
        phase = status.get("phase", "Pending")
        step = status.get("step") or phase if phase == "InProgress" else phase
        seen = self._times[migration["metadata"]["name"]]
        if seen and seen[-1][0] == step:
            return False
        seen.append((step, now))
        return bool(phase in ("Completed", "Failed"))

    def report(self) -> None:
        """Mean, median and the slowest twentieth of each step, in the order of the steps."""
        spent: defaultdict[str, list[float]] = defaultdict(list)
        begun: defaultdict[str, list[float]] = defaultdict(list)
        for seen in self._times.values():
            for (step, since), (_, left) in itertools.pairwise(seen):
                spent[step].append(left - since)
                begun[step].append(since - seen[0][1])
        order = sorted(spent, key=lambda step: statistics.mean(begun[step]))
        under_way = [seen[-1][1] - seen[1][1] for seen in self._times.values()]
        print(f"  {'time of a move, by step':<46} {'moves':>6} {'mean':>8} {'median':>8} {'95 %':>8}")
        for step, times in [*((step, spent[step]) for step in order), ("all but Pending", under_way)]:
            slow = statistics.quantiles(times, n=20)[-1] if len(times) > 1 else times[0]
            figures = (statistics.mean(times), statistics.median(times), slow)
            told = " ".join(f"{figure * 1000:5.0f} ms" for figure in figures)
            print(f"    {step:<44} {len(times):>6} {told}")


def _cpu_of_children() -> float:
    """Of those that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _line(name: str, figure: str) -> None:
    print(f"  {name:<46} {figure}", flush=True)


def _tell(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
