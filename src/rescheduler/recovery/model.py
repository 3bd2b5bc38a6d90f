"""What recovery decides about and what it answers: one workload with its failed pods, and what to do about them now.

The recovery controller reads the objects again (Kubernetes' own JSON, with `kind`), `decide` answers, and the
controller carries out the answer in the order of the fields of `RecoveryDecision`. If one step is refused, the rest is
skipped and the next pass decides again: that costs nothing, because recorded failures are not counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.model.json import Json
from rescheduler.recovery.settings import RecoverySettings


class RecoveryOutcome(StrEnum):
    """What is counted in metrics."""

    RESCHEDULED = "rescheduled"
    RESTARTED = "restarted"
    EXHAUSTED = "exhausted"
    NO_NODE_LEFT = "no_node_left"
    AT_FAULT = "at_fault"
    RECOVERED = "recovered"
    UNREADABLE = "unreadable"


class RecoveryReason(StrEnum):
    """The reasons of Events about failed pods."""

    RESCHEDULED = "PodRescheduled"
    RESTARTED = "PodRestarted"
    EXHAUSTED = "RetriesExhausted"
    NO_NODE_LEFT = "NoNodeLeft"
    AT_FAULT = "WorkloadAtFault"
    RECOVERED = "Recovered"
    UNREADABLE = "RecordUnreadable"
    TAKEN_OVER = "RecordTakenOver"
    INVALID = "RetriesInvalid"
    MISSPELT = "RetriesMisspelt"
    REFUSED = "RecoveryRefused"
    DOUBTED = "NodesUnreachable"

    @property
    def is_warning(self) -> bool:
        """Whether the Event is a warning."""
        good = (
            RecoveryReason.RESCHEDULED,
            RecoveryReason.RESTARTED,
            RecoveryReason.RECOVERED,
            RecoveryReason.TAKEN_OVER,
        )
        return self not in good


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """One workload with pods that fail, or with a record of pods that failed."""

    workload: Json
    """Who keeps the record: the top of the pods' owners, or a pod that nobody manages."""
    controllers: tuple[Json, ...] = ()
    """Who makes the pods: a Deployment's ReplicaSets, a CronJob's Jobs, else the workload; nobody for a bare pod."""
    pods: tuple[Json, ...] = ()
    """Every pod of these controllers; the bare pod itself."""
    vanished: tuple[Json, ...] = ()
    """Pods that had failed as a whole and were gone or leaving when they were to be read: StatefulSets and DaemonSets
    delete such pods themselves, at once. What is known of them, as a pod (metadata with `ownerReferences`,
    `spec.nodeName`, `status` with phase, reason and startTime). Each is given until it is decided about, and then no
    more."""
    nodes: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    """The nodes of these pods, by name; one that does not exist any more is not in it."""
    unready_share: float = 0.0
    """How many of all nodes of the cluster are not ready, from 0 to 1."""
    feasible_nodes: frozenset[str] = frozenset()
    """Nodes that could take such a pod (selector, affinity, taints, ready, not cordoned), whatever failed there."""
    feasible_by_pod: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """The same for single pods, by UID, that can go to other nodes than the rest (a volume, an older template)."""
    objections: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By pod UID, why a guard leaves this pod alone: opted out, an excluded namespace."""
    replacement: Json | None = None
    """Whoever has the name that a bare pod's record gives to the pod that takes its place (`Entry.replacement`)."""
    settings: RecoverySettings = field(default_factory=RecoverySettings)
    now: float = 0.0


@dataclass(frozen=True, slots=True)
class RecoveryDecision:
    """What to do, in this order; nothing, if it is empty."""

    record: str | None = None
    """The text of the workload's annotation `marks.FAILURES`; "" takes it off; None leaves it.

    It is written under the condition that the workload has not changed (its resourceVersion).
    """
    events: tuple[ObjectEvent, ...] = ()
    outcomes: tuple[str, ...] = ()
    """For the metrics: one for each thing that happened."""
    stale_copies: tuple[Json, ...] = ()
    """ReplicaSets that still carry the copy of a record that is gone: take their annotation `marks.FAILURES` off."""
    creation: Json | None = None
    """The pod that takes a bare pod's place."""
    deletions: tuple[Json, ...] = ()
    """Pods to delete, each under the condition that its UID and resourceVersion are as seen."""
    deferred: frozenset[str] = frozenset()
    """UIDs of failed pods that are decided about later: it is too early, or there are too many at once."""
    requeue_after: float | None = None
    """After how many seconds to look again; None: when something changes."""
    adopted_annotation: str = ""
    """The annotation of kse-rescheduler that is in the record now, and is taken off in the same write; of a Deployment
    also, afterwards, off its ReplicaSets, to which it was copied."""


def statuses(pod: Json) -> list[Json]:
    """What is known of a pod's containers, init containers and sidecars first."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def make_events(
    workload: Json, pod: Json | None, reason: RecoveryReason, note: str, occasion: str
) -> list[ObjectEvent]:
    """Return the Events for the workload and, if it is about one, for the pod.

    Events with the same occasion have the same name, so that each is recorded once.
    """
    owner = _subject(workload, workload["kind"])
    one = _subject(pod, "Pod") if pod is not None else owner
    pairs = dict.fromkeys([(owner, one), (one, owner)])
    return [ObjectEvent(about, other, reason, "Recover", note, occasion, reason.is_warning) for about, other in pairs]


def _subject(body: Json, kind: str) -> Subject:
    metadata = body["metadata"]
    return Subject(kind, metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))
