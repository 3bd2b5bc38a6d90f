"""Pausing and resuming from the command line: which controller is meant, and its ConfigMap.

Whoever pauses need not know in which namespace the controller runs: its Lease tells, if it may be looked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from rescheduler.app.planning import InputError, LiveCluster
from rescheduler.config.configuration import Configuration
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
    """Which controller is meant; without a namespace, the one that there is."""

    live: LiveCluster
    config: Configuration
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class PauseResult:
    """What holds after somebody paused or resumed."""

    where: str
    """The ConfigMap."""
    by: str
    """Who we are."""
    pause: PauseDetails | None
    """The pause that holds, or that was ended."""
    changed: bool


def pause(place: ControllerRef, reason: str, *, dry: bool) -> PauseResult:
    """Pause; where it is paused already, that stands."""

    async def act(client: ApiClient, state: PauseStore) -> PauseResult:
        before, who = await state.look(), await fetch_own_name(client) or place.live.user or "rescheduler pause"
        if before.pause is not None and not before.nonsense:
            return PauseResult(str(state), who, before.pause, changed=False)
        if dry:
            return PauseResult(str(state), who, PauseDetails(who, client.clock.now(), reason), changed=True)
        held = await state.pause(who, reason)
        return PauseResult(str(state), who, held, changed=held.by == who and held.reason == shorten_reason(reason))

    return _with_state(place, act)


def resume(place: ControllerRef, *, dry: bool) -> PauseResult:
    """Go on."""

    async def act(client: ApiClient, state: PauseStore) -> PauseResult:
        who = await fetch_own_name(client) or place.live.user or "rescheduler resume"
        ended = await (state.read() if dry else state.resume(who))
        return PauseResult(str(state), who, ended, changed=ended is not None)

    return _with_state(place, act)


def list_pauses(live: LiveCluster, config: Configuration) -> list[PauseDetails]:
    """The pauses that hold, as far as they may be looked at: for commands that order something."""

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
    """The namespaces of the controllers; the configured or the context's own where none can be seen."""
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
