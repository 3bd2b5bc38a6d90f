"""PodMigrations in the cluster: decoding, writing, approving, and the conditions for `kubectl wait`.

All three conditions are always there: `Progressing` while a migration is carried out, `Completed` once the pod has
been moved or removed, `Failed` once it is given up and everything is undone. `lastTransitionTime` is when the status
of a condition last changed; reason and message may change in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.objects import FIELD_MANAGER, ObjectClient, path_of
from rescheduler.migration.crd import API_VERSION, CURE, KIND
from rescheduler.migration.lifecycle import AWAITING_APPROVAL, ROLL_BACK
from rescheduler.model import labels
from rescheduler.model.json import Json, ObjectKey
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


def decode_migrations(bodies: Iterable[Json], complain: Callable[[str], None] = lambda _: None) -> list[PodMigration]:
    """Read objects of the cluster; `complain` is called for each malformed one, which is left out."""
    found: list[PodMigration] = []
    for body in bodies:
        try:
            found.append(decode_migration(body))
        except InvalidMigrationError as error:
            complain(str(error))
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

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def create(self, migration: PodMigration) -> PodMigration:
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

    async def update_status(self, migration: PodMigration, status: MigrationStatus) -> PodMigration:
        """Record progress over the version that was read."""
        # The version alone says which object is meant: no other object ever has it, not even one of the same name.
        metadata = {"resourceVersion": migration.metadata.resource_version}
        changed = encode_status(migration, status, self._client.clock.now())
        request = ApiRequest(
            "PATCH",
            path_of(KIND, migration.namespace, migration.name, "status"),
            {"fieldManager": FIELD_MANAGER},
            msgspec.json.encode({"metadata": metadata, "status": changed}),
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
        await self._client.write(ApiRequest("DELETE", path_of(KIND, migration.namespace, migration.name), {}, body))

    async def annotate(self, migration: PodMigration, annotations: dict[str, str], *, dry: bool = False) -> bool:
        """Add annotations; False if the migration is no longer what was read."""
        metadata = {
            "uid": migration.uid,
            "resourceVersion": migration.metadata.resource_version,
            "annotations": annotations,
        }
        request = ApiRequest(
            "PATCH",
            path_of(KIND, migration.namespace, migration.name),
            {"fieldManager": FIELD_MANAGER} | ({"dryRun": "All"} if dry else {}),
            msgspec.json.encode({"metadata": metadata}),
            "application/merge-patch+json",
        )
        return await self._client.write(request) is not None


async def list_past_migrations(client: ApiClient, note: Callable[[str], None]) -> list[PodMigration]:
    """Return all migrations, for their outcomes; none if the kind is not installed.

    A missing right to list them is noted, and the plan is made without them.
    """
    try:
        bodies = await ObjectClient(client).list_all(KIND)
    except ApiError as error:
        if error.status == 404:
            return []
        if error.status != 403:
            raise
    else:
        return decode_migrations(bodies, lambda complaint: note(f"{complaint}; its outcome is unknown"))
    if await client.find(f"/apis/{API_VERSION}") is not None:
        note("you may not list podmigrations.rescheduler.io, so workloads that rest after bad moves are unknown")
    return []


_TRIES = 10  # the controller writes to the object too


class ApprovalOutcome(StrEnum):
    """The outcome for one migration."""

    APPROVED = "approved"
    REJECTED = "rejected"
    UNCHANGED = "unchanged"
    """It was approved, or rejected, before."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ApprovalResult:
    """The result for one migration."""

    namespace: str
    name: str
    outcome: ApprovalOutcome
    by: str = ""
    """The person who approved or rejected it."""
    reason: str = ""
    """Why it was refused, as a sentence without its name."""

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


async def approve(client: ApiClient, keys: Sequence[ObjectKey], by: str, *, dry: bool = False) -> list[ApprovalResult]:
    """Approve migrations; return a result for each, in their order. ApiError if the API server refuses access.

    An annotation names the person who approves; the controller starts the migration when it sees it. A migration that
    is gone, finished or needs no approval is refused with a reason. Repeating a decision changes nothing. With `dry`,
    the server checks everything and changes nothing.
    """
    return [await _decide(client, key, ApprovalOutcome.APPROVED, by, dry=dry) for key in keys]


async def reject(client: ApiClient, keys: Sequence[ObjectKey], by: str, *, dry: bool = False) -> list[ApprovalResult]:
    """Reject migrations: the controller drops them, and leaves their pods alone for the cool-down."""
    return [await _decide(client, key, ApprovalOutcome.REJECTED, by, dry=dry) for key in keys]


def add_group_members(chosen: Iterable[PodMigration], known: Iterable[PodMigration]) -> list[PodMigration]:
    """Add the migrations of the same proposals that still wait for approval: a proposal is all or nothing."""
    found = {each.key: each for each in chosen}
    proposals = {each.spec.proposal_name for each in found.values() if each.spec.members > 1}
    for each in sorted(known, key=lambda one: one.key):
        if each.spec.members > 1 and each.spec.proposal_name in proposals and each.awaits_approval:
            found.setdefault(each.key, each)
    return list(found.values())


async def _decide(client: ApiClient, key: ObjectKey, wanted: ApprovalOutcome, by: str, *, dry: bool) -> ApprovalResult:
    """Write one person's decision, bound to the version that was read: a person approves exactly what was shown."""
    if not by:
        raise ValueError("the person who decides must be named")
    migrations = MigrationClient(client)
    annotation = labels.APPROVED if wanted is ApprovalOutcome.APPROVED else labels.REJECTED
    for _ in range(_TRIES):
        try:
            found = await migrations.read(*key)
        except InvalidMigrationError as error:
            return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason=f"it is invalid: {error}")
        if found is None:
            return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason="it is gone")
        if result := _result_without_write(found, wanted):
            return result
        if await migrations.annotate(found, {annotation: by}, dry=dry):
            return ApprovalResult(*key, wanted, by)
    return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason="it keeps changing; try again")


def _result_without_write(found: PodMigration, wanted: ApprovalOutcome) -> ApprovalResult | None:
    """Return the result if nothing has to be written."""
    key = found.key
    if found.status.over:
        why = f": {found.status.message}" if found.status.message else ""
        return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason=f"it is {found.status.phase.value} already{why}")
    if found.rejected_by:
        if wanted is ApprovalOutcome.REJECTED:
            return ApprovalResult(*key, ApprovalOutcome.UNCHANGED, found.rejected_by)
        return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason=f"{found.rejected_by} has rejected it")
    if not found.spec.approval_required:
        return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason="it needs no approval")
    if wanted is ApprovalOutcome.APPROVED and found.approved_by:
        return ApprovalResult(*key, ApprovalOutcome.UNCHANGED, found.approved_by)
    if found.status.phase is Phase.IN_PROGRESS:
        return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason="it has begun; deleting it rolls it back")
    return None
