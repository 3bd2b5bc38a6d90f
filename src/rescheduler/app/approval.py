"""Lists migrations that wait for approval, and approves or rejects them, for `rescheduler approve`.

Users name plans and migrations. Moves of one proposal are approved together, in any namespace. Without the right to
list all namespaces, only the requested one is read.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from rescheduler.app.follow import read_migrations
from rescheduler.app.planning import InputError
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError
from rescheduler.kube.migrations import ApprovalResult, approve, reject
from rescheduler.kube.reviews import fetch_own_name
from rescheduler.model.migration import PodMigration


@dataclass(frozen=True, slots=True)
class ApprovalCandidates:
    """The migrations of a cluster, as far as the user may see them."""

    migrations: tuple[PodMigration, ...]
    home: str
    """The namespace of names that do not include one; empty for all."""
    named: bool
    """Whether the user named it."""

    def waiting(self) -> list[PodMigration]:
        """Return the migrations of the namespace that wait for approval; the oldest plan first."""
        found = [each for each in self.migrations if each.awaits_approval and self.home in ("", each.namespace)]
        return sorted(
            found, key=lambda each: (each.metadata.creation_timestamp or 0.0, each.spec.plan, each.namespace, each.name)
        )

    def chosen(self, names: Sequence[str]) -> list[PodMigration]:
        """Return the migrations with these names, each once; InputError names the first unknown one."""
        found = {each.full_name: each for name in names for each in self._named(name)}
        return list(found.values())

    def _named(self, name: str) -> list[PodMigration]:
        plan = [each for each in self.migrations if each.spec.plan == name]
        if self.named and self.home:
            plan = [each for each in plan if each.namespace == self.home]
        if plan:  # if none of it waits any more, each gets an answer that says why
            return [each for each in plan if each.awaits_approval] or plan
        full = name if "/" in name else f"{self.home}/{name}"
        found = [each for each in self.migrations if full == each.full_name or (not self.home and name == each.name)]
        if not found:
            raise InputError(self._unknown(name))
        return found

    def _unknown(self, name: str) -> str:
        waiting = [each for each in self.migrations if each.awaits_approval]
        names = {text for each in waiting for text in (each.spec.plan, each.name, each.full_name) if text}
        near = difflib.get_close_matches(name, sorted(names))
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        where = f" in namespace {self.home}" if self.home else ""
        return (
            f"there is no plan and no migration {name}{where}{hint}\n`rescheduler approve --list -A` shows what waits."
        )


async def read_candidates(client: ApiClient, home: str, *, named: bool) -> ApprovalCandidates:
    """Read the migrations that the user may see; `home` and `named` as in ApprovalCandidates."""
    try:
        found = await read_migrations(client)
    except ApiError as error:
        if error.status != 403 or not home:
            raise
        found = await read_migrations(client, home)
    return ApprovalCandidates(tuple(found), home, named)


async def decide(
    client: ApiClient, chosen: Sequence[PodMigration], user: str, *, rejects: bool, dry: bool
) -> list[ApprovalResult]:
    """Approve migrations, or reject them; `user` is recorded if the API server does not tell the user's name."""
    who = await fetch_own_name(client) or user or "rescheduler approve"
    act = reject if rejects else approve
    return await act(client, [(each.namespace, each.name) for each in chosen], who, dry=dry)
