"""Undoes all that kube-rescheduler did in a cluster, for `cleanup`: holds the controllers' Leases while it works.

The work starts when the Leases are held, stops at once when one is lost, and the Leases are released and deleted after
it.
"""

from __future__ import annotations

import asyncio
import platform
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import msgspec

from rescheduler.app.admission import webhook_settings
from rescheduler.app.planning import LiveCluster
from rescheduler.config.schema import Configuration
from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.connection import Connection
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.lease import LeaderElector, LeaseName, LeaseTimes
from rescheduler.kube.objects import CommandSender, ObjectClient, path_of
from rescheduler.kube.pause_state import PauseStore, state_name
from rescheduler.kube.webhook import SecretStore, WebhookConfiguration, WebhookSettings
from rescheduler.migration.commands import delete
from rescheduler.migration.crd import POD_MIGRATION
from rescheduler.runtime.uninstall import Uninstaller, UninstallResult

Result = TypeVar("Result")


class LeaseHeldError(ClusterError):
    """A controller holds the Lease."""

    def __init__(self, election: LeaderElector) -> None:
        name = f"{election.lease.namespace}/{election.lease.name}"
        holder = election.holder or "another holder"
        super().__init__(f"a controller is running: Lease {name} is held by {holder}; stop it first (scale it to 0)")


async def while_leading(
    elections: Sequence[LeaderElector], patience: float, work: Coroutine[Any, Any, Result]
) -> Result:
    """Return the result of the work; LeaseHeldError if a lease cannot be acquired within `patience` seconds."""
    running = [asyncio.ensure_future(election.run()) for election in elections]
    working: asyncio.Task[Result] | None = None
    try:
        await _all_lead(elections, patience)
        working = asyncio.create_task(work)
        done, _ = await asyncio.wait([working, *running], return_when=asyncio.FIRST_COMPLETED)
        if working in done:
            return working.result()
        raise ClusterError("the lease was lost in the middle; run it again")
    finally:
        if working is None:
            work.close()
        ending: list[asyncio.Future[Any]] = [*running, *((working,) if working is not None else ())]
        for each in ending:
            each.cancel()
        await asyncio.wait(ending)
        for election in elections:
            await election.release()


async def _all_lead(elections: Sequence[LeaderElector], patience: float) -> None:
    try:
        async with asyncio.timeout(patience):
            for election in elections:
                await election.leading.wait()
    except TimeoutError:
        held = next(each for each in elections if not each.leading.is_set())
        raise LeaseHeldError(held) from None


_NAMESPACES = "/api/v1/namespaces"


class _Place(Enum):
    """Whether a namespace can have a Lease."""

    OPEN = "it can be made"
    ENDING = "what is there goes, and nothing new can be made"
    ABSENT = "nothing is there"


class _Meta(msgspec.Struct):
    deleted: str | None = msgspec.field(name="deletionTimestamp", default=None)


class _Namespace(msgspec.Struct):
    metadata: _Meta


class _Namespaces(msgspec.Struct):
    items: list[_Namespace]


@dataclass
class LeaseClaim(LeaderElector):
    """Takes part in an election, and also leads where no Lease can exist, as in a deleted namespace."""

    _lasts: float = 0.0  # seconds for which the holder may act after a renewal
    _refusal: str = ""  # what the last attempt ended with

    def hindrance(self) -> str:
        """Explain why the Lease cannot be acquired; empty if a running controller holds it."""
        title = f"Lease {self.lease.namespace}/{self.lease.name}"
        if self._refusal:
            return f"{title} cannot be taken: {self._refusal}"
        silent = _clock() - self._seen[1]
        if self.holder in ("", self.lease.identity) or silent < self.times.duration:
            return ""
        return (
            f"{title} is held by {self.holder}, which has not renewed it for {silent:.0f} s; it lasts "
            f"{self._lasts:g} s. If no controller runs, delete it: "
            f"kubectl -n {self.lease.namespace} delete lease {self.lease.name}"
        )

    async def _attempt(self) -> bool:
        try:
            held = await super()._attempt()
        except ApiError as error:
            self._refusal = str(error)
            place = await self._place() if error.status in (403, 404) else _Place.OPEN
            if place is _Place.OPEN:
                raise
        else:
            self._refusal = ""
            return held
        if not self._seen[0] and place is _Place.ENDING:  # a holder that was never seen may have renewed just now
            self._seen, self._lasts = ("gone", _clock()), self.times.duration
        if self.holder != self.lease.identity and _clock() < self._seen[1] + self._lasts:
            return False  # for so long it may act without its Lease
        self._note(self.lease.identity)
        return True

    async def _read(self) -> Any:
        found = await super()._read()
        if found is not None:
            self._lasts = float(found.spec.seconds or self.times.duration) if found.spec.holder else 0.0
        return found

    async def _place(self) -> _Place:
        """Look at the namespace; OPEN if that is not allowed, so that the Lease is tried again."""
        selection = {"fieldSelector": f"metadata.name={self.lease.namespace}"}
        try:
            answer = await self.client.get(_NAMESPACES, selection)
            found = msgspec.json.decode(answer, type=_Namespaces).items
        except (ApiError, msgspec.MsgspecError):
            return _Place.OPEN
        if not found:
            return _Place.ABSENT
        return _Place.ENDING if found[0].metadata.deleted else _Place.OPEN


async def while_claiming(claims: Sequence[LeaseClaim], patience: float, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of the work; ClusterError says why a Lease cannot be acquired within `patience` seconds."""
    try:
        return await while_leading(claims, patience, work)
    except LeaseHeldError:
        for claim in claims:
            if hindrance := claim.hindrance():
                raise ClusterError(hindrance) from None
        raise


def _clock() -> float:
    return asyncio.get_running_loop().time()


_KIND: str = POD_MIGRATION["metadata"]["name"]
_PATIENCE = 30.0  # seconds: a Lease whose holder has died expires after 15 s by default


async def preview(live: LiveCluster, config: Configuration, *, definition: bool) -> list[str]:
    """List what would be undone."""
    async with ApiClient(live.connection(), request_timeout=live.request_timeout) as client:
        lines = await Uninstaller(client, config.fields.migration, lambda _: None).preview()
        claims, lookup = await _claims(config, live.connection(), client), ObjectClient(client)
        for home in await _homes(config, claims, client):
            for thing in _registered(client, webhook_settings(config, home)):
                try:
                    if await thing.read() is not None:
                        lines.append(f"delete {thing}: the webhook is called no more")
                except ApiError:
                    raise
                except ClusterError as error:
                    lines.append(str(error))
            state = _state(client, config, home)
            if (await state.look()).version:
                lines.append(f"delete {state}: nothing is paused any more")
        for lease in (each.lease for each in claims):
            if await lookup.find("Lease", lease.namespace, lease.name) is not None:
                lines.append(f"delete Lease {lease.namespace}/{lease.name}: no controller runs any more")
        if definition and await lookup.find("CustomResourceDefinition", "", _KIND) is not None:
            lines.append(f"delete CustomResourceDefinition {_KIND}: with it, the kind PodMigration")
        return list(dict.fromkeys(lines))  # the webhook's configuration is the same from every home


async def clean_up(
    live: LiveCluster, config: Configuration, tell: Callable[[str], None], *, definition: bool
) -> UninstallResult:
    """Undo everything; with `definition`, the CRD is deleted, too, unless something could not be undone.

    ClusterError names the holder of the Lease, or says why else it cannot be acquired.
    """
    connection, timeout = live.connection(), live.request_timeout
    async with ApiClient(connection, request_timeout=timeout) as own:
        claims = await _claims(config, connection, own)
        async with ApiClient(
            connection, request_timeout=timeout, may_write=lambda: all(each.may_act() for each in claims)
        ) as client:
            homes = await _homes(config, claims, own)
            work = _undo(client, config, tell, homes, definition=definition)
            patience = max(_PATIENCE, 2 * config.fields.leader_election.lease_duration)
            undone = await while_claiming(claims, patience, work)
        if not undone.left:
            await _drop_leases(own, claims)
        return undone


async def _undo(
    client: ApiClient, config: Configuration, tell: Callable[[str], None], homes: list[str], *, definition: bool
) -> UninstallResult:
    for home in homes:  # first, because the webhook would mark objects again
        await _unregister(client, webhook_settings(config, home), tell)
    undone = await Uninstaller(client, config.fields.migration, tell).run()
    for home in homes if not undone.left else ():
        await _forget_pause(_state(client, config, home), tell)
    if definition and not undone.left:
        path = path_of("CustomResourceDefinition", "", _KIND)
        if await client.send_unless(ApiRequest("DELETE", path, answers=frozenset({404}))) is not None:
            tell(f"delete CustomResourceDefinition {_KIND}")
    return undone


async def _unregister(client: ApiClient, settings: WebhookSettings, tell: Callable[[str], None]) -> None:
    """Remove the webhook's registration and certificates, if they are ours."""
    for thing in _registered(client, settings):
        try:
            if await thing.remove():
                tell(f"delete {thing}")
        except ApiError:
            raise
        except ClusterError as error:
            tell(str(error))


def _state(client: ApiClient, config: Configuration, home: str) -> PauseStore:
    return PauseStore(client, home, state_name(config.fields.leader_election.resource_name))


async def _forget_pause(state: PauseStore, tell: Callable[[str], None]) -> None:
    """Delete the pause: no controller is left to be paused."""
    try:
        if await state.remove():
            tell(f"delete {state}")
    except ApiError:
        raise
    except ClusterError as error:
        tell(str(error))


def _registered(client: ApiClient, settings: WebhookSettings) -> tuple[WebhookConfiguration | SecretStore, ...]:
    """Return the objects that a webhook leaves in a cluster."""
    return WebhookConfiguration(client, settings), SecretStore(client, settings.namespace, settings.secret)


async def _drop_leases(client: ApiClient, claims: list[LeaseClaim]) -> None:
    """Delete the Leases, unless another holder has taken one since it was released."""
    for lease in (each.lease for each in claims):
        found = await ObjectClient(client).find("Lease", lease.namespace, lease.name)
        if found is not None and not (found.get("spec") or {}).get("holderIdentity"):
            await CommandSender(client).carry_out(delete(found, "no controller runs any more", as_seen=True))


async def _claims(config: Configuration, connection: Connection, client: ApiClient) -> list[LeaseClaim]:
    """Make a claim for each Lease of our controllers, so that the user need not name their namespace."""
    wanted = config.fields.leader_election
    times = LeaseTimes(wanted.lease_duration, wanted.renew_deadline, wanted.retry_period)
    identity = f"{platform.node()}_cleanup_{uuid.uuid4()}"
    namespaces = {wanted.resource_namespace or connection.namespace}
    if not wanted.resource_namespace:
        namespaces = await _namespaces_with(client, "Lease", wanted.resource_name) or namespaces
    names = (LeaseName(each, wanted.resource_name, identity) for each in sorted(namespaces))
    return [LeaseClaim(client, name, times) for name in names]


async def _homes(config: Configuration, claims: list[LeaseClaim], client: ApiClient) -> list[str]:
    """Return the namespaces with objects of our controllers, also those where the Lease was deleted."""
    election = config.fields.leader_election
    homes = {each.lease.namespace for each in claims}
    if not election.resource_namespace:
        homes |= await _namespaces_with(client, "ConfigMap", state_name(election.resource_name))
        homes |= await _namespaces_with(client, "Secret", webhook_settings(config, "").secret)
    return sorted(homes)


async def _namespaces_with(client: ApiClient, kind: str, name: str) -> set[str]:
    """Return the namespaces with an object of this name; none without the right to list them."""
    try:
        found = await ObjectClient(client).list_all(kind, selection={"fieldSelector": f"metadata.name={name}"})
    except ApiError as error:
        if error.status != 403:
            raise
        return set()
    return {each["metadata"]["namespace"] for each in found}
