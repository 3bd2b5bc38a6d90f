"""PodMigrations for tests, from flat arguments: what the structs keep in `metadata`, `spec` and `status`."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

from rescheduler.model import labels
from rescheduler.model.migration import (
    MigrationSpec,
    MigrationStatus,
    ObjectMeta,
    PodMigration,
    PodReference,
    ProposalReference,
    RequestedMethod,
)
from rescheduler.model.plan import Method

Row = TypeVar("Row")
_META = {
    "namespace": "namespace",
    "name": "name",
    "uid": "uid",
    "version": "resource_version",
    "created": "creation_timestamp",
    "generation": "generation",
}
_PEOPLE = {"approved_by": labels.APPROVED, "rejected_by": labels.REJECTED}


def migration_spec(
    pod: str,
    uid: str = "",
    target: str = "",
    method: Method | None = None,
    *,
    proposal: str = "",
    members: int = 1,
    **more: Any,
) -> MigrationSpec:
    """A spec whose pod, method and proposal are given in short."""
    return MigrationSpec(
        pod=PodReference(pod, uid),
        target=target,
        method=RequestedMethod(method) if method else RequestedMethod.AUTO,
        proposal=ProposalReference(proposal, members) if members > 1 else None,
        **more,
    )


def pod_migration(  # noqa: PLR0917 - in the order of the flat arguments that tests have always given
    namespace: str,
    name: str,
    spec: MigrationSpec,
    status: MigrationStatus | None = None,
    uid: str = "",
    version: str = "",
    created: float | None = None,
    **more: Any,
) -> PodMigration:
    """A migration; `approved_by` and `rejected_by` become annotations."""
    made = PodMigration(ObjectMeta(namespace, name), spec, status or MigrationStatus())
    return replace(made, uid=uid, version=version, created=created, **more)


def replace(row: Row, **changes: Any) -> Row:
    """A dataclass or struct with other fields; of a migration or spec also those that lie deeper."""
    if not isinstance(row, msgspec.Struct):
        return dataclasses.replace(row, **changes)  # type: ignore[type-var] # it is one
    if isinstance(row, PodMigration):
        meta = {_META[name]: changes.pop(name) for name in tuple(changes) if name in _META}
        people = {_PEOPLE[name]: changes.pop(name) for name in tuple(changes) if name in _PEOPLE}
        if meta or people:
            annotations = row.metadata.annotations | people
            changes["metadata"] = msgspec.structs.replace(row.metadata, annotations=annotations, **meta)
    if isinstance(row, MigrationSpec):
        if isinstance(pod := changes.get("pod"), str):
            changes["pod"] = PodReference(pod, row.pod.uid)
        if "uid" in changes:
            changes["pod"] = PodReference(row.pod.name, changes.pop("uid"))
        if "method" in changes:
            changes["method"] = RequestedMethod(changes["method"] or "auto")
        if {"proposal", "members"} & changes.keys():
            name, members = changes.pop("proposal", row.proposal_name), changes.pop("members", row.members)
            changes["proposal"] = ProposalReference(name, members) if members > 1 else None
    return msgspec.structs.replace(row, **changes)
