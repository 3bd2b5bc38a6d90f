"""The rows that planning reads: the fields of Kubernetes objects that matter to it.

`decode` makes them; they are immutable and cheap: a pod is one small struct that shares its labels, shape and owner
with its siblings. `gc=False` because rows never form cycles, and every collection would otherwise walk 150,000 of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from rescheduler.model import labels
from rescheduler.model.selector import Labels, Selector
from rescheduler.model.shape import NodeTerm, Requests, Shape, Taint

NOTHING: Mapping[str, str] = {}
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The PriorityClasses that every cluster has."""


class Node(msgspec.Struct, frozen=True, gc=False):
    """A node; `problem` says why it cannot be a target, if so."""

    name: str
    labels: Labels = NOTHING
    allocatable: Requests = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    deleting: bool = False
    problem: str = ""
    unready_since: float | None = None
    """When it stopped being ready, if known; None for a ready node."""
    cordoned: bool = False
    """Whether it has our annotation of a cordon; `unschedulable` says whether it still is cordoned."""
    annotations: Mapping[str, str] = NOTHING
    """Only those that are used (`labels.is_relevant`)."""

    @property
    def control_plane(self) -> bool:
        """Whether it runs the control plane: never a target."""
        return any(role in self.labels for role in labels.CONTROL_PLANE_ROLES)

    @property
    def maintenance(self) -> bool:
        """Whether an operator wants it empty."""
        return self.labels.get(labels.MAINTENANCE) == "true"

    @property
    def kept(self) -> str:
        """The annotation that forbids emptying it to save nodes; empty if there is none."""
        for mark in (labels.SCALE_DOWN_DISABLED, labels.DO_NOT_DISRUPT):
            if self.annotations.get(mark) == "true":
                return mark
        return ""


class Owner(NamedTuple):
    """The controller of an object."""

    kind: str
    name: str
    uid: str = ""


class PodFailure(NamedTuple):
    """What is wrong with a pod according to its status; `recovery` decides whether it counts as a failure."""

    reason: str
    """Why a container waits (CrashLoopBackOff), or why the whole pod has failed (Evicted); Error for an exit code."""
    restarts: int = 0


class ContainerState(NamedTuple):
    """Why a container does not run, or how its last run ended; a container that waits after an end has both."""

    reason: str
    """CrashLoopBackOff, ContainerCreating, Error, OOMKilled, Completed and the like; empty if nothing is said."""
    code: int | None = None
    """Its exit code, if it has ended."""
    part: str = ""
    """`init` or `ephemeral` for such a container; empty for the others."""


class PodCondition(NamedTuple):
    """An unusual condition of a pod."""

    type: str
    status: str
    reason: str = ""
    since: float | None = None


class PodHealth(NamedTuple):
    """A pod's health according to its status; the strategies about unhealthy pods read it."""

    restarts: int = 0
    """Of all containers but the init containers."""
    init_restarts: int = 0
    reason: str = ""
    """Why the pod as a whole is as it is: Evicted, NodeLost, OutOfcpu."""
    states: tuple[ContainerState, ...] = ()
    conditions: tuple[PodCondition, ...] = ()
    """Those that are not True, and those that mean trouble when they are."""


HEALTHY = PodHealth()
"""Shared by nearly all pods."""


class Pod(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A pod; `held` is what it holds on its node now, `shape.requests` what it would ask of another."""

    namespace: str
    name: str
    uid: str
    shape: Shape
    labels: Labels = NOTHING
    node: str = ""
    held: Requests = ()
    owner: Owner | None = None
    priority: int = 0
    phase: str = "Running"
    ready: bool = True
    created: float | None = None
    started: float | None = None
    """When its kubelet accepted it; only for pods with an annotation that counts from then on."""
    deleting: bool = False
    nominated: str = ""
    annotations: Mapping[str, str] = NOTHING
    problem: str = ""
    ailment: PodFailure | None = None
    trouble: PodHealth = HEALTHY

    @property
    def full_name(self) -> str:
        """`namespace/name`, as Kubernetes tools print it."""
        return f"{self.namespace}/{self.name}"

    @property
    def rank(self) -> int:
        """Its priority, then its eviction cost, as one number; the lower one is moved first."""
        return labels.eviction_rank(self.priority, self.annotations)

    @property
    def finished(self) -> bool:
        """Whether it has ended and uses no resources."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def static(self) -> bool:
        """Whether a kubelet runs it from a file: the API server only shows a mirror of it."""
        return labels.is_static(self.annotations) or (self.owner is not None and self.owner.kind == "Node")


class Workload(msgspec.Struct, frozen=True, gc=False):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or CronJob."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    owner: Owner | None = None
    replicas: int | None = None
    recreate: bool = False
    no_surge: bool = False
    """Whether a Deployment may never have more pods than its replicas (`maxSurge: 0`)."""
    selector: Selector | None = None
    annotations: Mapping[str, str] = NOTHING
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[NodeTerm, ...] | None = None
    changing: str = ""
    """The change in progress, such as a rollout; empty if there is none."""


class Autoscaler(msgspec.Struct, frozen=True, gc=False):
    """A HorizontalPodAutoscaler: what it scales, and its progress."""

    namespace: str
    name: str
    kind: str
    """Of what it scales."""
    target: str
    current: int = 0
    desired: int = 0
    active: bool = True
    """Whether it can compute and scale; if not, `desired` may be out of date."""
    scaled: float | None = None
    """When it last did."""


class DisruptionBudget(msgspec.Struct, frozen=True, gc=False):
    """A PodDisruptionBudget; `allowed` is None until a controller has computed it."""

    namespace: str
    name: str
    selector: Selector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    allowed: int | None = None
    always_evict_unhealthy: bool = False
    migration: str = ""
    """The migration of a temporary budget of ours; empty for others."""


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A PersistentVolumeClaim; it may name a volume without being bound to it."""

    namespace: str
    name: str
    volume: str = ""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    bound: bool = True
    deleting: bool = False
    selected_node: str = ""
    """The node that its volume is being made for."""


class Volume(msgspec.Struct, frozen=True, gc=False):
    """A PersistentVolume; `driver` and `handle` name what is attached."""

    name: str
    labels: Labels = NOTHING
    node_affinity: tuple[NodeTerm, ...] | None = None
    driver: str = ""
    handle: str = ""
    local: bool = False


class StorageClass(msgspec.Struct, frozen=True, gc=False):
    """A StorageClass; `topologies` limits where it can make volumes (any of these terms)."""

    name: str
    provisioner: str = ""
    wait_for_consumer: bool = False
    topologies: tuple[NodeTerm, ...] = ()


class AttachLimits(msgspec.Struct, frozen=True, gc=False):
    """A CSINode: how many volumes of each driver its node can hold."""

    node: str
    limits: tuple[tuple[str, int], ...] = ()


class Usage(msgspec.Struct, frozen=True, gc=False):
    """A NodeMetrics or PodMetrics: measured usage."""

    kind: str
    namespace: str
    name: str
    usage: Requests = ()
    timestamp: float | None = None


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """The desired state of a workload and how far its controller has come."""

    kind: str
    observed: bool = True
    """Whether its controller has seen the newest of it."""
    wanted: int = 1
    replicas: int | None = 0
    """Existing pods. A Deployment omits it for none; a StatefulSet that omits it leaves it unknown."""
    updated: int = 0
    kept: int | None = 0
    """Of a StatefulSet: how many pods are not updated (its partition); None with OnDelete."""
    revised: bool = False
    """Of a StatefulSet: whether there is a newer revision than the one that all pods had."""

    def __str__(self) -> str:
        """The text after the workload's name; empty if there is no rollout."""
        if not self.observed:
            return "has changes that its controller has not seen yet"
        if self.kind == "Deployment":
            lags = self.updated != (self.replicas or 0) or (self.replicas or 0) != self.wanted
        elif self.kind == "StatefulSet":
            lags = self.revised and self.kept is not None and self.updated < self.wanted - self.kept
            lags = lags or (self.replicas is not None and self.replicas != self.wanted)
        else:
            return ""  # a ReplicaSet's template is its Deployment's, which has more status
        return "is being rolled out or scaled" if lags else ""
