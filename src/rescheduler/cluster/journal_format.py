"""PodMigration objects to and from migrations: the journal's written form.

What a person writes by hand is checked by the CRD's schema in the API server; what arrives here all the same and makes
no sense is a JournalError that names the field. Times are written as Kubernetes writes them, in whole seconds, and
durations as Go does.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rescheduler.cluster import journal_wire as wire
from rescheduler.cluster.conditions import conditions_of
from rescheduler.model import marks
from rescheduler.model.duration import DurationError, format_duration, parse_duration
from rescheduler.model.instant import InstantError, format_instant, parse_instant
from rescheduler.model.migration import Condition, Migration, Order, Outcome, Progress, Reference
from rescheduler.model.plan import Method

Json = dict[str, Any]
API_VERSION = "rescheduler.io/v1alpha1"
KIND = "PodMigration"


class JournalError(ValueError):
    """A PodMigration that makes no sense; the message names the object and the field."""


def decoded(body: Json) -> Migration:
    """The migration that an object tells of."""
    try:
        found = msgspec.convert(body, wire.PodMigration)
        meta, status = found.metadata, found.status
        return Migration(
            meta.namespace,
            meta.name,
            _order(found.spec),
            _progress(status),
            meta.uid,
            meta.resource_version,
            _instant(meta.creation_timestamp, "metadata.creationTimestamp"),
            meta.generation,
            tuple(
                Condition(each.type, each.status, _instant(each.last_transition_time, "status.conditions"))
                for each in status.conditions
            ),
            _person(meta.annotations, marks.APPROVED),
            _person(meta.annotations, marks.REJECTED),
        )
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise _complaint(body, where.strip(".`"), what) from error
    except _FieldError as error:
        raise _complaint(body, error.path, str(error)) from error


def new_object(migration: Migration) -> Json:
    """The object to create for a migration."""
    order = migration.order
    spec: Json = {
        "pod": {"name": order.pod, "uid": order.uid},
        "target": order.target,
        "method": order.method.value if order.method else wire.AUTO,
        "strategy": order.strategy,
        "reason": order.reason,
        "paused": order.paused,
    }
    if order.timeout is not None:
        spec["timeout"] = format_duration(order.timeout)
    if order.members > 1:
        spec["proposal"] = {"name": order.proposal, "members": order.members}
    if order.needs_approval:
        spec["approvalRequired"] = True
    if order.windowed:
        spec["windowed"] = True
    if order.expected_gain is not None:
        spec["expectedGain"] = order.expected_gain
    if not order.uid:
        del spec["pod"]["uid"]
    metadata: Json = {"name": migration.name, "namespace": migration.namespace}
    if order.plan:  # as a label, too: that is how people select what they approve of
        spec["plan"] = order.plan
        metadata["labels"] = {marks.PLAN: order.plan}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": {k: v for k, v in spec.items() if v != ""},
    }


def status_of(migration: Migration, progress: Progress, now: float) -> Json:
    """The status that tells of a migration's new progress, as a merge patch: what has no value is null, so it goes."""
    status: Json = {
        "phase": progress.phase.value,
        "step": progress.step,
        "method": progress.method.value if progress.method else "",
        "podUID": progress.uid,
        "source": progress.source,
        "target": progress.target,
        "controller": _reference_object(progress.controller),
        "workload": _reference_object(progress.workload),
        "replacement": _reference_object(progress.replacement),
        "bystanders": list(progress.bystanders),
        "attempts": progress.attempts,
        "triedMethods": [method.value for method in progress.tried],
        "message": progress.message,
        "remark": progress.remark,
        "startTime": _stamp(progress.started),
        "stepTime": _stamp(progress.step_started),
        "completionTime": _stamp(progress.finished),
        "retryTime": _stamp(progress.retry_at),
        "outcome": _outcome_object(progress.outcome),
        "observedGeneration": migration.generation,
        "conditions": conditions_of(migration, progress, now),
    }
    return _without_empty(status)


def _order(spec: wire.Spec) -> Order:
    proposal = spec.proposal or wire.Proposal("")
    if not spec.pod.name:
        raise _FieldError("spec.pod.name", "is empty")
    return Order(
        spec.pod.name,
        spec.pod.uid,
        spec.target,
        _method(spec.method, "spec.method"),
        spec.strategy,
        spec.reason,
        proposal.name,
        proposal.members,
        spec.paused,
        _duration(spec.timeout, "spec.timeout"),
        spec.approval_required,
        spec.plan,
        spec.expected_gain,
        spec.windowed,
    )


def _progress(status: wire.Status) -> Progress:
    return Progress(
        status.phase,
        status.step,
        _method(status.method, "status.method"),
        status.pod_uid,
        status.source,
        status.target,
        _reference(status.controller),
        _reference(status.workload),
        _reference(status.replacement),
        status.bystanders,
        status.attempts,
        status.tried_methods,
        status.message,
        _instant(status.start_time, "status.startTime"),
        _instant(status.step_time, "status.stepTime"),
        _instant(status.completion_time, "status.completionTime"),
        _instant(status.retry_time, "status.retryTime"),
        status.remark,
        _outcome(status.outcome),
    )


class _FieldError(ValueError):
    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def _complaint(body: Json, path: str, what: str) -> JournalError:
    metadata = body.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    title = f"{KIND} {named.get('namespace', '')}/{named.get('name', '')}"
    return JournalError(": ".join(part for part in (title, path, what) if part))


def _method(text: str, path: str) -> Method | None:
    if text in ("", wire.AUTO):
        return None
    try:
        return Method(text)
    except ValueError:
        known = ", ".join((wire.AUTO, *Method))
        raise _FieldError(path, f"{text!r} is not one of {known}") from None


def _duration(text: str, path: str) -> float | None:
    try:
        return parse_duration(text) if text else None
    except DurationError as error:
        raise _FieldError(path, str(error)) from error


def _instant(text: str, path: str) -> float | None:
    try:
        return parse_instant(text) if text else None
    except InstantError as error:
        raise _FieldError(path, str(error)) from error


def _person(annotations: dict[str, str], mark: str) -> str:
    """Who approves, or rejects; people may just write "true", and take it back with "false"."""
    said = annotations.get(mark, "").strip()
    return "" if said.lower() in ("false", "no") else said


def _outcome(found: wire.Outcome | None) -> Outcome | None:
    if found is None:
        return None
    return Outcome(found.verdict, found.gain, _instant(found.assessed_time, "status.outcome.assessedTime"))


def _outcome_object(outcome: Outcome | None) -> Json | None:
    if outcome is None:
        return None
    assessed = _stamp(outcome.assessed)
    return {"verdict": outcome.verdict.value, "gain": outcome.gain, "assessedTime": assessed}


def _reference(found: wire.Reference | None) -> Reference | None:
    return Reference(found.kind, found.name, found.uid) if found else None


def _reference_object(reference: Reference | None) -> Json | None:
    if reference is None:
        return None
    # A merge patch would leave the UID of the object that was referred to before, if it were not taken away.
    return _without_empty({"kind": reference.kind, "name": reference.name, "uid": reference.uid})


def _without_empty(fields: Json) -> Json:
    return {key: None if value in ("", []) else value for key, value in fields.items()}


def _stamp(seconds: float | None) -> str | None:
    return format_instant(seconds) if seconds is not None else None
