"""What people hold moves by, from the command line: approval, which some moves wait for, and the pause of all.

Users name plans and migrations to approve or reject. Moves of one proposal are decided on together, in any namespace.
Without the right to list all namespaces, only the requested one is read. To pause, the user need not give the
controller's namespace: it is that of its Lease, if Leases may be listed.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from rescheduler.app.follow import find_everywhere, read_migrations
from rescheduler.app.planning import InputError, LiveCluster
from rescheduler.config.schema import Configuration
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError
from rescheduler.kube.migrations import ApprovalResult, approve, reject
from rescheduler.kube.pause_state import PauseDetails, PauseStore, shorten_reason, state_name
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
        found = {each.full_name: each for name in names for each in self._find_named(name)}
        return list(found.values())

    def _find_named(self, name: str) -> list[PodMigration]:
        plan = [each for each in self.migrations if each.spec.plan == name]
        if self.named and self.home:
            plan = [each for each in plan if each.namespace == self.home]
        if plan:  # if none of it waits any more, each gets an answer that says why
            return [each for each in plan if each.awaits_approval] or plan
        full = name if "/" in name else f"{self.home}/{name}"
        found = [each for each in self.migrations if full == each.full_name or (not self.home and name == each.name)]
        if not found:
            raise InputError(self._explain_unknown(name))
        return found

    def _explain_unknown(self, name: str) -> str:
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


@dataclass(frozen=True, slots=True)
class ControllerRef:
    """A controller; without a namespace, the only one in the cluster."""

    live: LiveCluster
    config: Configuration
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class PauseResult:
    """The result of pausing or resuming."""

    by: str
    """The name of the user."""
    pause: PauseDetails | None
    """The active pause, or the one that was ended."""
    changed: bool


async def pause(client: ApiClient, place: ControllerRef, reason: str, *, dry: bool) -> PauseResult:
    """Pause; an earlier pause is kept."""
    state = await _find_state(client, place)
    before, user = await state.look(), await fetch_own_name(client) or place.live.user or "rescheduler pause"
    if before.pause is not None and not before.is_invalid:
        return PauseResult(user, before.pause, changed=False)
    if dry:
        return PauseResult(user, PauseDetails(user, client.clock.now(), reason), changed=True)
    held = await state.pause(user, reason)
    return PauseResult(user, held, changed=held.by == user and held.reason == shorten_reason(reason))


async def resume(client: ApiClient, place: ControllerRef, *, dry: bool) -> PauseResult:
    """End the pause."""
    state = await _find_state(client, place)
    user = await fetch_own_name(client) or place.live.user or "rescheduler resume"
    ended = await (state.read() if dry else state.resume(user))
    return PauseResult(user, ended, changed=ended is not None)


async def list_pauses(client: ApiClient, place: ControllerRef) -> list[PauseDetails]:
    """Return the active pauses that the user may read, for commands that order something."""
    found: list[PauseDetails | None] = []
    for home in await _find_homes(client, place):
        try:
            found.append(await pause_store(client, place.config, home).read())
        except ApiError as error:
            if error.status != 403:
                raise
    return [each for each in found if each is not None]


def pause_store(client: ApiClient, config: Configuration, home: str) -> PauseStore:
    """The pause state of the controller with this configuration in a namespace."""
    return PauseStore(client, home, state_name(config.fields.leader_election.resource_name))


async def _find_state(client: ApiClient, place: ControllerRef) -> PauseStore:
    homes = await _find_homes(client, place)
    if len(homes) > 1:
        raise InputError(f"controllers run in the namespaces {', '.join(homes)}: say with -n which one is meant")
    return pause_store(client, place.config, homes[0])


async def _find_homes(client: ApiClient, place: ControllerRef) -> list[str]:
    """Return the namespaces of controllers; if none can be seen, the configured one or that of the context."""
    wanted = place.config.fields.leader_election
    if named := place.namespace or wanted.resource_namespace:
        return [named]
    found = await find_everywhere(client, "Lease", wanted.resource_name) or []
    return sorted({each["metadata"]["namespace"] for each in found}) or [place.live.connection().namespace]
