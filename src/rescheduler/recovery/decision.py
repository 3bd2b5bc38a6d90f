"""Builds a decision about one workload: its record, Events, deletions, and when to look again.

A pod proves that its workload can run when it has been well for a minute. What is out of date in a record is removed
before anything is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rescheduler.migration.events import ObjectEvent
from rescheduler.migration.observation import controller_of, find_condition, has_finished, is_terminating, ready_seconds
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.time import parse_instant
from rescheduler.recovery import record as records
from rescheduler.recovery.jobs import count_failures
from rescheduler.recovery.model import (
    RecoveryDecision,
    RecoveryOutcome,
    RecoveryReason,
    WorkloadState,
    make_events,
    statuses,
)
from rescheduler.recovery.record import (
    EMPTY,
    RecordEntry,
    RecordError,
    entry_name,
    find_outdated,
    forget_old,
    format_record,
    is_outdated,
    parse_record,
)
from rescheduler.recovery.settings import RecoverySettings, count_desired

_PROOF = 60.0  # seconds


def is_well(pod: Json, settings: RecoverySettings, now: float) -> bool:
    """Whether a pod is Ready and not between two crashes: without a readiness probe it is Ready there, too."""
    lasting = ready_seconds(pod, now)
    if lasting is None:
        return False
    restarts = max((each.get("restartCount") or 0 for each in statuses(pod)), default=0)
    return restarts < settings.crash_restarts or lasting >= settings.clear_after


def runs_somewhere(state: WorkloadState) -> bool:
    """Whether a pod proves that its workload can run, with the current template."""
    for pod in state.pods:
        done = (pod.get("status") or {}).get("phase") == "Succeeded"
        if (done or _runs_for(pod, state) >= _PROOF) and not is_outdated(pod, state):
            return True
    return False


def seconds_until_proof(state: WorkloadState) -> float | None:
    """Return in how many seconds a pod will prove it; None if there is none.

    A new pod proves nothing: without a readiness probe it is Ready before its first crash.
    """
    young = [each for pod in state.pods if not is_outdated(pod, state) and (each := _runs_for(pod, state)) > 0]
    return _PROOF - max(young) if young else None


def _runs_for(pod: Json, state: WorkloadState) -> float:
    """Return for how many seconds the pod has been well."""
    return max(ready_seconds(pod, state.now) or 0.0, 0.001) if is_well(pod, state.settings, state.now) else 0.0


def is_live(pod: Json) -> bool:
    """Whether a pod counts for its workload; ended pods of a controller have been replaced."""
    return not is_terminating(pod) and (not has_finished(pod) or controller_of(pod) is None)


def group_by_entry(state: WorkloadState) -> dict[str, list[Json]]:
    """Return the live pods of each entry of the record."""
    found: dict[str, list[Json]] = {}
    for pod in filter(is_live, state.pods):
        name = entry_name(state.workload["kind"], pod["metadata"]["name"], pod["spec"].get("nodeName", ""))
        found.setdefault(name, []).append(pod)
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


_AT_ONCE = 100
"""Pods that are decided about in one pass: the others follow when these are gone."""
_LONGEST = 200_000
"""Characters of a record that nothing is added to: all annotations of an object have 256 KiB."""
SOON = 10.0
"""Seconds after which to look again if no event will tell."""


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

    def delete(self, pod: Json, controller: Json | None) -> None:
        """Delete a pod; for a Job this counts as a failure."""
        self.deletions.append(pod)
        if controller is not None and controller["kind"] == "Job":
            self.job_failures[controller["metadata"]["uid"]] = self.failures_of(controller) + 1

    def failures_of(self, job: Json) -> int:
        """Return the failures of a Job, including the pods to be deleted."""
        uid = job["metadata"]["uid"]
        if uid not in self.job_failures:
            own = (pod for pod in self.state.pods if (controller_of(pod) or {}).get("uid") == uid)
            self.job_failures[uid] = count_failures(job, own)
        return self.job_failures[uid]

    def requeue(self, seconds: float) -> None:
        """Look again after this time at the latest."""
        self.requeues.append(seconds)

    @property
    def is_full(self) -> bool:
        """Whether nothing more may be decided in this pass."""
        return self.remaining <= 0

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
        builder.record_event(
            None, RecoveryReason.UNREADABLE, note, f"{state.workload['metadata'].get('uid', '')}/{text[:200]}"
        )
        builder.outcomes.append(RecoveryOutcome.UNREADABLE)
        record = {}
    for name in find_outdated(record, state):
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
    key = records.kse_annotation(kind)
    text = annotations_of(state.workload).get(key) if key else None
    if text is None:
        return record
    occasion = f"{state.workload['metadata'].get('uid', '')}/{key}/{text[:200]}"
    try:
        foreign = records.parse_kse_record(
            kind, text, [name for name in builder.live if _has_unhealthy_pod(builder, name)]
        )
        both = records.merge_kse_record(record, foreign, state.now)
        records.check_length(both, _LONGEST)
    except records.KseRecordError as error:
        note = f"the annotation {key} of kse-rescheduler cannot be read and is left as it is: {error}; remove it"
        builder.record_event(None, RecoveryReason.UNREADABLE, note, occasion)
        return record
    builder.adopted_annotation = key
    said = records.describe_kse_record(foreign)
    note = f"the record of kse-rescheduler is adopted ({said}), and its annotation {key} removed"
    builder.record_event(None, RecoveryReason.TAKEN_OVER, note, occasion)
    return both


def _has_unhealthy_pod(builder: DecisionBuilder, name: str) -> bool:
    state = builder.state
    return any(not is_well(pod, state.settings, state.now) for pod in builder.live.get(name, ()))


def _says_the_same(before: str | None, text: str) -> bool:
    """Whether the annotation already says this, in any layout."""
    if before is None:
        return not text
    try:
        return bool(before) and format_record(parse_record(before)) == text
    except RecordError:
        return False
