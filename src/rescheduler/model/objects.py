"""The rows that planning reads: what is left of Kubernetes objects when everything else is dropped.

Readers (`cluster.decode`, test builders) make them; they are immutable and cheap: a pod is one small struct whose
labels, shape and owner are shared with its siblings. `gc=False` because rows never form cycles, and 150,000 of them
would otherwise be walked by every collection.
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


class Node(msgspec.Struct, frozen=True, gc=False):
    """A node; `problem` tells why it cannot be trusted as a target, if so."""

    name: str
    labels: Labels = NOTHING
    allocatable: Requests = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    deleting: bool = False
    problem: str = ""
    unready_since: float | None = None
    """When it ceased to be ready, if it says so; None for one that is ready."""
    cordoned: bool = False
    """Whether it carries our note that we cordoned it; whether it still is, `unschedulable` tells."""
    annotations: Mapping[str, str] = NOTHING
    """Only marks: those of ours, and those of other tools that we honour."""

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
        """The mark that says that it is to stay, even if it could be emptied; empty when none does."""
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
    """What is wrong with a pod, as its status says it; whether that counts as a failure is for `recovery` to say."""

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
    """A condition of a pod that tells of something unusual."""

    type: str
    status: str
    reason: str = ""
    since: float | None = None


class PodHealth(NamedTuple):
    """What a pod has been through, as its status says it: what the strategies about troubled pods go by."""

    restarts: int = 0
    """Of all containers but the init containers."""
    init_restarts: int = 0
    reason: str = ""
    """Why the pod as a whole is as it is: Evicted, NodeLost, OutOfcpu."""
    states: tuple[ContainerState, ...] = ()
    conditions: tuple[PodCondition, ...] = ()
    """Those that are not True, and those that tell of trouble when they are."""


HEALTHY = PodHealth()
"""Nearly all pods have this one."""


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
    """When its node took it up; only of pods with a mark that counts from then on."""
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
        """Its priority, then its eviction cost, as one number: who has the lower one is moved first."""
        return labels.eviction_rank(self.priority, self.annotations)

    @property
    def finished(self) -> bool:
        """Whether it has ended: it holds nothing any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def restarts(self) -> int:
        """How often its containers were restarted, the init containers aside."""
        return self.trouble.restarts

    @property
    def init_restarts(self) -> int:
        """How often its init containers were restarted."""
        return self.trouble.init_restarts

    @property
    def static(self) -> bool:
        """Whether a kubelet runs it from a file: the API server only shows a mirror of it."""
        source = self.annotations.get(labels.STATIC_SOURCE, "api")
        return (
            labels.MIRROR in self.annotations or source != "api" or (self.owner is not None and self.owner[0] == "Node")
        )


class Workload(msgspec.Struct, frozen=True, gc=False):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or CronJob."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    owner: Owner | None = None
    replicas: int | None = None
    recreate: bool = False
    selector: Selector | None = None
    annotations: Mapping[str, str] = NOTHING
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[NodeTerm, ...] | None = None
    changing: str = ""
    """How its owner is just changing it, such as by a rollout; empty when he is not."""


class Autoscaler(msgspec.Struct, frozen=True, gc=False):
    """A HorizontalPodAutoscaler: what it scales, and how far it is with that."""

    namespace: str
    name: str
    kind: str
    """Of what it scales."""
    target: str
    current: int = 0
    desired: int = 0
    active: bool = True
    """Whether it can reckon and scale at all: else what it wants may be long out of date."""
    scaled: float | None = None
    """When it last did."""


class DisruptionBudget(msgspec.Struct, frozen=True, gc=False):
    """A PodDisruptionBudget; `allowed` is None when no controller has reckoned it yet."""

    namespace: str
    name: str
    selector: Selector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    allowed: int | None = None
    always_evict_unhealthy: bool = False
    migration: str = ""
    """The migration that it was made for, if it is a temporary one of ours."""


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
    """A NodeMetrics or PodMetrics: measured use. Recorded now; strategies read it when usage does."""

    kind: str
    namespace: str
    name: str
    usage: Requests = ()
    timestamp: float | None = None


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """What a workload's spec wants, and how far its controller has come."""

    kind: str
    observed: bool = True
    """Whether its controller has seen the newest of it."""
    wanted: int = 1
    replicas: int | None = 0
    """How many there are; none is not said by a Deployment, and what a StatefulSet does not say is not known."""
    updated: int = 0
    kept: int | None = 0
    """Of a StatefulSet: how many pods stay as they are (its partition); None where only people replace pods."""
    revised: bool = False
    """Of a StatefulSet: whether there is a newer revision than the one that all pods have had."""

    def __str__(self) -> str:
        """What is going on, after the workload's name; empty when nothing is."""
        if not self.observed:
            return "has changes that its controller has not seen yet"
        if self.kind == "Deployment":
            lags = self.updated != (self.replicas or 0) or (self.replicas or 0) != self.wanted
        elif self.kind == "StatefulSet":
            lags = self.revised and self.kept is not None and self.updated < self.wanted - self.kept
            lags = lags or (self.replicas is not None and self.replicas != self.wanted)
        else:
            return ""  # a ReplicaSet's template is its Deployment's, which tells more
        return "is being rolled out or scaled" if lags else ""
