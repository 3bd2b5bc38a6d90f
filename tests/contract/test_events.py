"""The news of a migration as a cluster keeps them: found on every object that they are about, and told once."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rescheduler.kube.client import ApiClient
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.migration.events import events_for
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.plan import Method
from tests.support.both_clusters import Space, name_of
from tests.support.manifests import deployment
from tests.support.pod_migrations import migration_spec, pod_migration


def migration(space: Space, pod: Json, source: str) -> tuple[PodMigration, PodMigration]:
    """Before and after it ends."""
    order = migration_spec(name_of(pod))
    ended = MigrationStatus(
        Phase.COMPLETED,
        "",
        Method.HANDOFF,
        pod["metadata"]["uid"],
        source,
        "elsewhere",
        workload=ObjectReference("Deployment", "web", space.get("Deployment", "web")["metadata"]["uid"]),
        attempts=1,
        message="a very long story: " + "ü" * 2000,
    )
    before = pod_migration(space.name, "m", order, uid=f"uid-in-{space.name}")
    return before, pod_migration(space.name, "m", order, ended, before.uid)


def ours(events: list[Json], migration: PodMigration) -> dict[tuple[str, str], Json]:
    """By the kind and name of what they are about."""
    found = [each for each in events if each.get("related", {}).get("namespace") == migration.namespace]
    assert {each["reason"] for each in found} <= {"MigrationCompleted"}
    assert len({(each["regarding"]["kind"], each["regarding"]["name"]) for each in found}) == len(found)
    return {(each["regarding"]["kind"], each["regarding"]["name"]): each for each in found}


def rolled_out(space: Space) -> Json:
    """The pod of a Deployment."""
    space.create(deployment("web", 1))
    space.rolled_out("web")
    (pod,) = space.pods("web")
    return pod


async def tell(space: Space, identity: str, before: PodMigration, after: PodMigration) -> None:
    connection = load_connection(KubeconfigOptions(Path(space.cluster.kubeconfig), None), {})
    async with ApiClient(connection) as client:
        await EventRecorder(client, identity, lambda: 1_800_000_000.0).record(events_for(before, after))


async def test_news_are_found_on_every_object_and_told_once(space: Space, nodes: list[str]) -> None:
    pod, source = rolled_out(space), nodes[0]
    before, after = migration(space, pod, source)
    with capture_logs() as logs:
        for identity in ("first", "second"):
            await tell(space, identity, before, after)
    path = "/apis/events.k8s.io/v1/namespaces/{}/events"
    here = ours(space.api.get(path.format(space.name))["items"], after)
    assert set(here) == {("Pod", name_of(pod)), ("PodMigration", "m"), ("Deployment", "web")}
    assert {each["reportingInstance"] for each in here.values()} == {"first"}
    on_nodes = ours(space.api.get(path.format("default"))["items"], after)
    assert set(on_nodes) == {("Node", source), ("Node", "elsewhere")}
    assert logs == []


@pytest.mark.cluster
async def test_kubectl_shows_them_with_the_objects(space: Space, nodes: list[str]) -> None:
    pod, source = rolled_out(space), nodes[0]
    await tell(space, "first", *migration(space, pod, source))
    shown = space.cluster.kubectl("get", "events", "-n", space.name, "--field-selector", "reason=MigrationCompleted")
    assert f"pod/{name_of(pod)}" in shown
    assert "deployment/web" in shown
    for kind, name in (("pod", name_of(pod)), ("deployment", "web"), ("node", source)):
        described = space.cluster.kubectl("describe", kind, name, "-n", space.name)
        assert "MigrationCompleted" in described, kind
