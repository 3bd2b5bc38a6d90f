"""Generated clusters: small ones drawn by hypothesis, larger ones rolled from a seed, by the same recipe.

Few values for everything, so that pods and nodes have much to do with each other. What Kubernetes would not accept is
left out, so that contract tests can create a rolled cluster in a real one; drawn ones may have an empty affinity too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import msgspec
from hypothesis import strategies as st

from rescheduler.model.objects import (
    HEALTHY,
    Claim,
    ContainerState,
    Node,
    Pod,
    PodFailure,
    PodHealth,
    Volume,
    Workload,
)
from rescheduler.model.shape import NodeTerm, PodTerm, SpreadConstraint
from rescheduler.model.snapshot import ClusterSnapshot, SnapshotRows
from tests.support import builders as b

T = TypeVar("T")

ZONES = ("z1", "z2", "z3")
ROLES = ("web", "db", "cache")
NAMESPACES = ("default", "shop", "unlisted")
TAINTS = ("dedicated=db:NoSchedule", "spot:NoExecute", "old:PreferNoSchedule", "dedicated=web:NoSchedule")
MATCHES: tuple[b.Match, ...] = (
    {"role": "web"},
    {"role": "db"},
    {"tier": "front"},
    "role in (web,cache)",
    "role notin (web),tier",
    "!tier",
    "",
    None,
)
NODE_TERMS: tuple[str | NodeTerm, ...] = (
    "disk=ssd",
    "zone in (z1,z2)",
    "zone notin (z1)",
    "disk",
    "!disk",
    "cores>4",
    "cores<4,disk=hdd",
    b.node_named("n0"),
)
CLAIMS = ("bound-a", "bound-b", "bound-c", "once", "later", "later-b", "stuck", "lost")
USED = (*CLAIMS[:4], *CLAIMS[:4], *CLAIMS)


class Chooser(Protocol):
    """Where choices come from; the first option and the lowest number are the simplest."""

    def number(self, low: int, high: int) -> int:
        """A number between these, both included."""


class Drawn:
    """Choices of hypothesis, which shrinks them."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def number(self, low: int, high: int) -> int:
        """A number between these, both included."""
        return self.draw(st.integers(low, high))


class Rolled:
    """Choices of a seeded random generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        """A number between these, both included."""
        return self.random.randint(low, high)


@st.composite
def clusters(draw: st.DrawFn, min_pods: int = 0, max_pods: int = 25, max_nodes: int = 8) -> ClusterSnapshot:
    """Small clusters, rich in rules."""
    nodes, pods = draw(st.integers(1, max_nodes)), draw(st.integers(min_pods, max_pods))
    return _cluster(Drawn(draw), nodes, pods, odd=True)


def pods_of(snapshot: ClusterSnapshot) -> st.SearchStrategy[Pod]:
    """One of its pods; none of an empty cluster."""
    return st.sampled_from(snapshot.pods) if snapshot.pods else st.nothing()


def nodes_of(snapshot: ClusterSnapshot) -> st.SearchStrategy[Node]:
    """One of its nodes."""
    return st.sampled_from(snapshot.nodes)


def random_cluster(seed: int, nodes: int, pods: int) -> ClusterSnapshot:
    """A cluster of this size: always the same for the same seed."""
    return _cluster(Rolled(seed), nodes, pods, odd=False)


def with_waiting_pods(snapshot: ClusterSnapshot, seed: int) -> ClusterSnapshot:
    """The same cluster, and pending pods, some of which are too large for what is free on any node."""
    roll = random.Random(seed)
    waiting = [
        b.pod(f"waiting-{n}", cpu=roll.randint(1, 11), memory=f"{roll.randint(1, 8)}Gi", priority=100 * (n % 2))
        for n in range(3)
    ]
    pods = sorted([*snapshot.pods, *waiting], key=lambda pod: (pod.namespace, pod.name))
    return replace(snapshot, pods=tuple(pods))


def shuffle(snapshot: ClusterSnapshot, seed: int) -> ClusterSnapshot:
    """The same objects, read in another order."""
    rows = SnapshotRows()
    rng = random.Random(seed)
    for pod in rng.sample(snapshot.pods, len(snapshot.pods)):
        rows.pods[(pod.namespace, pod.name)] = pod
    for node in rng.sample(snapshot.nodes, len(snapshot.nodes)):
        rows.nodes[node.name] = node
    for budget in rng.sample(snapshot.budgets, len(snapshot.budgets)):
        rows.budgets[(budget.namespace, budget.name)] = budget
    again = rows.snapshot()
    return replace(snapshot, pods=again.pods, nodes=again.nodes, budgets=again.budgets)


def _pick(choose: Chooser, options: Sequence[T]) -> T:
    return options[choose.number(0, len(options) - 1)]


def _some(choose: Chooser, options: Sequence[T], at_most: int) -> list[T]:
    return list(dict.fromkeys(_pick(choose, options) for _ in range(choose.number(0, at_most))))


def _chance(choose: Chooser, percent: int) -> bool:
    return choose.number(0, 99) >= 100 - percent


def _cluster(choose: Chooser, nodes: int, pods: int, *, odd: bool) -> ClusterSnapshot:
    names = [f"n{number}" for number in range(nodes)]
    rows: list[b.Row] = [_node(choose, name) for name in names]
    rows += [b.namespace("default"), b.namespace("shop", {"team": "shop"})]
    rows += [b.csinode(name, choose.number(1, 3)) for name in names if _chance(choose, 60)]
    number, left = 0, pods
    while left > 0:
        replicas = choose.number(1, min(left, 6))
        rows += _workload(choose, number, [_pick(choose, names) for _ in range(replicas)], odd=odd)
        number, left = number + 1, left - replicas
    return b.cluster(rows, _storage(choose, rows))


def _node(choose: Chooser, name: str) -> Node:
    labels = {}
    if _chance(choose, 60):
        labels["disk"] = _pick(choose, ("ssd", "hdd"))
    if _chance(choose, 40):
        labels["cores"] = _pick(choose, ("2", "8", "many"))
    if _chance(choose, 30):
        labels["region"] = _pick(choose, ("r1", "r2"))
        if "disk" in labels:
            labels["kubernetes.io/arch"] = "amd64" if labels["region"] == "r1" else "arm64"
    marked = labels.get("cores") == "many" and "region" in labels
    removal = ["DeletionCandidateOfClusterAutoscaler=1:PreferNoSchedule"] if marked else []
    return b.node(
        name,
        cpu=choose.number(1, 12),
        memory=f"{choose.number(1, 12)}Gi",
        pods=_pick(choose, (110, 110, 8, 4)),
        resources={"example.com/gpu": choose.number(1, 2)} if _chance(choose, 30) else {},
        labels=labels,
        taints=(_some(choose, TAINTS, 2) if _chance(choose, 30) else []) + removal,
        zone=None if _chance(choose, 15) else _pick(choose, ZONES),
        cordoned=_chance(choose, 5),
        ready=not _chance(choose, 5),
        control_plane=_chance(choose, 5),
        maintenance=_chance(choose, 5),
        deleting=_chance(choose, 3),
    )


def _storage(choose: Chooser, rows: Sequence[b.Row]) -> list[b.Row]:
    """The claims that pods use, nearly all of them, and what is behind them."""
    used = {(pod.namespace, name) for pod in rows if isinstance(pod, Pod) for name in pod.shape.claims}
    found: list[b.Row] = [b.storage_class("at-once", wait=False)]
    found.append(b.storage_class("waits", topologies=["zone in (z1,z2)"] if _chance(choose, 50) else ()))
    for where, name in sorted(used):
        if not _chance(choose, 4):
            found += _claim(choose, where, name)
    return found


def _claim(choose: Chooser, where: str, name: str) -> list[Claim | Volume]:
    if name.startswith("later"):
        return [b.claim(name, storage_class="waits", namespace=where)]
    if name == "stuck":
        return [b.claim(name, storage_class=_pick(choose, ("at-once", "", "gone")), namespace=where)]
    if name == "lost":
        return [b.claim(name, "no-such-volume", namespace=where)]
    modes = ["ReadWriteOncePod"] if name == "once" else [_pick(choose, ("ReadWriteOnce", "ReadWriteMany"))]
    labels = {}
    if _chance(choose, 60):
        key = _pick(choose, ("zone", "failure-domain.beta.kubernetes.io/zone", "region"))
        labels[key] = _pick(choose, ("r1", "r1__r2") if key == "region" else ("z1", "z1__z2", "z3"))
    volume = b.volume(
        f"pv-{where}-{name}",
        labels=labels,
        node_affinity=["zone in (z1,z3)"] if _chance(choose, 30) else None,
        driver=_pick(choose, (b.DRIVER, b.DRIVER, "other.example.com")),
    )
    return [volume, b.claim(name, volume.name, namespace=where, modes=modes)]


def _workload(choose: Chooser, number: int, on: Sequence[str], *, odd: bool) -> list[b.Row]:
    name = f"w{number}"
    options = _template(choose, odd=odd)
    match choose.number(0, 9):
        case 0 | 1 | 2:
            rows: list[b.Row] = [b.pod(f"{name}-{at}", where, **options) for at, where in enumerate(on)]
        case 3 | 4:
            rows = b.statefulset(name, on=on, **options)
        case 5:
            rows = b.daemonset(name, on=on, **options)
        case 6:
            rows = b.job(name, on=on, **options)
        case _:
            rows = b.deployment(name, on=on, recreate=_chance(choose, 20), **options)
    if _chance(choose, 25):
        rows.append(_budget(choose, rows, name))
    return [_perturb(choose, row) if isinstance(row, Pod) else row for row in rows]


def _budget(choose: Chooser, rows: Sequence[b.Row], name: str) -> b.Row:
    owner = next((row for row in rows if isinstance(row, Workload)), None)
    least: tuple[int | str, ...] = (1, "50%", 0)
    return b.pdb(
        name,
        owner.selector if owner else {"tier": "front"},
        min_available=_pick(choose, least),
        allowed=_pick(choose, (1, 0, 2, None)),
        namespace=owner.namespace if owner else "default",
    )


def _template(choose: Chooser, *, odd: bool) -> b.TemplateOptions:
    labels = {"role": _pick(choose, ROLES)}
    if _chance(choose, 50):
        labels["tier"] = _pick(choose, ("front", "back"))
    if _chance(choose, 30):
        labels["version"] = _pick(choose, ("1", "2"))
    options = b.TemplateOptions(
        namespace=_pick(choose, NAMESPACES),
        labels=labels,
        cpu=_pick(choose, ("100m", "0", "250m", "500m", "2")),
        memory=_pick(choose, ("64Mi", "0", "256Mi", "512Mi", "3Gi")),
        priority=_pick(choose, (0, 100, 2_000_000_000)),
        age=_pick(choose, (3600.0, 10.0)),
        tolerations=_some(choose, ("spot:NoExecute", "dedicated=db:NoSchedule", "dedicated", "*"), 2),
    )
    if _chance(choose, 10):
        options["resources"] = {"example.com/gpu": 1}
    if _chance(choose, 15):
        options["node_selector"] = {"disk": _pick(choose, ("ssd", "hdd"))}
    if _chance(choose, 20):
        terms = _some(choose, NODE_TERMS, 2)
        options["node_affinity"] = terms if odd else terms or None
    if _chance(choose, 15):
        options["preferred_nodes"] = [(choose.number(1, 100), _pick(choose, NODE_TERMS))]
    if _chance(choose, 25):
        options["affinity"] = [_term(choose) for _ in range(choose.number(1, 2))]
    if _chance(choose, 30):
        options["anti_affinity"] = [_term(choose) for _ in range(choose.number(1, 2))]
    if _chance(choose, 35):
        options["spread"] = [_spread(choose, key) for key in ("zone", "hostname", "disk")[choose.number(0, 1) :][:2]]
    if _chance(choose, 15):
        options["host_ports"] = _some(choose, (8080, "TCP:10.0.0.1:8080", "TCP:10.0.0.2:8080", "UDP:8080", 9090), 2)
    if _chance(choose, 30):
        options["claims"] = _some(choose, USED, 3)
    if _chance(choose, 5):
        options["local_storage"] = ["scratch"]
    return options


def _term(choose: Chooser) -> PodTerm:
    return b.near(
        _pick(choose, MATCHES),
        _pick(choose, ("zone", "hostname", "disk")),
        namespaces=_some(choose, NAMESPACES, 2) if _chance(choose, 25) else (),
        namespace_selector=_pick(choose, ("", "team=shop", "kubernetes.io/metadata.name!=default", None))
        if _chance(choose, 25)
        else None,
    )


def _spread(choose: Chooser, key: str) -> SpreadConstraint:
    match = _pick(choose, MATCHES)
    hard = not _chance(choose, 15)
    return b.spread(
        choose.number(1, 3),
        key,
        match,
        hard=hard,
        min_domains=choose.number(1, 4) if hard else 1,
        honor_affinity=not _chance(choose, 30),
        honor_taints=_chance(choose, 30),
        match_label_keys=["version"] if match is not None and _chance(choose, 30) else (),
    )


def _perturb(choose: Chooser, pod: Pod) -> Pod:
    """The same pod, at times terminating, finished, pending, nominated, in trouble, old, or holding something else."""
    match choose.number(0, 39):
        case 39:
            return msgspec.structs.replace(pod, deleting=True)
        case 38:
            phase = _pick(choose, ("Succeeded", "Failed"))
            why = PodHealth(reason="Evicted") if phase == "Failed" else HEALTHY
            ails = PodFailure("Evicted") if phase == "Failed" else None
            return msgspec.structs.replace(pod, phase=phase, ready=False, trouble=why, ailment=ails)
        case 37:
            return msgspec.structs.replace(pod, node="", phase="Pending", ready=False)
        case 36:
            return msgspec.structs.replace(pod, node="", nominated=pod.node, phase="Pending", ready=False)
        case 35 | 34:
            return msgspec.structs.replace(pod, held=(("cpu", 250), ("memory", 2**29)))
        case 33:
            return msgspec.structs.replace(pod, ready=False)
        case 32:
            crashes = PodHealth(restarts=150, states=(ContainerState("CrashLoopBackOff"), ContainerState("Error", 1)))
            ails = PodFailure("CrashLoopBackOff", crashes.restarts)
            return msgspec.structs.replace(pod, ready=False, trouble=crashes, ailment=ails)
        case 31:
            return msgspec.structs.replace(pod, trouble=PodHealth(restarts=100, init_restarts=1))
        case 30:
            return msgspec.structs.replace(pod, created=b.NOW - 3 * 86400.0)
        case _:
            return pod
