"""PodMigrations in the cluster: decoding, writing, and the conditions for `kubectl wait`.

All three conditions are always there: `Progressing` while a migration is carried out, `Completed` once the pod has
been moved or removed, `Failed` once it is given up and everything is undone. `lastTransitionTime` is when the status
of a condition last changed; reason and message may change in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.objects import FIELD_MANAGER, path_of
from rescheduler.migration.crd import API_VERSION, CURE, KIND
from rescheduler.migration.lifecycle import AWAITING_APPROVAL, ROLL_BACK
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import (
    ConditionStatus,
    MigrationCondition,
    MigrationStatus,
    Phase,
    PodMigration,
    encode_value,
)
from rescheduler.model.plan import Method
from rescheduler.model.time import decode_time

_CONDITIONS = {"Progressing": Phase.IN_PROGRESS, "Completed": Phase.COMPLETED, "Failed": Phase.FAILED}
"""The conditions, and the phase in which each is True."""
_LONGEST = 32_768  # characters of a condition's message


class InvalidMigrationError(ValueError):
    """A malformed PodMigration; the message names the object and the field."""


def decode_migration(body: Json) -> PodMigration:
    """Read an object of the cluster."""
    try:
        found = msgspec.convert(body, PodMigration, dec_hook=decode_time)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise _invalid(body, where.strip(".`"), what) from error
    if not found.spec.pod.name:
        raise _invalid(body, "spec.pod.name", "is empty")
    return found


def _invalid(body: Json, path: str, what: str) -> InvalidMigrationError:
    metadata = body.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    title = f"{KIND} {named.get('namespace', '')}/{named.get('name', '')}"
    return InvalidMigrationError(": ".join(part for part in (title, path, what) if part))


def encode_migration(migration: PodMigration) -> Json:
    """The object to create for a migration."""
    metadata: Json = {"name": migration.name, "namespace": migration.namespace}
    if migration.spec.plan:  # also a label: people select by it what they approve
        metadata["labels"] = {labels.PLAN: migration.spec.plan}
    spec = _without_empty(encode_value(migration.spec))
    # Only `paused` is always written: older definitions do not have the other switches.
    spec = {key: value for key, value in spec.items() if value is not False or key == "paused"}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def encode_status(migration: PodMigration, status: MigrationStatus, now: float) -> Json:
    """A merge patch that makes this the status of a migration. What has no value is null, so that it goes."""
    body: Json = encode_value(
        msgspec.structs.replace(
            status,
            observed_generation=migration.metadata.generation,
            conditions=_conditions(migration, status, now),
        )
    )
    return _with_nulls(body)


def _is_empty(value: object) -> bool:
    return value is None or value in ("", [])


def _without_empty(body: Json) -> Json:
    kept = {key: value for key, value in body.items() if not _is_empty(value)}
    return {key: _without_empty(value) if isinstance(value, dict) else value for key, value in kept.items()}


def _with_nulls(body: Json) -> Json:
    """Also inside objects: else the UID of the object that was referred to before would stay."""
    return {
        key: _with_nulls(value) if isinstance(value, dict) else None if _is_empty(value) else value
        for key, value in body.items()
    }


def _conditions(migration: PodMigration, status: MigrationStatus, now: float) -> tuple[MigrationCondition, ...]:
    """The conditions that this status gives a migration."""
    before = {each.type: each for each in migration.status.conditions}
    reason, message = _reason(migration, status), status.message[:_LONGEST]
    found: list[MigrationCondition] = []
    for name, phase in _CONDITIONS.items():
        holds = ConditionStatus.TRUE if status.phase is phase else ConditionStatus.FALSE
        last = before.get(name)
        since = last.last_transition_time if last is not None and last.status is holds else now
        found.append(MigrationCondition(name, holds, since, reason, message, migration.metadata.generation))
    return tuple(found)


def _reason(migration: PodMigration, status: MigrationStatus) -> str:
    """Where the migration is, in one word; the same for all its conditions."""
    match status.phase:
        case Phase.PENDING if migration.spec.paused:
            return "Paused"
        case Phase.PENDING if migration.awaits_approval or status.message.startswith(AWAITING_APPROVAL):
            return "AwaitingApproval"
        case Phase.PENDING:
            return "WaitingToRetry" if status.attempts else "Waiting"
        case Phase.IN_PROGRESS if status.step == ROLL_BACK:
            return "RollingBack"
        case Phase.IN_PROGRESS:
            return status.step or "Beginning"
        case Phase.COMPLETED:
            return "Removed" if status.method is Method.REMOVE else "Moved"
        case Phase.FAILED:
            return "RolledBack" if status.attempts else "NotPossible"


_UNKNOWN = {
    'unknown field "spec.approvalRequired"': "approval",
    'unknown field "spec.windowed"': "time windows",
    'spec.method: Unsupported value: "remove"': "removals",
}
"""Refusals by an older CRD, and the feature that it lacks."""


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
        if migration.spec.approval_required or migration.spec.windowed:
            # An older CRD that we may not update would drop the field: the move would not wait for approval or window.
            params["fieldValidation"] = "Strict"
        try:
            answer = await self._client.send(ApiRequest("POST", path, params, body, answers=frozenset({409})))
        except ApiError as error:
            unknown = " and no ".join(said for name, said in _UNKNOWN.items() if name in error.message)
            if error.status in (400, 422) and unknown:
                why = f"the CRD of PodMigration is of an older version, which has no {unknown}"
                raise ClusterError(f"{why} ({error.message}); a user with the right to must run `{CURE}`") from error
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
        """All migrations, and a complaint about each malformed one."""
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

    async def store(self, migration: PodMigration, status: MigrationStatus) -> PodMigration:
        """Record progress over the version that was read."""
        # The version alone says which object is meant: no other object ever has it, not even one of the same name.
        metadata = {"resourceVersion": migration.metadata.resource_version}
        request = ApiRequest(
            "PATCH",
            path_of(KIND, migration.namespace, migration.name, "status"),
            {"fieldManager": FIELD_MANAGER},
            msgspec.json.encode({"metadata": metadata, "status": encode_status(migration, status, self._now())}),
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
