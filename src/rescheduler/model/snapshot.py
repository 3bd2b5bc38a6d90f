"""One moment of a cluster, immutable and in canonical order: the only input of planning besides the policy.

Readers collect rows in any order; `ClusterSnapshot.of` sorts them, so that the same cluster gives the same plan
whatever the order of the objects in a file or of the pages of a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from rescheduler.model.move_history import MoveHistory
from rescheduler.model.objects import (
    AttachLimits,
    Autoscaler,
    Claim,
    DisruptionBudget,
    Node,
    Pod,
    StorageClass,
    Usage,
    Volume,
    Workload,
)
from rescheduler.model.selector import Labels
from rescheduler.model.shape import Requests

WorkloadKey = tuple[str, str, str]
"""Kind, namespace, name."""


MEASURED = ("cpu", "memory")
"""The measured resources; all others are counted by requests."""


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """Smoothed usage. Anything missing here falls back to its requests.

    CPU is in thousandths, everything else in whole units.
    """

    nodes: Mapping[str, Requests] = field(default_factory=dict)
    """By name; with everything that runs on the node, pods or not."""
    pods: Mapping[tuple[str, str], Requests] = field(default_factory=dict)
    """By namespace and name; from the pod's own history alone."""
    workloads: Mapping[WorkloadKey, Requests] = field(default_factory=dict)
    """The average usage of a workload's pods, for pods without a history."""
    warnings: tuple[str, ...] = ()
    """What is missing or was refused, in a few sentences."""
    besides: Mapping[str, Requests] = field(default_factory=dict)
    """By node: the least that it uses besides its pods. `nodes` is a mean and still contains pods that have left, so
    subtracting present pods from it would count those as overhead, and the node would look hot for too long."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Nodes and pods sorted by name, everything else by key."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    namespaces: Mapping[str, Labels] = field(default_factory=dict)
    workloads: Mapping[WorkloadKey, Workload] = field(default_factory=dict)
    budgets: tuple[DisruptionBudget, ...] = ()
    claims: Mapping[tuple[str, str], Claim] = field(default_factory=dict)
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    storage_classes: Mapping[str, StorageClass] = field(default_factory=dict)
    attach_limits: Mapping[str, AttachLimits] = field(default_factory=dict)
    usage: tuple[Usage, ...] = ()
    autoscalers: tuple[Autoscaler, ...] = ()
    priority_classes: Mapping[str, int] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()
    taken_at: float | None = None
    warnings: tuple[str, ...] = ()
    spoken_for: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Pods that get no new move, and why: a migration of theirs is under way, or has just failed."""
    memories: Mapping[WorkloadKey, MoveHistory] = field(default_factory=dict)
    """Past moves by workload; empty for files."""
    hourly: Mapping[str, int] = field(default_factory=dict)
    """Moves by choice within the hour, by namespace; empty for files."""
    measured: MeasuredUsage | None = None
    """Measured usage, if there is any."""
    hot_for: Mapping[str, int] | None = None
    """For how many cycles in a row nodes have been hot before this one; None if not counted."""


@dataclass(slots=True)
class SnapshotRows:
    """What a reader has collected, in no order; keys hold one row each."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[tuple[str, str], Pod] = field(default_factory=dict)
    namespaces: dict[str, Labels] = field(default_factory=dict)
    workloads: dict[WorkloadKey, Workload] = field(default_factory=dict)
    budgets: dict[tuple[str, str], DisruptionBudget] = field(default_factory=dict)
    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    storage_classes: dict[str, StorageClass] = field(default_factory=dict)
    attach_limits: dict[str, AttachLimits] = field(default_factory=dict)
    usage: dict[tuple[str, str, str], Usage] = field(default_factory=dict)
    autoscalers: dict[tuple[str, str], Autoscaler] = field(default_factory=dict)
    priority_classes: dict[str, int] = field(default_factory=dict)

    def snapshot(
        self, kinds: Iterable[str] = (), taken_at: float | None = None, warnings: Iterable[str] = ()
    ) -> ClusterSnapshot:
        """Freeze the rows in canonical order."""
        return ClusterSnapshot(
            nodes=tuple(sorted(self.nodes.values(), key=attrgetter("name"))),
            pods=_in_order(self.pods.values()),
            namespaces=self.namespaces,
            workloads=self.workloads,
            budgets=tuple(self.budgets[key] for key in sorted(self.budgets)),
            claims=self.claims,
            volumes=self.volumes,
            storage_classes=self.storage_classes,
            attach_limits=self.attach_limits,
            usage=tuple(self.usage[key] for key in sorted(self.usage)),
            autoscalers=tuple(self.autoscalers[key] for key in sorted(self.autoscalers)),
            priority_classes=self.priority_classes,
            kinds=frozenset(kinds),
            taken_at=taken_at,
            warnings=tuple(warnings),
        )


def _in_order(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Sort by namespace and name. Sorting each namespace by itself takes half the time of one sort of all keys.

    It also lets other threads run in between: one sort of 150,000 keys would hold the interpreter lock throughout.
    """
    spaces: dict[str, list[Pod]] = {}
    for pod in pods:
        known = spaces.get(pod.namespace)
        if known is None:
            spaces[pod.namespace] = [pod]
        else:
            known.append(pod)
    name = attrgetter("name")
    return tuple(pod for namespace in sorted(spaces) for pod in sorted(spaces[namespace], key=name))
