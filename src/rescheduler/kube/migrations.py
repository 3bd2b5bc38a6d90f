"""The conditions of a PodMigration, by which `kubectl wait` and other tools tell where it is.

`journal_format` writes them with every status. All three are always there, True or False: `Progressing` while it is
being carried out, `Completed` once the pod has been moved or removed, `Failed` once it is given up and everything is
undone. The time of a condition is when its status changed; reason and message may change in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from rescheduler.kube import migration_structs as wire
from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.objects import FIELD_MANAGER, path_of
from rescheduler.migration.crd import API_VERSION, CURE, KIND
from rescheduler.migration.lifecycle import AWAITING_APPROVAL, ROLL_BACK
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import (
    MigrationCondition,
    MigrationSpec,
    MigrationStatus,
    MoveOutcome,
    ObjectReference,
    Phase,
    PodMigration,
)
from rescheduler.model.plan import Method
from rescheduler.model.time import (
    DurationError,
    InstantError,
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)

PROGRESSING = "Progressing"
COMPLETED = "Completed"
FAILED = "Failed"
_LONGEST = 32_768  # characters of a message, as for all conditions in Kubernetes


def conditions_of(migration: PodMigration, progress: MigrationStatus, now: float) -> list[Json]:
    """The conditions that this progress gives a migration."""
    phase, reason = progress.phase, _reason(migration, progress)
    true_in = {PROGRESSING: Phase.IN_PROGRESS, COMPLETED: Phase.COMPLETED, FAILED: Phase.FAILED}
    since = {each.type: (each.status, each.since) for each in migration.conditions}
    found: list[Json] = []
    for name, needed in true_in.items():
        status = "True" if phase is needed else "False"
        before, changed = since.get(name, ("", None))
        found.append(
            {
                "type": name,
                "status": status,
                "reason": reason,
                "message": progress.message[:_LONGEST],
                "lastTransitionTime": format_instant(now if before != status or changed is None else changed),
                "observedGeneration": migration.generation,
            }
        )
    return found


def _reason(migration: PodMigration, progress: MigrationStatus) -> str:
    """Where the migration is, in one word; the same for all its conditions."""
    match progress.phase:
        case Phase.PENDING if migration.order.paused:
            return "Paused"
        case Phase.PENDING if migration.awaits_approval or progress.message.startswith(AWAITING_APPROVAL):
            return "AwaitingApproval"
        case Phase.PENDING:
            return "WaitingToRetry" if progress.attempts else "Waiting"
        case Phase.IN_PROGRESS if progress.step == ROLL_BACK:
            return "RollingBack"
        case Phase.IN_PROGRESS:
            return progress.step or "Beginning"
        case Phase.COMPLETED:
            return "Removed" if progress.method is Method.REMOVE else "Moved"
        case Phase.FAILED:
            return "RolledBack" if progress.attempts else "NotPossible"


class InvalidMigrationError(ValueError):
    """A PodMigration that makes no sense; the message names the object and the field."""


def decode_migration(body: Json) -> PodMigration:
    """The migration that an object tells of."""
    try:
        found = msgspec.convert(body, wire.PodMigration)
        meta, status = found.metadata, found.status
        return PodMigration(
            meta.namespace,
            meta.name,
            _order(found.spec),
            _progress(status),
            meta.uid,
            meta.resource_version,
            _instant(meta.creation_timestamp, "metadata.creationTimestamp"),
            meta.generation,
            tuple(
                MigrationCondition(each.type, each.status, _instant(each.last_transition_time, "status.conditions"))
                for each in status.conditions
            ),
            _person(meta.annotations, labels.APPROVED),
            _person(meta.annotations, labels.REJECTED),
        )
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise _complaint(body, where.strip(".`"), what) from error
    except _FieldError as error:
        raise _complaint(body, error.path, str(error)) from error


def encode_migration(migration: PodMigration) -> Json:
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
        metadata["labels"] = {labels.PLAN: order.plan}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": {k: v for k, v in spec.items() if v != ""},
    }


def encode_status(migration: PodMigration, progress: MigrationStatus, now: float) -> Json:
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


def _order(spec: wire.Spec) -> MigrationSpec:
    proposal = spec.proposal or wire.Proposal("")
    if not spec.pod.name:
        raise _FieldError("spec.pod.name", "is empty")
    return MigrationSpec(
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


def _progress(status: wire.Status) -> MigrationStatus:
    return MigrationStatus(
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


def _complaint(body: Json, path: str, what: str) -> InvalidMigrationError:
    metadata = body.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    title = f"{KIND} {named.get('namespace', '')}/{named.get('name', '')}"
    return InvalidMigrationError(": ".join(part for part in (title, path, what) if part))


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


def _outcome(found: wire.Outcome | None) -> MoveOutcome | None:
    if found is None:
        return None
    return MoveOutcome(found.verdict, found.gain, _instant(found.assessed_time, "status.outcome.assessedTime"))


def _outcome_object(outcome: MoveOutcome | None) -> Json | None:
    if outcome is None:
        return None
    assessed = _stamp(outcome.assessed)
    return {"verdict": outcome.verdict.value, "gain": outcome.gain, "assessedTime": assessed}


def _reference(found: wire.Reference | None) -> ObjectReference | None:
    return ObjectReference(found.kind, found.name, found.uid) if found else None


def _reference_object(reference: ObjectReference | None) -> Json | None:
    if reference is None:
        return None
    # A merge patch would leave the UID of the object that was referred to before, if it were not taken away.
    return _without_empty({"kind": reference.kind, "name": reference.name, "uid": reference.uid})


def _without_empty(fields: Json) -> Json:
    return {key: None if value in ("", []) else value for key, value in fields.items()}


def _stamp(seconds: float | None) -> str | None:
    return format_instant(seconds) if seconds is not None else None


_UNKNOWN = {
    'unknown field "spec.approvalRequired"': "approval",
    'unknown field "spec.windowed"': "time windows",
    'spec.method: Unsupported value: "remove"': "removals",
}
"""What is refused by a definition of an older version, and what that does not know of."""


class StaleError(Exception):
    """The migration has changed since it was read, or is gone."""


class MigrationClient:
    """The migrations of one cluster."""

    def __init__(self, client: ApiClient, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._now = now

    async def add(self, migration: PodMigration) -> PodMigration:
        """Store a new migration; one that is there under the same name already is given back as it is."""
        body = msgspec.json.encode(encode_migration(migration))
        path, params = path_of(KIND, migration.namespace), {"fieldManager": FIELD_MANAGER}
        if migration.order.needs_approval or migration.order.windowed:
            # An older definition, which we may not update, would drop the field: then nobody would be asked, or waited.
            params["fieldValidation"] = "Strict"
        try:
            answer = await self._client.send(ApiRequest("POST", path, params, body, answers=frozenset({409})))
        except ApiError as error:
            unknown = " and no ".join(said for name, said in _UNKNOWN.items() if name in error.message)
            if error.status in (400, 422) and unknown:
                told = f"the definition of PodMigration is of an older version, which knows of no {unknown}"
                raise ClusterError(f"{told} ({error.message}); let somebody who may run `{CURE}`") from error
            if error.reason != "AlreadyExists":
                raise
            found = await self.read(migration.namespace, migration.name)
            if found is None:
                raise StaleError(f"{migration.full_name} was there, and went") from error
            return found
        return decode_migration(msgspec.json.decode(answer))

    async def read(self, namespace: str, name: str) -> PodMigration | None:
        """A migration as it is now; None if it is gone."""
        answer = await self._client.find(path_of(KIND, namespace, name))
        return decode_migration(msgspec.json.decode(answer)) if answer is not None else None

    async def all(self, namespace: str = "") -> tuple[list[PodMigration], list[str]]:
        """All migrations, and what is to be said of those that make no sense."""
        migrations: list[PodMigration] = []
        complaints: list[str] = []
        async for page in self._client.list_pages(path_of(KIND, namespace)):
            if page.first:
                migrations, complaints = [], []
            items: list[dict[str, Any]] = msgspec.json.decode(page.body)["items"]
            for item in items:
                try:
                    migrations.append(decode_migration(item))
                except InvalidMigrationError as error:
                    complaints.append(str(error))
        return migrations, complaints

    async def store(self, migration: PodMigration, progress: MigrationStatus) -> PodMigration:
        """Record progress over the version that was read."""
        # The version alone says which object is meant: no other object ever has it, not even one of the same name.
        metadata = {"resourceVersion": migration.version}
        request = ApiRequest(
            "PATCH",
            path_of(KIND, migration.namespace, migration.name, "status"),
            {"fieldManager": FIELD_MANAGER},
            msgspec.json.encode({"metadata": metadata, "status": encode_status(migration, progress, self._now())}),
            "application/merge-patch+json",
            answers=frozenset({404, 409}),
        )
        try:
            answer = await self._client.send(request)
        except ApiError as error:
            if error.status in (404, 409):
                raise StaleError(f"{migration.full_name}: {error.message}") from error
            raise
        return decode_migration(msgspec.json.decode(answer))

    async def remove(self, migration: PodMigration) -> None:
        """Forget a migration that is over."""
        body = msgspec.json.encode({"preconditions": {"uid": migration.uid}})
        path = path_of(KIND, migration.namespace, migration.name)
        try:
            await self._client.send(ApiRequest("DELETE", path, {}, body, answers=frozenset({404, 409})))
        except ApiError as error:
            if error.status not in (404, 409):
                raise
