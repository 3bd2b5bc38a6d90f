"""Nodes that Consolidation frees, beside what could be freed at best and what packing everything anew would free.

`make bench` runs it. The bound is what no packing can beat: the nodes in use, less as many as it takes to hold all
requests, largest nodes first, filled to their thresholds, or as far as they are now. First-fit-decreasing is the
reference: it takes all pods off and packs them anew, as if each of them could be moved. Clusters are generated, or are
those of the OpenB trace (Alibaba, 1,523 nodes, many with GPUs), whose pods are placed on the least used node, as the
scheduler does. The trace is public; `--data` (or DATA of `make bench`) tells the folder that has it.
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rescheduler.model.objects import Node, Pod
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import Columns, Ints
from rescheduler.planning.cycle import make_plan
from rescheduler.strategies import discover
from tests.support.builders import cluster, deployment, node, pod

THRESHOLD = 80.0
POLICY = Policy(cpu_threshold=THRESHOLD, memory_threshold=THRESHOLD, max_reschedule_pods=None)
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Case:
    """A cluster, and what is packed of it."""

    name: str
    snapshot: ClusterSnapshot


def generated(nodes: int, use: float, seed: int) -> Case:
    """Nodes of one size, used alike on average; Deployments of 1 to 8 replicas, all of which can be handed off."""
    roll = random.Random(seed)
    names = [f"node-{number:04d}" for number in range(nodes)]
    left = {name: [16_000, 64 * 1024] for name in names}
    rows: list[object] = [node(name, cpu=16, memory="64Gi") for name in names]
    filled, number = 0, 0
    while filled < use * nodes * 16_000:
        cpu, memory = roll.choice((100, 250, 500, 1000, 2000)), roll.choice((256, 512, 1024, 2048, 4096))
        places: list[str] = []
        for place in roll.sample(names, min(roll.randint(1, 8), nodes)):
            if left[place][0] >= cpu and left[place][1] >= memory:
                left[place] = [left[place][0] - cpu, left[place][1] - memory]
                places.append(place)
        rows += deployment(f"d{number:05d}", on=places, cpu=f"{cpu}m", memory=f"{memory}Mi") if places else []
        filled, number = filled + cpu * len(places), number + 1
    return Case(f"{nodes} nodes at {100 * use:.0f}%", cluster(rows))  # type: ignore[arg-type]  # rows of several kinds


def openb(data: Path, use: float) -> Case:
    """The trace's nodes, and its pods one after the other until they are used so much, each on the least used node."""
    with (data / "openb_node_list_all_node.csv").open() as file:
        nodes = list(csv.DictReader(file))
    with (data / "openb_pod_list_default.csv").open() as file:
        pods = list(csv.DictReader(file))
    whole = np.array([[int(n["cpu_milli"]), int(n["memory_mib"]), int(n["gpu"]), 110] for n in nodes], np.int64)
    free = whole.copy()
    rows: list[Node | Pod] = [
        node(
            n["sn"],
            cpu=f"{n['cpu_milli']}m",
            memory=f"{n['memory_mib']}Mi",
            resources={GPU: n["gpu"]} if n["gpu"] != "0" else {},
        )
        for n in nodes
    ]
    for each in pods:
        asks = np.array([int(each["cpu_milli"]), int(each["memory_mib"]), int(each["num_gpu"]), 1], np.int64)
        fits = (free >= asks).all(axis=1)
        if not fits.any() or 1 - free[:, 0].sum() / whole[:, 0].sum() >= use:
            continue
        place = int(np.where(fits, (free[:, :2] / whole[:, :2]).sum(axis=1), -1).argmax())
        free[place] -= asks
        gpus = {GPU: each["num_gpu"]} if each["num_gpu"] != "0" else {}
        size = {"cpu": f"{each['cpu_milli']}m", "memory": f"{each['memory_mib']}Mi"}
        rows.append(pod(each["name"], nodes[place]["sn"], cpu=size["cpu"], memory=size["memory"], resources=gpus))
    return Case(f"OpenB at {100 * use:.0f}% CPU", cluster(rows))


def fewest_by_sum(columns: Columns) -> int:
    """No packing needs fewer nodes than it takes to hold the requests, if pods were as fine as sand."""
    total, needed = columns.used.sum(axis=1), 0
    for resource in range(len(columns.resources)):
        room = np.sort(_room(columns)[resource])[::-1].cumsum()
        if total[resource]:
            needed = max(needed, int(np.searchsorted(room, total[resource])) + 1)
    return needed


def first_fit_decreasing(columns: Columns) -> int:
    """How many nodes it takes to pack all pods anew, the largest pods first, the largest nodes first."""
    room = _room(columns)
    order = np.argsort(-room[0], kind="stable")
    free = room[:, order]
    used = np.zeros(free.shape[1], np.bool_)
    whole = np.maximum(room.max(axis=1), 1)
    placed = np.flatnonzero(columns.pod_at >= 0)
    asks = columns.shape_requests[columns.pod_shape[placed]]
    for row in asks[np.argsort(-(asks / whole).max(axis=1), kind="stable")]:
        fits = (free >= row[:, None]).all(axis=0)
        place = int(fits.argmax())
        free[:, place] -= row
        used[place] = True
    return int(used.sum())


def _room(columns: Columns) -> Ints:
    """[R, N]: what may be used of the nodes that are in use: CPU and memory up to their thresholds, or what is used."""
    in_use = np.unique(columns.pod_at[columns.pod_at >= 0])
    room: Ints = columns.allocatable[:, in_use].copy()
    room[:2] = np.maximum(np.floor(room[:2] * THRESHOLD / 100).astype(np.int64), columns.used[:2, in_use])
    return room


def measured(case: Case, most_used: float) -> None:
    """Print one line."""
    columns = Columns(case.snapshot)
    in_use = len(np.unique(columns.pod_at[columns.pod_at >= 0]))
    strategy = discover()["Consolidation"]
    settings = strategy.settings_type.model_validate({"maxNodesPerPlan": in_use, "maxUtilization": most_used})
    started = time.process_time()
    plan = make_plan(case.snapshot, POLICY, [strategy(settings)])
    seconds = time.process_time() - started
    freed = len({move.source for move in plan.moves})
    bound, reference = in_use - fewest_by_sum(columns), in_use - first_fit_decreasing(columns)
    print(
        f"  {case.name:<24} up to {most_used:3.0f}%: {freed:4d} of {in_use:4d} nodes freed; bound {bound:4d}, "
        f"ratio {freed / max(bound, 1):.3f}; packing anew {reference:4d}; {len(plan.moves):5d} moves, {seconds:.2f} s",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Generate, pack, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.consolidation", description=__doc__)
    parser.add_argument("--data", type=Path, help="the folder of the OpenB trace; without it, generated clusters only")
    options = parser.parse_args(arguments)
    print(f"Consolidation: nodes freed, thresholds {THRESHOLD:.0f}%")
    cases = [generated(nodes, use, seed=1) for nodes in (50, 200) for use in (0.2, 0.4, 0.6)]
    if options.data:
        cases += [openb(options.data, use) for use in (0.2, 0.4, 0.6)]
    for case in cases:
        for most_used in (50.0, 100.0):
            measured(case, most_used)


if __name__ == "__main__":
    main()
