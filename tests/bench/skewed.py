"""A generator of skewed clusters, as `kubectl get -o json` would print them; the same seed gives the same file.

A fifth of the nodes is hot, three tenths are warm, half are cold; nodes come in three sizes and three zones, some are
tainted or have SSDs. Pods are cut into Deployments afterwards, so that the rules these carry (anti-affinity, zone
spread, selectors, tolerations) hold where the pods stand; a third of them has a disruption budget. Each node has a
DaemonSet pod.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from tests.bench.manifests import filled, meta, namespace, node_object, owner_references, pod_object, text_of

ZONES = ("zone-a", "zone-b", "zone-c")
CORES = (8, 16, 32)
_CPU_SIZES = (50, 100, 150, 250, 400, 600, 1000, 1500, 2000, 3000)
_MIB_PER_MILLI = (1.0, 4.0, 6.0)
_TIGHT = 50  # every so many workloads one has pods that belong into one zone
NAMESPACES = tuple(f"team-{n:02d}" for n in range(40))


@dataclass(slots=True)
class NodePlan:
    """A node and what it holds."""

    name: str
    zone: str
    cores: int
    tainted: bool
    ssd: bool
    heat: float
    pods: int

    @property
    def mib(self) -> int:
        """Allocatable memory."""
        return self.cores * 4096


@dataclass(slots=True)
class WorkloadPlan:
    """A Deployment, with the nodes that its replicas stand on."""

    name: str
    namespace: str
    cpu: int
    mib: int
    nodes: list[NodePlan]
    rule: str = ""
    budget: bool = False
    places: Counter[str] = field(default_factory=Counter)


def nodes_of(count: int, pods: int, rng: random.Random) -> list[NodePlan]:
    """Nodes with how full each is to be, and how many pods make it so."""
    found: list[NodePlan] = []
    for index in range(count):
        kind = rng.random()
        heat, weight = (
            (rng.uniform(0.84, 0.97), 1.3)
            if kind < 0.2
            else (rng.uniform(0.5, 0.65), 1.05)
            if kind < 0.5
            else (rng.uniform(0.15, 0.4), 0.85)
        )
        found.append(
            NodePlan(
                name=f"node-{index:05d}",
                zone=ZONES[index % 3],
                cores=rng.choice(CORES),
                tainted=rng.random() < 0.05,
                ssd=rng.random() < 0.3,
                heat=heat,
                pods=max(2, round(weight * (pods / count - 1))),
            )
        )
    # The rounding's rest goes to cold nodes, one pod each, until the sum is exact.
    rest = pods - count - sum(node.pods for node in found)
    order = sorted(found, key=lambda node: (node.heat, node.name))
    while rest:
        for node in order:
            step = (rest > 0) - (rest < 0)
            if not step or (step < 0 and node.pods <= 2):
                continue
            node.pods += step
            rest -= step
    return found


def pods_of(nodes: list[NodePlan], rng: random.Random) -> dict[tuple[int, int, bool], list[NodePlan]]:
    """Pod sizes that fill each node as planned: (millicores, MiB, tainted) → the nodes of such pods."""
    found: dict[tuple[int, int, bool], list[NodePlan]] = {}
    for node in nodes:
        ratio = rng.choice(_MIB_PER_MILLI)
        # The scarcer resource is what makes the node as full as planned: 4 MiB a millicore is what nodes have.
        budget = node.heat * node.cores * 1000 * min(1.0, 4.096 / ratio) - 100
        weights = [rng.lognormvariate(0, 1.1) for _ in range(node.pods)]
        scale = budget / sum(weights)
        sizes = [
            max((n for n, size in enumerate(_CPU_SIZES) if size <= weight * scale), default=0) for weight in weights
        ]
        # Rounding down has left room: make pods larger, one step at a time, until the node is as full as planned.
        spent = sum(_CPU_SIZES[size] for size in sizes)
        for index in sorted(range(len(sizes)), key=lambda _: rng.random()) * len(_CPU_SIZES):
            if sizes[index] + 1 < len(_CPU_SIZES):
                step = _CPU_SIZES[sizes[index] + 1] - _CPU_SIZES[sizes[index]]
                if spent + step <= budget:
                    sizes[index] += 1
                    spent += step
        for size in (_CPU_SIZES[size] for size in sizes):
            found.setdefault((size, max(16, round(size * ratio)), node.tainted), []).append(node)
    return found


def workloads_of(nodes: list[NodePlan], rng: random.Random) -> list[WorkloadPlan]:
    """Cut the pods into Deployments whose rules hold where the pods stand."""
    found: list[WorkloadPlan] = []
    for (cpu, mib, tainted), places in sorted(pods_of(nodes, rng).items()):
        rng.shuffle(places)
        left = places
        while left:
            wanted = min(len(left), rng.choice((2, 3, 3, 5, 8, 12, 20, 40)))
            rule = "" if tainted else rng.choices(("", "apart", "spread", "ssd"), (76, 10, 8, 6))[0]
            taken, left = _take(left, wanted, rule)
            if not taken:
                taken, left, rule = left[:wanted], left[wanted:], ""
            number = len(found)
            found.append(
                WorkloadPlan(
                    name=f"app-{number:05d}",
                    namespace=NAMESPACES[number % len(NAMESPACES)],
                    cpu=cpu,
                    mib=mib,
                    nodes=taken,
                    rule="tolerant" if tainted else rule,
                    budget=rng.random() < 0.33,
                )
            )
    return found


def _take(places: list[NodePlan], wanted: int, rule: str) -> tuple[list[NodePlan], list[NodePlan]]:
    """Up to `wanted` places that satisfy a rule together, and the rest."""
    taken: list[NodePlan] = []
    rest: list[NodePlan] = []
    names: set[str] = set()
    zones: Counter[str] = Counter()
    for node in places[: wanted * 12]:
        fits = len(taken) < wanted
        if rule == "apart":
            fits = fits and node.name not in names
        elif rule == "ssd":
            fits = fits and node.ssd
        elif rule == "spread":
            fits = fits and zones[node.zone] <= min(zones[zone] for zone in ZONES)
        if fits:
            taken.append(node)
            names.add(node.name)
            zones[node.zone] += 1
        else:
            rest.append(node)
    return taken, rest + places[wanted * 12 :]


def objects(nodes: list[NodePlan], workloads: list[WorkloadPlan]) -> Iterator[str]:
    """Every object of the cluster as kubectl's JSON, indented as an item of a list."""
    yield from (text_of(namespace(name)) for name in ("kube-system", *NAMESPACES))
    for number, node in enumerate(nodes):
        yield text_of(node_object(node, number))
    daemon = text_of(
        pod_object("node-agent-@NAME@", "kube-system", ("DaemonSet", "node-agent"), {"app": "node-agent"}, (100, 128))
    )
    yield text_of(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": meta("node-agent", "kube-system"),
            "spec": {"selector": {"matchLabels": {"app": "node-agent"}}},
        }
    )
    for number, node in enumerate(nodes):
        yield filled(daemon, f"{number:05d}", node.name, f"d{number:07x}")
    for number, workload in enumerate(workloads):
        yield from _workload(workload, number)


def _workload(workload: WorkloadPlan, number: int) -> Iterator[str]:
    template_hash = f"{number * 2654435761 % 2**32:08x}"
    replica_set = f"{workload.name}-{template_hash}"
    labels = {"app": workload.name, "pod-template-hash": template_hash, "tier": "web" if number % 2 else "batch"}
    if number % _TIGHT == 0:
        labels["tight"] = workload.name
    count = len(workload.nodes)
    yield text_of(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta(workload.name, workload.namespace),
            "spec": {
                "replicas": count,
                "selector": {"matchLabels": {"app": workload.name}},
                "strategy": {"type": "RollingUpdate"},
            },
        }
    )
    yield text_of(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                **meta(replica_set, workload.namespace),
                "ownerReferences": owner_references("Deployment", workload.name),
            },
            "spec": {
                "replicas": count,
                "selector": {"matchLabels": {"app": workload.name, "pod-template-hash": template_hash}},
            },
        }
    )
    if workload.budget:
        need = (count + 1) // 2
        yield text_of(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": meta(workload.name, workload.namespace),
                "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": workload.name}}},
                "status": {
                    "currentHealthy": count,
                    "desiredHealthy": need,
                    "disruptionsAllowed": count - need,
                    "expectedPods": count,
                },
            }
        )
    pod = pod_object(
        f"{replica_set}-@NAME@", workload.namespace, ("ReplicaSet", replica_set), labels, (workload.cpu, workload.mib)
    )
    pod["spec"].update(_rules(workload))
    text = text_of(pod)
    for index, node in enumerate(workload.nodes):
        yield filled(text, f"{index:05x}", node.name, f"{number:06x}{index:04x}")


def _rules(workload: WorkloadPlan) -> dict[str, Any]:
    mine = {"matchLabels": {"app": workload.name}}
    match workload.rule:
        case "apart":
            term = {"labelSelector": mine, "topologyKey": "kubernetes.io/hostname"}
            return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
        case "spread":
            constraint = {"labelSelector": mine, "maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone"}
            return {"topologySpreadConstraints": [{**constraint, "whenUnsatisfiable": "DoNotSchedule"}]}
        case "ssd":
            return {"nodeSelector": {"disk": "ssd"}}
        case "tolerant":
            return {
                "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}]
            }
        case _:
            return {}


def write_cluster(out: BinaryIO, nodes: int, pods: int, seed: int = 1) -> None:
    """Write a whole cluster as a v1 List."""
    rng = random.Random(seed)
    planned = nodes_of(nodes, pods, rng)
    out.write(b'{\n    "apiVersion": "v1",\n    "items": [')
    for index, text in enumerate(objects(planned, workloads_of(planned, rng))):
        out.write((b"," if index else b"") + b"\n" + text.encode())
    out.write(b'\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n')
