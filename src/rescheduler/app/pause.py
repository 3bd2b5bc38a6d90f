"""Pauses and resumes from the command line: finds the controller and its ConfigMap.

The user need not give the controller's namespace: it is that of its Lease, if Leases may be listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from rescheduler.app.planning import InputError, LiveCluster
from rescheduler.config.schema import Configuration
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError
from rescheduler.kube.objects import ObjectClient
from rescheduler.kube.pause_state import PauseDetails, PauseStore, shorten_reason, state_name
from rescheduler.kube.reviews import fetch_own_name

Result = TypeVar("Result")


class SeveralControllersError(InputError):
    """There are several controllers."""


@dataclass(frozen=True, slots=True)
class ControllerRef:
    """A controller; without a namespace, the only one in the cluster."""

    live: LiveCluster
    config: Configuration
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class PauseResult:
    """The result of pausing or resuming."""

    where: str
    """The ConfigMap."""
    by: str
    """The name of the user."""
    pause: PauseDetails | None
    """The active pause, or the one that was ended."""
    changed: bool


def pause(place: ControllerRef, reason: str, *, dry: bool) -> PauseResult:
    """Pause; an earlier pause is kept."""

    async def act(client: ApiClient, state: PauseStore) -> PauseResult:
        before, user = await state.look(), await fetch_own_name(client) or place.live.user or "rescheduler pause"
        if before.pause is not None and not before.nonsense:
            return PauseResult(str(state), user, before.pause, changed=False)
        if dry:
            return PauseResult(str(state), user, PauseDetails(user, client.clock.now(), reason), changed=True)
        held = await state.pause(user, reason)
        return PauseResult(str(state), user, held, changed=held.by == user and held.reason == shorten_reason(reason))

    return _with_state(place, act)


def resume(place: ControllerRef, *, dry: bool) -> PauseResult:
    """End the pause."""

    async def act(client: ApiClient, state: PauseStore) -> PauseResult:
        user = await fetch_own_name(client) or place.live.user or "rescheduler resume"
        ended = await (state.read() if dry else state.resume(user))
        return PauseResult(str(state), user, ended, changed=ended is not None)

    return _with_state(place, act)


def list_pauses(live: LiveCluster, config: Configuration) -> list[PauseDetails]:
    """Return the active pauses that the user may read, for commands that order something."""

    async def look() -> list[PauseDetails]:
        async with ApiClient(live.connection(), request_timeout=live.request_timeout) as client:
            found = []
            for home in await _homes(client, ControllerRef(live, config)):
                try:
                    found.append(await _state(client, config, home).read())
                except ApiError as error:
                    if error.status != 403:
                        raise
            return [each for each in found if each is not None]

    return asyncio.run(look())


def _with_state(place: ControllerRef, act: Callable[[ApiClient, PauseStore], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with ApiClient(place.live.connection(), request_timeout=place.live.request_timeout) as client:
            homes = await _homes(client, place)
            if len(homes) > 1:
                raise SeveralControllersError(
                    f"controllers run in the namespaces {', '.join(homes)}: say with -n which one is meant"
                )
            return await act(client, _state(client, place.config, homes[0]))

    return asyncio.run(run())


async def _homes(client: ApiClient, place: ControllerRef) -> list[str]:
    """Return the namespaces of controllers; if none can be seen, the configured one or that of the context."""
    wanted = place.config.fields.leader_election
    if named := place.namespace or wanted.resource_namespace:
        return [named]
    try:
        chosen = {"fieldSelector": f"metadata.name={wanted.resource_name}"}
        found = await ObjectClient(client).list_all("Lease", selection=chosen)
    except ApiError as error:
        if error.status != 403:
            raise
        found = []
    return sorted({each["metadata"]["namespace"] for each in found}) or [place.live.connection().namespace]


def _state(client: ApiClient, config: Configuration, home: str) -> PauseStore:
    return PauseStore(client, home, state_name(config.fields.leader_election.resource_name))
