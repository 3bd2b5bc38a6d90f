"""Undoes all that kube-rescheduler did in a cluster, for `cleanup`, while it holds the controllers' Leases.

The webhook goes first. Then migrations under way are rolled back, and orphans and cordons cleaned up. Then the traces
of finished moves and the records of failures are removed: they are of use only while the controller is installed. Once
nothing is left, the migrations, the pauses and the Leases are deleted.
"""

from __future__ import annotations

import asyncio
import platform
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import msgspec

from rescheduler.app.admission import webhook_settings
from rescheduler.app.follow import find_everywhere
from rescheduler.app.holds import pause_store
from rescheduler.app.planning import LiveCluster
from rescheduler.config.schema import Configuration
from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.structs import CRON_JOBS, RESOURCES, WORKLOADS, ApiResource
from rescheduler.kube.client import ApiClient, ApiRequest, ListPage
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.lease import LeaderElector, LeaseName, LeaseTimes
from rescheduler.kube.migrations import MigrationClient, StaleError, decode_migrations
from rescheduler.kube.objects import CommandSender, NotInstalledError, ObjectClient, list_cluster, path_of
from rescheduler.kube.observer import MigrationObserver
from rescheduler.kube.pause_state import PauseStore, state_name
from rescheduler.kube.webhook import SecretStore, WebhookConfiguration
from rescheduler.migration import rollback
from rescheduler.migration.commands import Command, delete, patch
from rescheduler.migration.crd import POD_MIGRATION
from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.migration.observation import StepContext
from rescheduler.migration.steps.common import erase_trace
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.runtime.executor import MigrationExecutor
from rescheduler.runtime.maintenance import CordonController
from rescheduler.runtime.orphans import WATCHED, MarkedObject, OrphanCleaner
from rescheduler.runtime.starting.gate import StartDecision

_REASON = "undone by rescheduler cleanup"
_CRD: str = POD_MIGRATION["metadata"]["name"]
_LEASE_PATIENCE = 30.0  # seconds: a Lease whose holder has died expires after 15 s by default
_ROLLBACK_PATIENCE = 120.0  # seconds for one migration: a copy that ends has its grace period
_ROUNDS = 5  # each lists the cluster again: controllers may copy annotations late
Result = TypeVar("Result")
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class UninstallResult:
    """What was undone, and what could not be."""

    migrations: int = 0
    things: int = 0
    left: tuple[str, ...] = ()


async def preview(client: ApiClient, live: LiveCluster, config: Configuration, *, definition: bool) -> list[str]:
    """List what would be undone."""
    claims, lookup = await _make_claims(client, live, config), ObjectClient(client)
    lines = await Uninstaller(client, config, await _find_homes(client, config, claims)).preview()
    for lease in (each.lease for each in claims):
        if await lookup.find("Lease", lease.namespace, lease.name) is not None:
            lines.append(f"delete Lease {lease.namespace}/{lease.name}: no controller runs any more")
    if definition and await lookup.find("CustomResourceDefinition", "", _CRD) is not None:
        lines.append(f"delete CustomResourceDefinition {_CRD}: with it, the kind PodMigration")
    return list(dict.fromkeys(lines))  # the webhook's configuration is the same from every home


async def clean_up(
    own: ApiClient, live: LiveCluster, config: Configuration, tell: Tell, *, definition: bool
) -> UninstallResult:
    """Undo everything, and tell each thing; with `definition`, the CRD is deleted, too, unless something is left.

    ClusterError names the holder of the Lease, or says why else it cannot be acquired.
    """
    claims = await _make_claims(own, live, config)
    homes = await _find_homes(own, config, claims)

    def may_write() -> bool:
        return all(each.may_act() for each in claims)

    async with ApiClient(live.connection(), request_timeout=live.request_timeout, may_write=may_write) as client:

        async def undo() -> UninstallResult:
            undone = await Uninstaller(client, config, homes, tell).run()
            if definition and not undone.left:
                path = path_of("CustomResourceDefinition", "", _CRD)
                if await client.write(ApiRequest("DELETE", path)) is not None:
                    tell(f"delete CustomResourceDefinition {_CRD}")
            return undone

        patience = max(_LEASE_PATIENCE, 2 * config.fields.leader_election.lease_duration)
        undone = await while_claiming(claims, patience, undo)
    for lease in (each.lease for each in claims if not undone.left):
        found = await ObjectClient(own).find("Lease", lease.namespace, lease.name)
        if found is not None and not (found.get("spec") or {}).get("holderIdentity"):  # else it was taken since
            await CommandSender(own).carry_out(delete(found, "no controller runs any more", as_seen=True))
    return undone


async def _make_claims(client: ApiClient, live: LiveCluster, config: Configuration) -> list[LeaseClaim]:
    """Make a claim for each Lease of our controllers, so that the user need not name their namespace."""
    wanted = config.fields.leader_election
    times = LeaseTimes(wanted.lease_duration, wanted.renew_deadline, wanted.retry_period)
    identity = f"{platform.node()}_cleanup_{uuid.uuid4()}"
    namespaces = {wanted.resource_namespace or live.connection().namespace}
    if not wanted.resource_namespace:
        namespaces = await _find_namespaces_with(client, "Lease", wanted.resource_name) or namespaces
    names = (LeaseName(each, wanted.resource_name, identity) for each in sorted(namespaces))
    return [LeaseClaim(client, name, times) for name in names]


async def _find_homes(client: ApiClient, config: Configuration, claims: Sequence[LeaseClaim]) -> list[str]:
    """Return the namespaces with objects of our controllers, also those where the Lease was deleted."""
    election = config.fields.leader_election
    homes = {each.lease.namespace for each in claims}
    if not election.resource_namespace:
        homes |= await _find_namespaces_with(client, "ConfigMap", state_name(election.resource_name))
        homes |= await _find_namespaces_with(client, "Secret", webhook_settings(config, "").secret)
    return sorted(homes)


async def _find_namespaces_with(client: ApiClient, kind: str, name: str) -> set[str]:
    return {each["metadata"]["namespace"] for each in await find_everywhere(client, kind, name) or []}


@dataclass(frozen=True, slots=True)
class _Residue:
    """Labels and annotations that are of use only while the controller is installed."""

    kinds: tuple[str, ...]
    labels: tuple[str, ...]
    annotations: tuple[str, ...]
    erase: Callable[[Json], Json]
    """Returns the patch of an object's metadata that removes them; empty if there is nothing to remove."""
    removal: str
    """What removing them is called."""
    presence: str
    """How an object that still has them is described."""

    def find(self, cache: ClusterCache) -> Iterator[MarkedObject]:
        """Yield the objects that have some."""
        for kind in self.kinds:
            for row in cache.rows(kind):
                if self.labels and rollback.names_on_pod(row.labels, row.annotations):
                    continue  # there the same labels mark a migration under way
                if any(key in row.labels for key in self.labels) or any(
                    key in row.annotations for key in self.annotations
                ):
                    yield MarkedObject(kind, row.namespace, row.name)


def _erase_record(workload: Json) -> Json:
    return {"annotations": {labels.FAILURES: None}} if labels.FAILURES in annotations_of(workload) else {}


def _erase_trace(pod: Json) -> Json:
    return {} if rollback.names_on(pod) else erase_trace(pod)


_RESIDUES = (
    _Residue(
        # Deployments first: their controller copies annotations to ReplicaSets.
        ("Deployment", *sorted(WORKLOADS - {"Deployment"}), "Pod"),
        (),
        (labels.FAILURES,),
        _erase_record,
        "forget where its pods failed",
        "has a record of failures",
    ),
    _Residue(
        ("Pod",),
        labels.TRACE_LABELS,
        labels.TRACE_ANNOTATIONS,
        _erase_trace,
        "take the trace of its move off",
        "has the trace of a move",
    ),
)
_KINDS = frozenset(WATCHED).union(*(each.kinds for each in _RESIDUES))


def _find_residues(cache: ClusterCache) -> Iterator[tuple[str, str, str]]:
    """Yield what is cordoned by us or has a residue, what its removal is called, and how it is described."""
    for row in cache.rows("Node"):
        if row.cordoned:
            yield f"Node {row.name}", "take our cordon down", "is cordoned"
    for residue in _RESIDUES:
        for each in residue.find(cache):
            yield f"{each.kind} {each.namespace}/{each.name}", residue.removal, residue.presence


class Uninstaller:
    """One cleanup of controllers in the namespaces `homes`; tells each thing that it undoes in a line of text."""

    def __init__(
        self, client: ApiClient, config: Configuration, homes: Sequence[str], tell: Tell = lambda _: None
    ) -> None:
        self._client = client
        self._config = config
        self._homes = homes
        self._tell = tell
        self._migration_client = MigrationClient(client)
        self._observer = MigrationObserver(client)
        self._sender = CommandSender(client)
        self._lifecycle = Lifecycle(config.fields.migration)
        self._executor = MigrationExecutor(
            self._migration_client, self._observer, self._sender, lambda: self._lifecycle, _refuse_start
        )
        self._ended: dict[tuple[str, str], Phase] = {}
        self._things = 0

    async def preview(self) -> list[str]:
        """What `run` would do, as far as that can be known beforehand."""
        bodies, cache = await self._list_migrations(), await self._list()
        lines = [f"roll back migration {each.full_name}" for each in self._decode(bodies) if not each.status.over]
        todo, _ = await self._cleaner(cache).preview(self._find_end)
        lines += [str(command) for command in todo]
        lines += [f"patch {title}: {removal}" for title, removal, _ in _find_residues(cache)]
        names = [f"{body['metadata']['namespace']}/{body['metadata']['name']}" for body in bodies]
        lines += [f"delete PodMigration {name}: nothing is left of it" for name in names]
        for home in self._homes:
            for thing in self._webhook(home):
                with _report_foreign(lines.append):
                    if await thing.read() is not None:
                        lines.append(f"delete {thing}: the webhook is called no more")
            state = pause_store(self._client, self._config, home)
            if (await state.look()).version:
                lines.append(f"delete {state}: nothing is paused any more")
        return lines

    async def run(self) -> UninstallResult:
        """Undo everything."""
        for home in self._homes:  # first, because the webhook would mark objects again
            for thing in self._webhook(home):
                await self._remove(thing)
        migrations = self._decode(await self._list_migrations())
        slow = [each.full_name for each in migrations if not await self._roll_back(each)]
        left = [f"migration {name} is still being rolled back" for name in slow] + await self._clean()
        if left:
            return UninstallResult(0, self._things, tuple(left))
        bodies = await self._list_migrations()
        for body in bodies:  # also malformed ones
            await self._sender.carry_out(delete(body, "nothing is left of it"))
        for home in self._homes:  # no controller is left to be paused
            await self._remove(pause_store(self._client, self._config, home))
        return UninstallResult(len(bodies), self._things)

    def _webhook(self, home: str) -> tuple[WebhookConfiguration | SecretStore, ...]:
        """Return the objects that a webhook leaves in a cluster."""
        settings = webhook_settings(self._config, home)
        return (
            WebhookConfiguration(self._client, settings),
            SecretStore(self._client, settings.namespace, settings.secret),
        )

    async def _remove(self, thing: WebhookConfiguration | SecretStore | PauseStore) -> None:
        """Delete an object, if it exists and is ours."""
        with _report_foreign(self._tell):
            if await thing.remove():
                self._tell(f"delete {thing}")

    async def _list_migrations(self) -> list[Json]:
        try:
            return await ObjectClient(self._client).list_migrations()
        except NotInstalledError:
            return []

    def _decode(self, bodies: Sequence[Json]) -> list[PodMigration]:
        """Decode migrations; tell malformed ones."""
        return decode_migrations(
            bodies, lambda complaint: self._tell(f"{complaint}; whatever is marked with its name is undone")
        )

    async def _roll_back(self, migration: PodMigration) -> bool:
        """Roll a migration back; False if it takes too long."""
        key = (migration.namespace, migration.name)
        found: PodMigration | None = migration
        try:
            async with asyncio.timeout(_ROLLBACK_PATIENCE):
                while found is not None and not found.status.over:
                    await self._cancel(found)
                    wait = await self._executor.execute(key, time.time, lambda _: ())
                    found = await self._migration_client.read(*key)
                    if found is not None and not found.status.over:
                        await asyncio.sleep(wait or 0.0)
        except TimeoutError:
            return False
        if found is not None:
            self._ended[key] = found.status.phase
            if not migration.status.over:
                how = "finished" if found.status.phase is Phase.COMPLETED else "rolled back"
                self._tell(f"{how} migration {migration.full_name}")
        return True

    async def _cancel(self, migration: PodMigration) -> None:
        scene = StepContext(migration, await self._observer.look(migration), time.time())
        progress = self._lifecycle.cancel(scene, _REASON).status
        if progress != migration.status:
            try:
                await self._migration_client.update_status(migration, progress)
            except StaleError:
                return  # another client wrote to it: the caller reads it again

    async def _clean(self) -> list[str]:
        """Undo changes until a new list of the cluster has none left; return what is left after the last round."""
        left: list[str] = []
        for _ in range(_ROUNDS):
            cache = await self._list()
            cleaner = self._cleaner(cache)
            todo, stuck = await cleaner.preview(self._find_end)
            left = [*map(str, todo), *stuck, *(f"{title} {presence}" for title, _, presence in _find_residues(cache))]
            if not left:
                break
            await cleaner.clean(self._find_end)
            for residue in _RESIDUES:
                await self._remove_residue(residue, cache)
            await CordonController(
                cache, self._observer, self._sender, should_cordon=lambda labels: False, tell=self._report
            ).remove_all()
        return left

    async def _remove_residue(self, residue: _Residue, cache: ClusterCache) -> None:
        """Change the metadata of objects; those that are refused are found again by the next round."""
        for each in list(residue.find(cache)):
            body = await self._observer.find(each.kind, each.namespace, each.name)
            if body is not None and (metadata := residue.erase(body)):
                command = patch(body, {"metadata": metadata}, residue.removal)
                if await self._sender.carry_out(command) is None:
                    self._report(command)

    async def _list(self) -> ClusterCache:
        """List the cluster as it is now."""
        cache = ClusterCache("the cluster")
        kinds = [resource for resource in (*RESOURCES, CRON_JOBS) if resource.kind in _KINDS]
        sinks = {resource.kind: cache.sink(resource.kind) for resource in kinds}

        def take(resource: ApiResource, page: ListPage) -> None:
            if page.first:
                sinks[resource.kind].begin()
            for item in page.items():
                sinks[resource.kind].put(item)

        await list_cluster(self._client, take, kinds)
        for sink in sinks.values():
            sink.complete()
        return cache

    def _cleaner(self, cache: ClusterCache) -> OrphanCleaner:
        return OrphanCleaner(cache, self._observer, self._sender, self._report)

    def _report(self, command: Command) -> None:
        self._things += 1
        self._tell(str(command))

    async def _find_end(self, marked: MarkedObject, name: str) -> Phase | None:
        """Return how a migration ended; one that was not rolled back counts as failed."""
        return self._ended.get((marked.namespace, name), Phase.FAILED)


async def _refuse_start(_: StepContext) -> StartDecision:
    """Refuse to start any migration."""
    return StartDecision(None, _REASON, never=True)


@contextmanager
def _report_foreign(tell: Tell) -> Iterator[None]:
    """Tell which objects are not ours, and are left alone."""
    try:
        yield
    except ApiError:
        raise
    except ClusterError as error:
        tell(str(error))


class _NamespaceState(Enum):
    """Whether a namespace can have a Lease."""

    OPEN = "it can be made"
    ENDING = "what is there goes, and nothing new can be made"
    ABSENT = "nothing is there"


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
            state = await self._namespace_state() if error.status in (403, 404) else _NamespaceState.OPEN
            if state is _NamespaceState.OPEN:
                raise
        else:
            self._refusal = ""
            return held
        if not self._seen[0] and state is _NamespaceState.ENDING:  # an unseen holder may have renewed just now
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

    async def _namespace_state(self) -> _NamespaceState:
        """Look at the namespace; OPEN if that is not allowed, so that the Lease is tried again."""
        selection = {"fieldSelector": f"metadata.name={self.lease.namespace}"}
        try:
            found = msgspec.json.decode(await self.client.get("/api/v1/namespaces", selection))
        except (ApiError, msgspec.MsgspecError):
            return _NamespaceState.OPEN
        if not found["items"]:
            return _NamespaceState.ABSENT
        is_ending = "deletionTimestamp" in found["items"][0]["metadata"]
        return _NamespaceState.ENDING if is_ending else _NamespaceState.OPEN


async def while_claiming(
    claims: Sequence[LeaseClaim], patience: float, work: Callable[[], Coroutine[Any, Any, Result]]
) -> Result:
    """Do the work while the Leases are held, and release them; it stops at once when one is lost.

    ClusterError says why a Lease cannot be acquired within `patience` seconds.
    """
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(claim.run()) for claim in claims]
    try:
        await _wait_for_leases(claims, patience)
        working = asyncio.create_task(work())
        tasks.append(working)
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if working in done:
            return working.result()
        raise ClusterError("the lease was lost in the middle; run it again")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for claim in claims:
            await claim.release()


async def _wait_for_leases(claims: Sequence[LeaseClaim], patience: float) -> None:
    try:
        async with asyncio.timeout(patience):
            for claim in claims:
                await claim.leading.wait()
    except TimeoutError:
        hindrances = filter(None, (claim.hindrance() for claim in claims))
        held = next(claim for claim in claims if not claim.leading.is_set())
        running = (
            f"a controller is running: Lease {held.lease.namespace}/{held.lease.name} is held by "
            f"{held.holder or 'another holder'}; stop it first (scale it to 0)"
        )
        raise ClusterError(next(hindrances, running)) from None


def _clock() -> float:
    return asyncio.get_running_loop().time()
