"""Builders of single rows, nodes, pods, namespaces and budgets, and of the cluster that holds them all."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, TypeVar, Unpack

import msgspec

from rescheduler.model.labels import CONTROL_PLANE_ROLES, MAINTENANCE
from rescheduler.model.objects import (
    HEALTHY,
    AttachLimits,
    Autoscaler,
    Claim,
    ContainerState,
    DisruptionBudget,
    Node,
    Owner,
    Pod,
    PodCondition,
    PodFailure,
    PodHealth,
    StorageClass,
    Volume,
    Workload,
)
from rescheduler.model.quantity import amount
from rescheduler.model.selector import Labels
from rescheduler.model.shape import HostPort, NodeTerm, PodTerm, Requests, Shape, SpreadConstraint, Toleration
from rescheduler.model.snapshot import ClusterSnapshot, SnapshotRows
from tests.support.builders.terms import (
    HOSTNAME,
    ZONE,
    Match,
    full_keys,
    host_port,
    node_term,
    selector,
    taint,
    toleration,
)

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
KINDS = frozenset(
    {
        *("Node", "Pod", "Namespace", "PodDisruptionBudget", "PriorityClass", "NodeMetrics", "PodMetrics"),
        *("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "HorizontalPodAutoscaler"),
        *("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode"),
    }
)

Amount = str | int | float
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace and its labels."""

    name: str
    labels: Labels


Row = Node | Pod | Workload | Autoscaler | DisruptionBudget | Claim | Volume | StorageClass | AttachLimits | Namespace


class TemplateOptions(TypedDict, total=False):
    """What may be said of all pods of a workload at once."""

    cpu: Amount
    memory: Amount
    resources: Mapping[str, Amount]
    held: Mapping[str, Amount]
    namespace: str
    labels: Mapping[str, str]
    priority: int
    age: float
    ready: bool
    phase: str
    node_selector: Mapping[str, str]
    node_affinity: Sequence[str | NodeTerm] | None
    preferred_nodes: Sequence[tuple[int, str | NodeTerm]]
    affinity: Sequence[PodTerm]
    anti_affinity: Sequence[PodTerm]
    spread: Sequence[SpreadConstraint]
    host_ports: Sequence[int | str | HostPort]
    claims: Sequence[str]
    tolerations: Sequence[str | Toleration]
    local_storage: Sequence[str]
    inline_disks: Sequence[str]
    resource_claims: bool
    to_completion: bool
    scheduler: str
    deleting: bool
    nominated: str
    problem: str
    restarts: int
    init_restarts: int
    reason: str
    ails: str
    states: Sequence[ContainerState]
    conditions: Sequence[PodCondition]


class PodOptions(TemplateOptions, total=False):
    """What may be said of one pod."""

    annotations: Mapping[str, str]
    owner: Owner | Workload | None


_SHAPES: dict[object, Shape] = {}
_LABELS: dict[object, Labels] = {}


def cluster(
    *items: Row | Iterable[Row],
    now: float = NOW,
    kinds: Iterable[str] = KINDS,
    allow_unknown_nodes: bool = False,
) -> ClusterSnapshot:
    """The snapshot of all these rows; `now` only moves the clock on: pods are created relative to NOW."""
    rows = SnapshotRows()
    for row in _flat(items):
        _add(rows, row)
    for placed in rows.pods.values():
        for name in filter(None, (placed.node, placed.nominated)):
            if name not in rows.nodes and not allow_unknown_nodes:
                raise ValueError(f"pod {placed.full_name} is on {name!r}, which is no node of this cluster")
    return rows.snapshot(kinds=kinds, taken_at=now)


def node(
    name: str,
    *,
    cpu: Amount | None = 4,
    memory: Amount | None = "8Gi",
    pods: int | None = 110,
    resources: Mapping[str, Amount] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[str] = (),
    zone: str | None = None,
    cordoned: bool = False,
    ready: bool = True,
    control_plane: bool = False,
    maintenance: bool = False,
    deleting: bool = False,
    problem: str = "",
) -> Node:
    """A node; a resource of None is one that it doesn't list."""
    carried = {HOSTNAME: name, **full_keys(labels or {})}
    if zone is not None:
        carried[ZONE] = zone
    if control_plane:
        carried[CONTROL_PLANE_ROLES[0]] = ""
    if maintenance:
        carried[MAINTENANCE] = "true"
    listed = {"cpu": cpu, "memory": memory, "pods": pods, **(resources or {})}
    return Node(
        name=name,
        labels=carried,
        allocatable=tuple(sorted((kind, amount(kind, text)) for kind, text in listed.items() if text is not None)),
        taints=tuple(taint(text) for text in taints),
        unschedulable=cordoned,
        ready=ready,
        deleting=deleting,
        problem=problem,
    )


def pod(name: str, on: str = "", **options: Unpack[PodOptions]) -> Pod:
    """A pod on a node, or a pending one; running, ready, an hour old, and holding what it requests."""
    namespace_name = options.get("namespace", "default")
    shape = shape_of(options)
    phase = options.get("phase", "Running" if on else "Pending")
    owner = options.get("owner")
    return Pod(
        namespace=namespace_name,
        name=name,
        uid=uid_of("Pod", namespace_name, name),
        shape=shape,
        labels=_share(options.get("labels", {})),
        node=on,
        held=_requests(options["held"]) if "held" in options else shape.requests,
        owner=Owner(owner.kind, owner.name, owner.uid) if isinstance(owner, Workload) else owner,
        priority=options.get("priority", 0),
        phase=phase,
        ready=options.get("ready", phase == "Running"),
        created=NOW - options.get("age", 3600.0),
        deleting=options.get("deleting", False),
        nominated=options.get("nominated", ""),
        annotations=_share(options.get("annotations", {})),
        problem=options.get("problem", ""),
        ailment=_ailment(options, phase),
        trouble=_trouble(options),
    )


def _ailment(options: TemplateOptions, phase: str) -> PodFailure | None:
    """What a reader would make of `ails`, which is why a container waits, and of a failed pod's `reason`."""
    if phase == "Failed":
        return PodFailure(options.get("reason", "") or "Error")
    return PodFailure(options["ails"], options.get("restarts", 0)) if "ails" in options else None


def _trouble(options: TemplateOptions) -> PodHealth:
    waits = (ContainerState(options["ails"]),) if "ails" in options else ()
    found = PodHealth(
        options.get("restarts", 0),
        options.get("init_restarts", 0),
        options.get("reason", ""),
        (*waits, *options.get("states", ())),
        tuple(options.get("conditions", ())),
    )
    return HEALTHY if found == HEALTHY else found


def shape_of(options: TemplateOptions) -> Shape:
    """The scheduling shape of these options: one object for equal ones, as readers intern it."""
    asked = {"cpu": options.get("cpu", 0), "memory": options.get("memory", 0), **options.get("resources", {})}
    terms = options.get("node_affinity")
    shape = Shape(
        requests=_requests(asked),
        node_selector=tuple(sorted(full_keys(options.get("node_selector", {})).items())),
        node_affinity=None if terms is None else tuple(node_term(term) for term in terms),
        preferred_nodes=tuple((weight, node_term(term)) for weight, term in options.get("preferred_nodes", ())),
        tolerations=tuple(toleration(text) for text in options.get("tolerations", ())),
        affinity=tuple(options.get("affinity", ())),
        anti_affinity=tuple(options.get("anti_affinity", ())),
        spread=tuple(options.get("spread", ())),
        host_ports=tuple(host_port(port) for port in options.get("host_ports", ())),
        claims=tuple(options.get("claims", ())),
        local_storage=tuple(options.get("local_storage", ())),
        inline_disks=tuple(options.get("inline_disks", ())),
        resource_claims=options.get("resource_claims", False),
        to_completion=options.get("to_completion", False),
        scheduler=options.get("scheduler", ""),
    )
    return _SHAPES.setdefault(msgspec.structs.astuple(shape), shape)


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Namespace:
    """A namespace, with the label of its name that the API server gives it."""
    return Namespace(name, {"kubernetes.io/metadata.name": name, **(labels or {})})


def pdb(
    name: str,
    match: Match | None = "",
    *,
    min_available: int | str | None = None,
    max_unavailable: int | str | None = None,
    allowed: int | None = None,
    namespace: str = "default",
    always_evict_unhealthy: bool = False,
) -> DisruptionBudget:
    """A PodDisruptionBudget for the pods that match; without `match`, those labelled `app=<name>`."""
    chosen = selector({"app": name} if match == "" else match)
    return DisruptionBudget(namespace, name, chosen, min_available, max_unavailable, allowed, always_evict_unhealthy)


def uid_of(kind: str, namespace: str, name: str) -> str:
    """The uid that the builders give this object: always the same."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{namespace}/{name}"))


def pod_named(snapshot: ClusterSnapshot, name: str, namespace: str = "default") -> Pod:
    """The snapshot's pod of this name."""
    return next(found for found in snapshot.pods if (found.namespace, found.name) == (namespace, name))


def node_called(snapshot: ClusterSnapshot, name: str) -> Node:
    """The snapshot's node of this name."""
    return next(found for found in snapshot.nodes if found.name == name)


def _requests(asked: Mapping[str, Amount]) -> Requests:
    found = sorted((resource, amount(resource, text)) for resource, text in asked.items())
    return tuple((resource, number) for resource, number in found if number)


def _share(labels: Mapping[str, str]) -> Labels:
    return _LABELS.setdefault(tuple(sorted(labels.items())), dict(labels))


def _flat(items: Iterable[Row | Iterable[Row]]) -> Iterator[Row]:
    for item in items:
        if isinstance(item, Iterable):
            yield from _flat(item)
        else:
            yield item


def _add(rows: SnapshotRows, row: Row) -> None:
    match row:
        case Node():
            _put(rows.nodes, row.name, row)
        case Pod():
            _put(rows.pods, (row.namespace, row.name), row)
        case Workload():
            _put(rows.workloads, (row.kind, row.namespace, row.name), row)
        case Autoscaler():
            _put(rows.autoscalers, (row.namespace, row.name), row)
        case DisruptionBudget():
            _put(rows.budgets, (row.namespace, row.name), row)
        case Claim():
            _put(rows.claims, (row.namespace, row.name), row)
        case Volume():
            _put(rows.volumes, row.name, row)
        case StorageClass():
            _put(rows.storage_classes, row.name, row)
        case AttachLimits():
            _put(rows.attach_limits, row.node, row)
        case Namespace():
            _put(rows.namespaces, row.name, row.labels)


def _put(into: dict[Key, Value], key: Key, row: Value) -> None:
    if key in into:
        raise ValueError(f"{key} is in this cluster twice")
    into[key] = row
