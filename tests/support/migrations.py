"""Migrations on a cluster under test: one that is driven to its end, or killed on the way, and an auditor for after.

Contract tests use it with the product's own client, observer, writer and lifecycle; what the runtime will decide (may
it begin, by which method) is decided here in the simplest way. The auditor does not depend on how a move is made: it
compares all objects of a namespace with what they were.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import Impersonation
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.migrations import MigrationClient
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration.commands import Command
from rescheduler.migration.crd import POD_MIGRATION
from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.migration.observation import (
    FailedCommand,
    Observation,
    ObservedPart,
    SteeringMethod,
    StepContext,
    controller_of,
)
from rescheduler.migration.settings import MigrationSettings
from rescheduler.migration.steps.common import rollout_reason
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationSpec, MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.plan import Method
from rescheduler.runtime.executor import MigrationExecutor
from rescheduler.runtime.starting.gate import StartDecision
from tests.support.both_clusters import PATHS, ClusterUnderTest, Space, condition, is_ready, name_of
from tests.support.pod_migrations import pod_migration, replace
from tests.testbed.api import ApiError
from tests.testbed.namespaces import LOOKED_FOR, NOT_SERVED
from tests.testbed.processes import until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MIGRATIONS = "/apis/rescheduler.io/v1alpha1/namespaces/{}/podmigrations"
AUDITED = ("Deployment", "ReplicaSet", "StatefulSet", "PodDisruptionBudget", "Service", "Pod")
QUICK = MigrationSettings(eviction_grace_period=1.0, retry_delay=0.0, max_retry_delay=0.0)
TRACE = frozenset(
    {labels.MIGRATION_ID, labels.MIGRATION_STATUS, labels.MIGRATED_FROM, labels.MIGRATION_REASON}
    | {labels.MIGRATION_TIME, labels.ORIGINAL_POD, labels.ORIGINAL_POD_NAME}
)
_ZONES = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
_LONGEST = 180.0
_LOOK_AGAIN = 0.05  # seconds until a migration that waits for others is looked at again
_LEFT = (*LOOKED_FOR, PATHS["Pod"], PATHS["PodDisruptionBudget"])


class Killed(BaseException):
    """The process is gone, as by SIGKILL: no clean-up runs."""


@dataclass
class Fuse:
    """Ends the process right after its n-th write, to the PodMigration or to the cluster, or after a named one."""

    writes: int | None = None
    after: str = ""
    written: list[str] = field(default_factory=list)

    def burn(self, what: str) -> None:
        self.written.append(what)
        if what == self.after or (self.writes is not None and len(self.written) >= self.writes):
            raise Killed(f"right after {what}")


class _FusedClient:
    def __init__(self, migration_client: MigrationClient, fuse: Fuse) -> None:
        self._migration_client, self._fuse = migration_client, fuse

    async def read(self, namespace: str, name: str) -> PodMigration | None:
        return await self._migration_client.read(namespace, name)

    async def update_status(self, migration: PodMigration, progress: MigrationStatus) -> PodMigration:
        stored = await self._migration_client.update_status(migration, progress)
        self._fuse.burn(f"storing step {progress.step or progress.phase}")
        return stored


class _FusedWriter:
    def __init__(self, writer: CommandSender, fuse: Fuse) -> None:
        self._writer, self._fuse = writer, fuse

    async def carry_out(self, command: Command) -> FailedCommand | None:
        refused = await self._writer.carry_out(command)
        self._fuse.burn(str(command))
        return refused


@dataclass(frozen=True)
class Drive:
    """One process that works on a migration: how it goes about it, and when it is killed."""

    settings: MigrationSettings = QUICK
    fuse: Fuse = field(default_factory=Fuse)
    until: Callable[[PodMigration], bool] = lambda migration: migration.status.over
    """When the process has done enough."""
    members: tuple[str, ...] = ()
    """The migrations of the proposal, if it is one of several."""
    steered: SteeringMethod = SteeringMethod.TEMPLATE
    """How new pods are led."""
    rivals: tuple[PodMigration, ...] = ()
    """Other migrations of the same controller, as they are known."""


class _Told:
    """An observer with what the runtime would add."""

    def __init__(self, observer: MigrationObserver, drive: Drive) -> None:
        self._observer, self._drive = observer, drive

    async def look(self, migration: PodMigration, parts: frozenset[ObservedPart]) -> Observation:
        seen = await self._observer.look(migration, parts)
        return replace(seen, steered=self._drive.steered, rivals=self._drive.rivals)


class Moves:
    """The migrations of one namespace."""

    def __init__(self, space: Space) -> None:
        self.space = space
        options = KubeconfigOptions(space.cluster.kubeconfig, None, Impersonation("", ()))
        self._connection = load_connection(options, os.environ)

    def order(self, name: str, order: MigrationSpec) -> PodMigration:
        """A new migration, not begun."""

        async def add() -> PodMigration:
            async with ApiClient(self._connection) as client:
                return await MigrationClient(client).create(pod_migration(self.space.name, name, order))

        return asyncio.run(add())

    def drive(self, name: str, drive: Drive | None = None) -> PodMigration:
        """Work on a migration until it is over; if the fuse burns, Killed comes out."""
        return asyncio.run(self._drive(name, drive or Drive()))

    def late(self, name: str) -> None:
        """Look at it as the runtime does some time after its end, until there is nothing to do.

        By then Deployments' controllers have copied what they copy: not before that is there nothing to come.
        """
        seen_by_controllers(self.space)

        async def look() -> None:
            async with ApiClient(self._connection) as client:
                executor = _executor(client, Drive())
                key: tuple[str, str] = (self.space.name, name)
                wait: float | None = 0.0
                while wait is not None:
                    await asyncio.sleep(min(wait, _LOOK_AGAIN))
                    wait = await executor.execute(key, lambda: time.time() + 60, _alone)

        asyncio.run(look())

    def read(self, name: str) -> PodMigration:
        async def read() -> PodMigration:
            async with ApiClient(self._connection) as client:
                found = await MigrationClient(client).read(self.space.name, name)
                assert found is not None
                return found

        return asyncio.run(read())

    async def _drive(self, name: str, drive: Drive) -> PodMigration:
        deadline = time.monotonic() + _LONGEST
        async with ApiClient(self._connection) as client:
            migration_client, executor, written = MigrationClient(client), _executor(client, drive), 0
            while True:
                others = [each for each in drive.members if each != name]
                known = [await migration_client.read(self.space.name, each) for each in others]
                members = tuple(each for each in known if each is not None)
                wait = await executor.execute((self.space.name, name), time.time, _these(members))
                found = await migration_client.read(self.space.name, name)
                assert found is not None
                if drive.until(found):
                    return found
                assert time.monotonic() < deadline, f"not over after {_LONGEST} s: {found.status}"
                idle = len(drive.fuse.written) == written
                written = len(drive.fuse.written)
                await asyncio.sleep(_LOOK_AGAIN if idle else min(wait or 0.0, _LOOK_AGAIN))


def wait_until_undisturbed(cluster: ClusterUnderTest) -> None:
    """Wait until nothing is left of earlier tests: their namespaces take a while, and others act on what is in them.

    For tests that count what is done in the whole cluster, or that stop a process after so many writes.
    """

    def cleared() -> bool:
        found = cluster.api.get("/api/v1/namespaces")["items"]
        leaving = {name_of(each) for each in found if "deletionTimestamp" in each["metadata"]}
        left = {(path, namespace) for path in _LEFT if leaving for namespace in leaving & _with_objects(cluster, path)}
        for path, namespace in left:
            cluster.api.delete(path.format(namespace))
        return not left

    until("what earlier tests left is gone", cleared, seconds=_LONGEST)


def _with_objects(cluster: ClusterUnderTest, path: str) -> set[str]:
    """The namespaces that have objects of a kind; none where the kind is not served."""
    try:
        found = cluster.api.get(path.replace("/namespaces/{}", ""))["items"]
    except ApiError as error:
        if error.code not in NOT_SERVED:
            raise
        return set()
    return {str(each["metadata"]["namespace"]) for each in found}


@contextlib.contextmanager
def pod_migrations(cluster: ClusterUnderTest) -> Iterator[None]:
    """The kind PodMigration, served until the end of the block."""
    cluster.api.post(DEFINITIONS, POD_MIGRATION)
    path = f"{DEFINITIONS}/{POD_MIGRATION['metadata']['name']}"

    def is_served() -> bool:
        if condition(cluster.api.get(path), "Established").get("status") != "True":
            return False
        try:
            cluster.api.get(MIGRATIONS.format("default"))
        except ApiError as error:
            if error.code not in NOT_SERVED:
                raise
            return False
        return True

    def exists() -> bool:
        found = cluster.api.get(DEFINITIONS)["items"]
        return any(name_of(each) == name_of(POD_MIGRATION) for each in found)

    until("PodMigration is served", is_served)
    try:
        yield
    finally:
        cluster.api.delete(path)
        until("PodMigration is gone", lambda: not exists())


async def admit(scene: StepContext) -> StartDecision:
    """By the method that is ordered, or the next one that was not tried; not during a rollout."""
    pod, migration = scene.original, scene.migration
    if pod is None:
        return StartDecision(None, "the pod is gone", never=True)
    if scene.seen.controller is not None and (changing := rollout_reason(scene)):
        return StartDecision(None, changing)
    owner = controller_of(pod)
    fitting = (Method.COPY,) if owner is None else (Method.HANDOFF, Method.EVICT)
    wanted = [
        each for each in (migration.spec.fixed_method, *fitting) if each and each not in migration.status.tried_methods
    ]
    if not wanted:
        return StartDecision(None, migration.status.message, never=True)
    begun = replace(
        migration.status,
        method=wanted[0],
        pod_uid=pod["metadata"]["uid"],
        source=pod["spec"]["nodeName"],
        target=migration.spec.target,
        controller=ObjectReference(owner["kind"], owner["name"], owner["uid"]) if owner else None,
    )
    return StartDecision(begun)


Inventory = Mapping[tuple[str, str], Json]


def inventory(space: Space) -> Inventory:
    """All that is in the namespace, less what its controllers write by themselves; pods that are leaving are gone."""
    return {
        (kind, name_of(each)): _essence(each)
        for kind in AUDITED
        for each in space.list(kind)
        if "deletionTimestamp" not in each["metadata"]
    }


def unseen(space: Space) -> list[str]:
    """The Deployments whose controller has yet to see what they are now; their notes count as a new generation, too.

    Until it has, it may write its own notes, and copy others to a ReplicaSet that are not on the Deployment any more.
    """
    return [
        name_of(each)
        for each in space.list("Deployment")
        if each.get("status", {}).get("observedGeneration") != each["metadata"]["generation"]
    ]


def seen_by_controllers(space: Space) -> None:
    until("controllers have seen all Deployments", lambda: not unseen(space))


def wait_until_settled(space: Space, pods: int) -> Inventory:
    """The inventory, as soon as so many pods are there, all Ready, none is leaving, and controllers know all of it."""

    def is_settled() -> Inventory | None:
        found = space.list("Pod")
        ready = len(found) == pods and all(is_ready(pod) for pod in found)
        return inventory(space) if ready and not unseen(space) else None

    return until(f"{pods} pods are Ready and no other is there", is_settled)


def audit(before: Inventory, after: Inventory, migration: PodMigration) -> None:
    """Nothing lost, nothing left: all is as it was, but for a replacement that took the original's place."""
    original = ("Pod", migration.spec.pod.name)
    unchanged = {key: body for key, body in before.items() if key != original}
    changed = {key: (body, after.get(key)) for key, body in unchanged.items() if after.get(key) != body}
    assert not changed, f"changed or lost: {changed}"
    new = {key: body for key, body in after.items() if key not in unchanged}
    if original in new and new[original]["uid"] == before[original]["uid"]:
        assert migration.status.phase is Phase.FAILED, "the original is still there"
        assert new == {original: before[original]}, "rolled back, and yet not as before"
        return
    assert len(new) == 1, f"one pod must have taken the original's place: {sorted(new)}"
    ((kind, name),) = new
    assert kind == "Pod"
    assert likeness(new[kind, name]) == likeness(before[original]), "the replacement is another kind of pod"
    status = new[kind, name]["labels"].get(labels.MIGRATION_STATUS)
    assert status not in labels.RUNNING_MIGRATIONS, f"{name} still says {status}"


def fewest_ready(start: list[Json], events: list[Json]) -> int:
    """The least number of Ready pods there was, replayed from a watch."""
    pods = {name_of(pod): is_ready(pod) for pod in start}
    counts = [sum(pods.values())]
    for event in events:
        pods[name_of(event["object"])] = event["type"] != "DELETED" and is_ready(event["object"])
        counts.append(sum(pods.values()))
    return min(counts)


def _these(members: tuple[PodMigration, ...]) -> Callable[[PodMigration], tuple[PodMigration, ...]]:
    return lambda _: members


def _alone(_: PodMigration) -> tuple[PodMigration, ...]:
    return ()


def _executor(client: ApiClient, drive: Drive) -> MigrationExecutor:
    migration_client, writer = (
        _FusedClient(MigrationClient(client), drive.fuse),
        _FusedWriter(CommandSender(client), drive.fuse),
    )
    observer = cast("MigrationObserver", _Told(MigrationObserver(client), drive))
    return MigrationExecutor(
        cast("MigrationClient", migration_client),
        observer,
        cast("CommandSender", writer),
        lambda: Lifecycle(drive.settings),
        admit,
    )


def _essence(body: Json) -> Json:
    metadata = body["metadata"]
    kept: Json = {key: metadata.get(key) or {} for key in ("labels", "annotations", "ownerReferences", "finalizers")}
    return kept | {"uid": metadata["uid"], "spec": body.get("spec")}


def likeness(pod: Json) -> Any:
    """What of a pod must be the same in its replacement."""
    spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "affinity", "hostname")}
    tokens = {each["name"] for each in spec.get("volumes", ()) if each["name"].startswith("kube-api-access-")}
    spec["volumes"] = [each for each in spec.get("volumes", ()) if each["name"] not in tokens]
    spec["containers"] = [
        each | {"volumeMounts": [mount for mount in each.get("volumeMounts", ()) if mount["name"] not in tokens]}
        for each in spec["containers"]
    ]
    kept = {key: value for key, value in pod["labels"].items() if key not in TRACE | _ZONES}
    notes = {key: value for key, value in pod["annotations"].items() if key not in TRACE}
    return kept, notes, pod["ownerReferences"], spec
