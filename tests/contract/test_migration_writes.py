"""MigrationClient and CommandSender against an API server: what they answer to a conflict."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import Impersonation
from rescheduler.kube.errors import ApiError
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.migrations import MigrationClient, StaleError
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration import commands
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.plan import Method
from tests.support.both_clusters import Space
from tests.support.manifests import budget, pod
from tests.support.pod_migrations import migration_spec, pod_migration, replace

pytestmark = pytest.mark.usefixtures("kind")
Answer = TypeVar("Answer")


def asked(space: Space, ask: Callable[[ApiClient], Awaitable[Answer]]) -> Answer:
    options = KubeconfigOptions(space.cluster.kubeconfig, None, Impersonation("", ()))
    connection = load_connection(options, os.environ)

    async def run() -> Answer:
        async with ApiClient(connection) as client:
            return await ask(client)

    return asyncio.run(run())


def ordered(space: Space) -> PodMigration:
    return pod_migration(
        space.name, "m", migration_spec("web", target="n", method=Method.COPY, timeout=90.0, reason="why")
    )


def test_a_migration_is_read_as_it_was_stored(space: Space) -> None:
    progress = MigrationStatus(
        Phase.IN_PROGRESS,
        "Evict",
        Method.EVICT,
        "uid",
        "a",
        "b",
        ObjectReference("ReplicaSet", "web-1", "r"),
        ObjectReference("Deployment", "web", "d"),
        ObjectReference("Pod", "web-2"),
        ("x", "y"),
        2,
        (Method.HANDOFF,),
        "waits",
        start_time=1_800_000_000.0,
        step_time=1_800_000_001.0,
        retry_time=1_800_000_002.0,
    )

    async def ask(client: ApiClient) -> tuple[PodMigration, PodMigration | None]:
        migration_client = MigrationClient(client)
        added = await migration_client.create(ordered(space))
        assert await migration_client.create(ordered(space)) == added
        stored = await migration_client.update_status(added, progress)
        return stored, await migration_client.read(space.name, "m")

    stored, read = asked(space, ask)
    assert read == stored
    assert (read.spec, replace(read.status, observed_generation=0, conditions=())) == (ordered(space).spec, progress)


def test_progress_is_stored_only_over_what_was_read(space: Space) -> None:
    async def ask(client: ApiClient) -> None:
        migration_client = MigrationClient(client)
        first = await migration_client.create(ordered(space))
        await migration_client.update_status(first, replace(first.status, message="another leader was here"))
        with pytest.raises(StaleError):
            await migration_client.update_status(first, replace(first.status, message="too late"))
        await migration_client.remove(first)
        with pytest.raises(StaleError):
            await migration_client.update_status(first, replace(first.status, message="it is gone"))
        second = await migration_client.create(ordered(space))
        assert second.uid != first.uid
        with pytest.raises(StaleError):
            await migration_client.update_status(first, replace(first.status, message="not this one"))

    asked(space, ask)


def test_a_write_never_hits_another_object_of_the_same_name(space: Space, nodes: list[str]) -> None:
    there = space.runs(pod("web"))
    other = there | {"metadata": there["metadata"] | {"uid": "00000000-0000-0000-0000-000000000000"}}
    patch = commands.patch(other, {"metadata": {"labels": {"a": "b"}}}, "try")

    async def ask(client: ApiClient) -> list[int | None]:
        writer = CommandSender(client)
        answers = [await writer.carry_out(each) for each in (patch, commands.delete(other, "try"))]
        return [refused.code if refused else None for refused in answers]

    codes = asked(space, ask)
    assert codes == [422, 409]
    assert space.get("Pod", "web")["metadata"]["uid"] == there["metadata"]["uid"]


def test_an_object_that_somebody_changed_is_not_deleted_as_seen(space: Space, nodes: list[str]) -> None:
    there = space.runs(pod("web"))
    space.patch("Pod", "web", {"metadata": {"labels": {"a": "b"}}})

    async def ask(client: ApiClient) -> int | None:
        refused = await CommandSender(client).carry_out(commands.delete(there, "try", as_seen=True))
        return refused.code if refused else None

    assert asked(space, ask) == 409
    assert "deletionTimestamp" not in space.get("Pod", "web")["metadata"]


def test_a_dry_writer_changes_nothing(space: Space, nodes: list[str]) -> None:
    there = space.runs(pod("web"))
    made = pod("another")
    made["metadata"]["namespace"] = space.name
    tried = (
        commands.create(made, "try"),
        commands.patch(there, {"metadata": {"labels": {"a": "b"}}}, "try"),
        commands.evict(there, 0, "try"),
        commands.delete(there, "try"),
    )

    async def ask(client: ApiClient) -> list[object]:
        return [await CommandSender(client, dry=True).carry_out(each) for each in tried]

    assert asked(space, ask) == [None] * 4
    still = space.get("Pod", "web")["metadata"]
    assert (still["uid"], still["labels"]) == (there["metadata"]["uid"], there["metadata"]["labels"])
    assert "deletionTimestamp" not in still
    assert space.find("Pod", "another") is None


def test_what_is_done_already_is_no_refusal(space: Space, nodes: list[str]) -> None:
    there = space.runs(pod("web"))
    space.delete("Pod", "web", gracePeriodSeconds=0)
    space.gone("Pod", "web")
    made = budget("web", "web", minAvailable=1)
    made["metadata"]["namespace"] = space.name
    again = commands.create(made, "try")

    async def ask(client: ApiClient) -> list[object]:
        tried = (commands.delete(there, "try"), commands.evict(there, 0, "try"), again, again)
        return [await CommandSender(client).carry_out(each) for each in tried]

    assert asked(space, ask) == [None] * 4


def test_a_failing_read_is_one_error_and_not_a_group_of_them(space: Space) -> None:
    nowhere = pod_migration("", "m", migration_spec("web"))

    async def ask(client: ApiClient) -> None:
        with pytest.raises(ApiError):
            await MigrationObserver(client).look(replace(nowhere, namespace="a/b"))

    asked(space, ask)
