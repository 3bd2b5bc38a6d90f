"""Pauses and resumes from the command line: finds the controller and its ConfigMap.

The user need not give the controller's namespace: it is that of its Lease, if Leases may be listed.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescheduler.app.follow import find_everywhere
from rescheduler.app.planning import InputError, LiveCluster
from rescheduler.config.schema import Configuration
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError
from rescheduler.kube.pause_state import PauseDetails, PauseStore, shorten_reason, state_name
from rescheduler.kube.reviews import fetch_own_name


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
    if before.pause is not None and not before.nonsense:
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
    for home in await _homes(client, place):
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
    homes = await _homes(client, place)
    if len(homes) > 1:
        raise InputError(f"controllers run in the namespaces {', '.join(homes)}: say with -n which one is meant")
    return pause_store(client, place.config, homes[0])


async def _homes(client: ApiClient, place: ControllerRef) -> list[str]:
    """Return the namespaces of controllers; if none can be seen, the configured one or that of the context."""
    wanted = place.config.fields.leader_election
    if named := place.namespace or wanted.resource_namespace:
        return [named]
    found = await find_everywhere(client, "Lease", wanted.resource_name) or []
    return sorted({each["metadata"]["namespace"] for each in found}) or [place.live.connection().namespace]
