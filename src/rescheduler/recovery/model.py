"""The input and output of recovery: one workload with its failed pods, and what to do about them now.

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
    """The owner of the record: the top of the pods' owners, or a pod without a controller."""
    controllers: tuple[Json, ...] = ()
    """The objects that create the pods: a Deployment's ReplicaSets, a CronJob's Jobs, else the workload; none for a
    bare pod."""
    pods: tuple[Json, ...] = ()
    """Every pod of these controllers; the bare pod itself."""
    vanished: tuple[Json, ...] = ()
    """Pods that had failed as a whole and were gone or leaving before they could be read: StatefulSets and DaemonSets
    delete such pods at once. They have the known fields of a pod (metadata with `ownerReferences`, `spec.nodeName`,
    `status` with phase, reason and startTime). Each is included until it is decided about."""
    nodes: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    """The nodes of these pods by name; nodes that no longer exist are missing."""
    unready_share: float = 0.0
    """The share of all nodes that are not ready, from 0 to 1."""
    feasible_nodes: frozenset[str] = frozenset()
    """Nodes that could take such a pod (selector, affinity, taints, ready, not cordoned), whatever failed there."""
    feasible_by_pod: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """The same by UID for pods that fit on other nodes than the rest (a volume, an older template)."""
    objections: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By pod UID, why a guard protects this pod: opted out, an excluded namespace."""
    replacement: Json | None = None
    """The pod with the name that the record of a bare pod gives to its replacement (`RecordEntry.replacement`)."""
    settings: RecoverySettings = field(default_factory=RecoverySettings)
    now: float = 0.0


@dataclass(frozen=True, slots=True)
class RecoveryDecision:
    """What to do, in this order; nothing if it is empty."""

    record: str | None = None
    """The text of the workload's annotation `labels.FAILURES`; "" removes it; None leaves it. The write requires that
    the workload has not changed (its resourceVersion)."""
    events: tuple[ObjectEvent, ...] = ()
    outcomes: tuple[str, ...] = ()
    """A RecoveryOutcome for each thing that happened, for the metrics."""
    stale_copies: tuple[Json, ...] = ()
    """ReplicaSets that still have a copy of a removed record: remove their annotation `labels.FAILURES`."""
    creation: Json | None = None
    """The pod that replaces a bare pod."""
    deletions: tuple[Json, ...] = ()
    """Pods to delete, each only if its UID and resourceVersion are still the same."""
    deferred: frozenset[str] = frozenset()
    """UIDs of failed pods that are decided about later: it is too early, or there are too many at once."""
    requeue_after: float | None = None
    """Seconds after which to look again; None: when something changes."""
    adopted_annotation: str = ""
    """The annotation of kse-rescheduler that the record now includes. The same write removes it; for a Deployment it is
    then removed from its ReplicaSets, too, to which it was copied."""


def statuses(pod: Json) -> list[Json]:
    """Return the statuses of a pod's containers, init containers and sidecars first."""
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
