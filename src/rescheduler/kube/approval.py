"""Approval and rejection of waiting migrations, for `rescheduler approve` and the page.

An annotation names the person who approves; the controller starts the migration when it sees it. Each write is bound to
the version that was read, so that a person approves exactly what was shown. A migration that is gone, finished or needs
no approval is refused with a reason. Repeating a decision changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.migrations import InvalidMigrationError, MigrationClient
from rescheduler.kube.objects import FIELD_MANAGER, path_of
from rescheduler.model import labels
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration

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

    With `dry`, the server checks everything and changes nothing.
    """
    annotator = _Annotator(client, by, ApprovalOutcome.APPROVED, dry)
    return [await annotator.annotate(key) for key in keys]


async def reject(client: ApiClient, keys: Sequence[ObjectKey], by: str, *, dry: bool = False) -> list[ApprovalResult]:
    """Reject migrations: the controller drops them, and leaves their pods alone for the cool-down."""
    annotator = _Annotator(client, by, ApprovalOutcome.REJECTED, dry)
    return [await annotator.annotate(key) for key in keys]


def add_group_members(chosen: Iterable[PodMigration], known: Iterable[PodMigration]) -> list[PodMigration]:
    """Add the migrations of the same proposals that still wait for approval: a proposal is all or nothing."""
    found = {(each.namespace, each.name): each for each in chosen}
    proposals = {each.spec.proposal_name for each in found.values() if each.spec.members > 1}
    for each in sorted(known, key=lambda one: (one.namespace, one.name)):
        if each.spec.members > 1 and each.spec.proposal_name in proposals and each.awaits_approval:
            found.setdefault((each.namespace, each.name), each)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Annotator:
    """Writes one person's decision."""

    client: ApiClient
    person: str
    wanted: ApprovalOutcome
    dry: bool

    async def annotate(self, key: ObjectKey) -> ApprovalResult:
        """Write the decision on one migration."""
        if not self.person:
            raise ValueError("the person who decides must be named")
        migrations = MigrationClient(self.client)
        for _ in range(_TRIES):
            try:
                found = await migrations.read(*key)
            except InvalidMigrationError as error:
                return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason=f"it is invalid: {error}")
            if found is None:
                return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason="it is gone")
            if result := _result_without_write(found, self.wanted):
                return result
            if await self._write(found):
                return ApprovalResult(*key, self.wanted, self.person)
        return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason="it keeps changing; try again")

    async def _write(self, found: PodMigration) -> bool:
        """Write the annotation; False if the migration is no longer what was read."""
        annotation = labels.APPROVED if self.wanted is ApprovalOutcome.APPROVED else labels.REJECTED
        metadata = {
            "uid": found.uid,
            "resourceVersion": found.metadata.resource_version,
            "annotations": {annotation: self.person},
        }
        request = ApiRequest(
            "PATCH",
            path_of("PodMigration", found.namespace, found.name),
            {"fieldManager": FIELD_MANAGER} | ({"dryRun": "All"} if self.dry else {}),
            msgspec.json.encode({"metadata": metadata}),
            "application/merge-patch+json",
        )
        return await self.client.write(request) is not None


def _result_without_write(found: PodMigration, wanted: ApprovalOutcome) -> ApprovalResult | None:
    """Return the result if nothing has to be written."""
    key = (found.namespace, found.name)
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
