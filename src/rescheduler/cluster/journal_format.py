"""PodMigration objects to and from migrations: the journal's written form.

What a person writes by hand is checked by the CRD's schema in the API server; what arrives here all the same and makes
no sense is a JournalError that names the field. Times are written as Kubernetes writes them, durations as Go does.
"""

from __future__ import annotations

from typing import Any

from rescheduler.model.duration import DurationError, format_duration, parse_duration
from rescheduler.model.instant import InstantError, format_instant, parse_instant
from rescheduler.model.migration import Migration, Order, Phase, Progress, Reference
from rescheduler.model.plan import Method

Json = dict[str, Any]
API_VERSION = "rescheduler.io/v1alpha1"
KIND = "PodMigration"


class JournalError(ValueError):
    """A PodMigration that makes no sense; the message names the field."""


def decoded(body: Json) -> Migration:
    """The migration that an object tells of."""
    metadata = body["metadata"]
    spec, status = body.get("spec") or {}, body.get("status") or {}
    try:
        return Migration(
            metadata["namespace"],
            metadata["name"],
            _order(spec),
            _progress(status),
            metadata.get("uid", ""),
            metadata.get("resourceVersion", ""),
            _instant(metadata.get("creationTimestamp")),
        )
    except (DurationError, InstantError, ValueError) as error:
        raise JournalError(f"PodMigration {metadata['namespace']}/{metadata['name']}: {error}") from error


def new_object(migration: Migration) -> Json:
    """The object to create for a migration."""
    order = migration.order
    spec: Json = {
        "pod": {"name": order.pod, "uid": order.uid},
        "target": order.target,
        "method": order.method.value if order.method else "auto",
        "strategy": order.strategy,
        "reason": order.reason,
        "paused": order.paused,
    }
    if order.timeout is not None:
        spec["timeout"] = format_duration(order.timeout)
    if order.members > 1:
        spec["proposal"] = {"name": order.proposal, "members": order.members}
    if not order.uid:
        del spec["pod"]["uid"]
    metadata = {"name": migration.name, "namespace": migration.namespace}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": {k: v for k, v in spec.items() if v != ""},
    }


def status_of(progress: Progress) -> Json:
    """The status that tells of progress, as a merge patch: what has no value is null, so that it goes."""
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
        "startTime": _stamp(progress.started),
        "stepTime": _stamp(progress.step_started),
        "completionTime": _stamp(progress.finished),
        "retryTime": _stamp(progress.retry_at),
    }
    return {key: None if value in ("", []) else value for key, value in status.items()}


def _order(spec: Json) -> Order:
    proposal = spec.get("proposal") or {}
    pod = spec.get("pod") or {}
    if not pod.get("name"):
        raise JournalError("spec.pod.name: required")
    return Order(
        pod["name"],
        pod.get("uid", ""),
        spec.get("target", ""),
        _method(spec.get("method", "auto")),
        spec.get("strategy", "Manual"),
        spec.get("reason", ""),
        proposal.get("name", ""),
        int(proposal.get("members", 1)),
        bool(spec.get("paused", False)),
        parse_duration(spec["timeout"]) if spec.get("timeout") else None,
    )


def _progress(status: Json) -> Progress:
    return Progress(
        Phase(status.get("phase", Phase.PENDING)),
        status.get("step", ""),
        _method(status.get("method", "auto")),
        status.get("podUID", ""),
        status.get("source", ""),
        status.get("target", ""),
        _reference(status.get("controller")),
        _reference(status.get("workload")),
        _reference(status.get("replacement")),
        tuple(status.get("bystanders", ())),
        int(status.get("attempts", 0)),
        tuple(Method(method) for method in status.get("triedMethods", ())),
        status.get("message", ""),
        _instant(status.get("startTime")),
        _instant(status.get("stepTime")),
        _instant(status.get("completionTime")),
        _instant(status.get("retryTime")),
    )


def _method(text: str) -> Method | None:
    return None if text in ("", "auto") else Method(text)


def _reference(found: Json | None) -> Reference | None:
    return Reference(found.get("kind", ""), found.get("name", ""), found.get("uid", "")) if found else None


def _reference_object(reference: Reference | None) -> Json | None:
    if reference is None:
        return None
    found = {"kind": reference.kind, "name": reference.name, "uid": reference.uid}
    return {key: value for key, value in found.items() if value}


def _instant(text: str | None) -> float | None:
    return parse_instant(text) if text else None


def _stamp(seconds: float | None) -> str | None:
    return format_instant(seconds) if seconds is not None else None
