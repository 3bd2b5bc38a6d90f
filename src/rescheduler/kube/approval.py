"""Approving of migrations that wait for it, or rejecting them: what `rescheduler approve` and the page do.

An annotation says who approves; the controller begins when it sees it. Each is read first and written over that very
version, so that nobody approves of something other than what he was shown; what is gone, over or needs no approval is
refused with a reason. Doing it twice is doing it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import ApiError
from rescheduler.kube.migrations import InvalidMigrationError, MigrationClient
from rescheduler.kube.objects import FIELD_MANAGER, path_of
from rescheduler.model import labels
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration

_TRIES = 10  # the controller writes to it, too


class ApprovalOutcome(StrEnum):
    """What came of it."""

    APPROVED = "approved"
    REJECTED = "rejected"
    UNCHANGED = "unchanged"
    """It had been approved of, or rejected, before."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ApprovalResult:
    """What became of one migration."""

    namespace: str
    name: str
    outcome: ApprovalOutcome
    by: str = ""
    """Who has approved of it, or rejected it."""
    reason: str = ""
    """Why it was refused, as a sentence without its name."""

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


async def approve(client: ApiClient, keys: Sequence[ObjectKey], who: str, *, dry: bool = False) -> list[ApprovalResult]:
    """Approve of these; an answer for each, in their order. ApiError where the API server does not let us.

    With `dry` the server checks everything and changes nothing.
    """
    pen = _Pen(client, who, ApprovalOutcome.APPROVED, dry)
    return [await pen.mark(key) for key in keys]


async def reject(client: ApiClient, keys: Sequence[ObjectKey], who: str, *, dry: bool = False) -> list[ApprovalResult]:
    """Reject these: the controller gives them up, and leaves their pods alone for the cool-down."""
    pen = _Pen(client, who, ApprovalOutcome.REJECTED, dry)
    return [await pen.mark(key) for key in keys]


def add_group_members(chosen: Iterable[PodMigration], known: Iterable[PodMigration]) -> list[PodMigration]:
    """The chosen ones, and those that belong to them and still wait for approval: they stand or fall together."""
    found = {(each.namespace, each.name): each for each in chosen}
    proposals = {each.order.proposal for each in found.values() if each.order.members > 1}
    for each in sorted(known, key=lambda one: (one.namespace, one.name)):
        if each.order.members > 1 and each.order.proposal in proposals and each.awaits_approval:
            found.setdefault((each.namespace, each.name), each)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Pen:
    """Writes one person's word."""

    client: ApiClient
    who: str
    wanted: ApprovalOutcome
    dry: bool

    async def mark(self, key: ObjectKey) -> ApprovalResult:
        """His word on one migration."""
        if not self.who:
            raise ValueError("somebody must approve")
        journal = MigrationClient(self.client)
        for _ in range(_TRIES):
            try:
                found = await journal.read(*key)
            except InvalidMigrationError as error:
                return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason=f"it makes no sense: {error}")
            if found is None:
                return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason="it is gone")
            if answer := _settled(found, self.wanted):
                return answer
            if await self._written(found):
                return ApprovalResult(*key, self.wanted, self.who)
        return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason="others change it all the time; try again")

    async def _written(self, found: PodMigration) -> bool:
        """Whether it was still what was read."""
        note = labels.APPROVED if self.wanted is ApprovalOutcome.APPROVED else labels.REJECTED
        metadata = {"uid": found.uid, "resourceVersion": found.version, "annotations": {note: self.who}}
        request = ApiRequest(
            "PATCH",
            path_of("PodMigration", found.namespace, found.name),
            {"fieldManager": FIELD_MANAGER} | ({"dryRun": "All"} if self.dry else {}),
            msgspec.json.encode({"metadata": metadata}),
            "application/merge-patch+json",
            answers=frozenset({404, 409}),
        )
        try:
            await self.client.send(request)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return False
        return True


def _settled(found: PodMigration, wanted: ApprovalOutcome) -> ApprovalResult | None:
    """The answer where nothing is to be written."""
    key = (found.namespace, found.name)
    if found.progress.over:
        said = f": {found.progress.message}" if found.progress.message else ""
        return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason=f"it is {found.progress.phase.value} already{said}")
    if found.rejected_by:
        if wanted is ApprovalOutcome.REJECTED:
            return ApprovalResult(*key, ApprovalOutcome.UNCHANGED, found.rejected_by)
        return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason=f"{found.rejected_by} has rejected it")
    if not found.order.needs_approval:
        return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason="it needs no approval")
    if wanted is ApprovalOutcome.APPROVED and found.approved_by:
        return ApprovalResult(*key, ApprovalOutcome.UNCHANGED, found.approved_by)
    if found.progress.phase is Phase.IN_PROGRESS:
        return ApprovalResult(*key, ApprovalOutcome.REFUSED, reason="it has begun; deleting it rolls it back")
    return None
