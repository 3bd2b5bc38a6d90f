"""The input and output of recovery, and the builder of a decision about one workload.

The recovery controller reads the objects again (Kubernetes' own JSON, with `kind`), `decide` answers, and the
controller carries out the answer in the order of the fields of `RecoveryDecision`. If one step is refused, the rest is
skipped and the next pass decides again: that costs nothing, because recorded failures are not counted twice.

A pod proves that its workload can run when it has been well for a minute. What is out of date in a record is removed
before anything is decided.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.migration.observation import (
    container_statuses,
    controller_of,
    find_condition,
    has_finished,
    is_terminating,
    labels_of,
    ready_seconds,
)
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.time import parse_instant
from rescheduler.recovery.jobs import count_failures
from rescheduler.recovery.record import (
    EMPTY,
    REVISION_LABELS,
    Record,
    RecordEntry,
    RecordError,
    describe_kse_record,
    entry_name,
    forget_old,
    format_record,
    merge_kse_record,
    parse_kse_record,
    parse_record,
)
from rescheduler.recovery.settings import RecoverySettings, count_desired

_PROOF = 60.0  # seconds
_AT_ONCE = 100
"""Pods that are decided about in one pass: the others follow when these are gone."""
_LONGEST = 200_000
"""Characters of a record that nothing is added to: all annotations of an object have 256 KiB."""
SOON = 10.0
"""Seconds after which to look again if no event will tell."""
_REVISION = "deployment.kubernetes.io/revision"


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
    feasible_nodes: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """By UID of a pod that is not Ready, the nodes that could take one like it (selector, affinity, taints, volumes,
    ready, not cordoned), whatever failed there."""
    objections: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By pod UID, why a guard protects this pod: opted out, an excluded namespace."""
    replacement: Json | None = None
    """The pod with the name that the record of a bare pod gives to its replacement (`RecordEntry.replacement`)."""
    settings: RecoverySettings = field(default_factory=RecoverySettings)
    now: float = 0.0

    def entry_of(self, pod: Json) -> str:
        """Return the name of a pod's entry in the record."""
        return entry_name(self.workload["kind"], pod["metadata"]["name"], pod["spec"].get("nodeName") or "")


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


def _well_seconds(pod: Json, state: WorkloadState) -> float | None:
    """Return for how long a pod has been Ready; None if it is not, or is between two crashes.

    Without a readiness probe it is Ready there, too.
    """
    lasting = ready_seconds(pod, state.now)
    restarts = max((each.get("restartCount") or 0 for each in container_statuses(pod)), default=0)
    crashes = restarts >= state.settings.crash_restarts
    return None if lasting is None or (crashes and lasting < state.settings.clear_after) else lasting


def runs_somewhere(state: WorkloadState) -> bool:
    """Whether a pod proves that its workload can run, with the current template."""
    for pod in state.pods:
        done = (pod.get("status") or {}).get("phase") == "Succeeded"
        if (done or (_well_seconds(pod, state) or 0.0) >= _PROOF) and not is_outdated(pod, state):
            return True
    return False


def seconds_until_proof(state: WorkloadState) -> float | None:
    """Return in how many seconds a pod will prove it; None if there is none.

    A new pod proves nothing: without a readiness probe it is Ready before its first crash.
    """
    found = [_well_seconds(pod, state) for pod in state.pods if not is_outdated(pod, state)]
    young = [each for each in found if each is not None]
    return _PROOF - max(young) if young else None


def group_by_entry(state: WorkloadState) -> dict[str, list[Json]]:
    """Return the live pods of each entry of the record."""
    found: dict[str, list[Json]] = {}
    for pod in state.pods:
        if is_terminating(pod) or (has_finished(pod) and controller_of(pod) is not None):
            continue  # ended pods of a controller have been replaced
        found.setdefault(state.entry_of(pod), []).append(pod)
    return found


def describe_success(state: WorkloadState, entry: RecordEntry) -> str:
    """Describe what was reached despite the failures; empty for pods that just go on running."""
    workload = state.workload
    if workload["kind"] == "Job" and find_condition(workload, "Complete").get("status") == "True":
        return "the Job has completed"
    if workload["kind"] == "CronJob" and _succeeded_since(state, entry):
        return "the last Job has completed"
    return ""


def seconds_until_recovery(state: WorkloadState, pods: list[Json], entry: RecordEntry) -> float | None:
    """Return in how many seconds the pods of an entry have been well for long enough; None if not in sight."""
    workload, settings = state.workload, state.settings
    if describe_success(state, entry):
        return 0.0
    least = 1 if workload["kind"] in ("StatefulSet", "DaemonSet") else count_desired(workload)
    ready = [ready_seconds(pod, state.now) for pod in pods]
    if not pods or len(pods) < least or None in ready:
        return None
    # A pod that failed meanwhile may have no replacement among these: one too many, or one that was moved.
    quiet = [state.now - failure.at for failure in entry.nodes.values()]
    return max(0.0, settings.clear_after - min([*quiet, *(each for each in ready if each is not None)]))


def _succeeded_since(state: WorkloadState, entry: RecordEntry) -> bool:
    """Whether the CronJob's last Job has completed after all failures."""
    last = max(state.controllers, key=lambda job: job["metadata"].get("creationTimestamp") or "", default=None)
    if last is None or find_condition(last, "Complete").get("status") != "True":
        return False
    at = parse_instant(last["status"]["completionTime"]) if (last["status"]).get("completionTime") else state.now
    return all(failure.at < at for failure in entry.nodes.values())


def revision_of(pod: Json, state: WorkloadState) -> str:
    """Return the name of a pod's template; empty where templates have none, or never change."""
    kind = state.workload["kind"]
    if kind == "CronJob":
        return _hash_template(state.workload)
    return labels_of(pod).get(REVISION_LABELS.get(kind, ""), "")


def is_outdated(pod: Json, state: WorkloadState) -> bool:
    """Whether a pod belongs to an older ReplicaSet of a Deployment."""
    newest, owner = _newest(state), controller_of(pod)
    return newest is not None and owner is not None and owner.get("uid") != newest["metadata"]["uid"]


def _find_outdated(record: Record, state: WorkloadState) -> list[str]:
    """Return the entries of another template than the current one."""
    newest = _newest(state)
    if newest is not None:
        used = dict.fromkeys(record, labels_of(newest).get(labels.TEMPLATE_HASH, ""))
    elif state.workload["kind"] == "CronJob":
        used = dict.fromkeys(record, _hash_template(state.workload))
    else:
        used = {state.entry_of(pod): revision_of(pod, state) for pod in state.pods}
    return [name for name, entry in record.items() if entry.revision and used.get(name, "") not in ("", entry.revision)]


def _newest(state: WorkloadState) -> Json | None:
    """Return the ReplicaSet that creates a Deployment's pods now; None for other workloads."""
    if state.workload["kind"] != "Deployment":
        return None
    return max(state.controllers, key=_age, default=None)


def _age(replica_set: Json) -> tuple[int, str]:
    number = annotations_of(replica_set).get(_REVISION, "")
    return (int(number) if number.isdecimal() else 0, replica_set["metadata"].get("creationTimestamp") or "")


def _hash_template(cron_job: Json) -> str:
    """Return a name for a CronJob's template, which has none: a hash of its content."""
    template = (cron_job.get("spec") or {}).get("jobTemplate") or {}
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]


@dataclass(slots=True)
class DecisionBuilder:
    """Collects the decision about one workload."""

    state: WorkloadState
    live: Mapping[str, list[Json]] = field(default_factory=dict)
    """The live pods of each entry."""
    entries: dict[str, RecordEntry] = field(default_factory=dict)
    adopted_annotation: str = ""
    """The annotation of kse-rescheduler that these entries include."""
    events: list[ObjectEvent] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    deletions: list[Json] = field(default_factory=list)
    creation: Json | None = None
    deferred: set[str] = field(default_factory=set)
    requeues: list[float] = field(default_factory=list)
    job_failures: dict[str, int] = field(default_factory=dict)
    """Failures of Jobs by UID, including the pods to be deleted."""
    remaining: int = _AT_ONCE
    """How many more pods may be decided about."""

    def entry(self, name: str) -> RecordEntry:
        """Return the entry of equivalent pods."""
        return self.entries.get(name, EMPTY)

    def record_event(self, pod: Json | None, reason: RecoveryReason, note: str, occasion: str) -> None:
        """Record an Event on the workload and, if given, on one of its pods."""
        self.events += make_events(self.state.workload, pod, reason, note, occasion)

    def delete(self, pod: Json, controller: Json) -> None:
        """Delete a pod; for a Job this counts as a failure."""
        self.deletions.append(pod)
        if controller["kind"] == "Job":
            self.job_failures[controller["metadata"]["uid"]] = self.failures_of(controller) + 1

    def failures_of(self, job: Json) -> int:
        """Return the failures of a Job, including the pods to be deleted."""
        uid = job["metadata"]["uid"]
        if uid not in self.job_failures:
            own = (pod for pod in self.state.pods if (controller_of(pod) or {}).get("uid") == uid)
            self.job_failures[uid] = count_failures(job, own)
        return self.job_failures[uid]

    def defer(self, uid: str, seconds: float) -> None:
        """Decide about a failed pod later."""
        self.deferred.add(uid)
        self.requeue(seconds)

    def requeue(self, seconds: float) -> None:
        """Look again after this time at the latest."""
        self.requeues.append(seconds)

    def build(self) -> RecoveryDecision:
        """Return the decision; it has a record only if that changes."""
        workload = self.state.workload
        text = format_record(self.entries)
        before = annotations_of(workload).get(labels.FAILURES)
        strays = self.state.controllers if workload["kind"] == "Deployment" and not text else ()
        return RecoveryDecision(
            record=None if _says_the_same(before, text) else text,
            adopted_annotation=self.adopted_annotation,
            events=tuple(self.events),
            outcomes=tuple(self.outcomes),
            stale_copies=tuple(each for each in strays if labels.FAILURES in annotations_of(each)),
            creation=self.creation,
            deletions=tuple(self.deletions),
            deferred=frozenset(self.deferred),
            requeue_after=min(self.requeues, default=None),
        )


def start_decision(state: WorkloadState) -> DecisionBuilder:
    """Start a decision that removes only what is out of date."""
    builder = DecisionBuilder(state, group_by_entry(state))
    text = annotations_of(state.workload).get(labels.FAILURES, "")
    try:
        record = parse_record(text)
    except RecordError as error:
        note = f"the annotation {labels.FAILURES} cannot be read and is replaced: {error}"
        occasion = f"{state.workload['metadata'].get('uid', '')}/{text[:200]}"
        builder.record_event(None, RecoveryReason.UNREADABLE, note, occasion)
        builder.outcomes.append(RecoveryOutcome.UNREADABLE)
        record = {}
    for name in _find_outdated(record, state):
        del record[name]
    record = _adopt_kse_record(builder, record)
    if runs_somewhere(state):
        record = {name: entry.with_ends(entry.ends - {RecoveryReason.AT_FAULT}) for name, entry in record.items()}
    lasting = {name for name, entry in record.items() if entry.ends and _has_unhealthy_pod(builder, name)}
    kept = forget_old(record, state.now, state.settings.forget_after) | {name: record[name] for name in lasting}
    uids = {pod["metadata"]["uid"] for pod in (*state.pods, *state.vanished)}
    for name, entry in kept.items():
        builder.entries[name] = replace(entry, pending=tuple(uid for uid in entry.pending if uid in uids))
        oldest = min((failure.at for failure in entry.nodes.values()), default=None)
        if oldest is not None and name not in lasting:
            builder.requeue(max(1.0, oldest + state.settings.forget_after - state.now))
    if len(text) > _LONGEST:
        builder.remaining = 0
    return builder


def _adopt_kse_record(builder: DecisionBuilder, record: dict[str, RecordEntry]) -> dict[str, RecordEntry]:
    """Adopt the record that kse-rescheduler left on the workload, and remove its annotation."""
    state, kind = builder.state, builder.state.workload["kind"]
    key = labels.KSE_RECORDS.get(kind, "")
    text = annotations_of(state.workload).get(key) if key else None
    if text is None:
        return record
    occasion = f"{state.workload['metadata'].get('uid', '')}/{key}/{text[:200]}"
    try:
        failing = [name for name in builder.live if _has_unhealthy_pod(builder, name)]
        foreign = parse_kse_record(kind, text, failing, state.now)
        both = merge_kse_record(record, foreign, _LONGEST)
    except RecordError as error:
        note = f"the annotation {key} of kse-rescheduler cannot be read and is left as it is: {error}; remove it"
        builder.record_event(None, RecoveryReason.UNREADABLE, note, occasion)
        return record
    builder.adopted_annotation = key
    what = describe_kse_record(foreign)
    note = f"the record of kse-rescheduler is adopted ({what}), and its annotation {key} removed"
    builder.record_event(None, RecoveryReason.TAKEN_OVER, note, occasion)
    return both


def _has_unhealthy_pod(builder: DecisionBuilder, name: str) -> bool:
    return any(_well_seconds(pod, builder.state) is None for pod in builder.live.get(name, ()))


def _says_the_same(before: str | None, text: str) -> bool:
    """Whether the annotation already says this, in any layout."""
    if before is None:
        return not text
    try:
        return bool(before) and format_record(parse_record(before)) == text
    except RecordError:
        return False
