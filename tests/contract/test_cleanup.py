"""`rescheduler cleanup` on a cluster: whatever was under way, everything of ours is undone, and nothing else."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator

import pytest

from rescheduler.app.uninstall import LeaseClaim, while_claiming
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.lease import LeaseName, LeaseTimes
from rescheduler.migration.crd import POD_MIGRATION
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationSpec, MigrationStatus, Phase
from rescheduler.model.plan import Method
from tests.support.both_clusters import ClusterUnderTest, Space, name_of
from tests.support.controller_process import PROGRAM
from tests.support.manifests import daemon_set, deployment, lease, pod, stateful_set
from tests.support.migrations import (
    DEFINITIONS,
    MIGRATIONS,
    Drive,
    Fuse,
    Killed,
    Moves,
    audit,
    inventory,
    pod_migrations,
    seen_by_controllers,
    wait_until_settled,
    wait_until_undisturbed,
)
from tests.support.pod_migrations import migration_spec, pod_migration
from tests.support.shell import clean_up
from tests.testbed.processes import until

LEASES = "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Dkube-rescheduler"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
TIMES = LeaseTimes(duration=600.0, renew_deadline=300.0, retry_period=0.1)
CASES = {
    "handoff": (Method.HANDOFF, deployment("web", 2), ("CreateCopy", "Ungate", "Cheapen", "HandOver")),
    "evict": (Method.EVICT, deployment("web", 2), ("Protect", "Prefer", "Evict", "MarkRebuilt")),
    "evict of a StatefulSet": (Method.EVICT, stateful_set("web", 2), ("Evict", "MarkRebuilt")),
    "copy": (Method.COPY, pod("web", terminationGracePeriodSeconds=1), ("Nominate", "EvictOriginal")),
}


@pytest.fixture(autouse=True)
def kind(cluster: ClusterUnderTest) -> Iterator[None]:
    """PodMigration is served, and of other tests nothing is left: the command takes every Lease, and undoes all."""
    wait_until_undisturbed(cluster)
    with pod_migrations(cluster):
        yield


def begun(space: Space, nodes: list[str], order: MigrationSpec, step: str) -> Moves:
    """A move that was left in the middle of this step."""
    moves, original = Moves(space), space.pods("web")[0]
    target = next(node for node in nodes if node != original["spec"]["nodeName"])
    moves.order("m", migration_spec(name_of(original), target=target, method=order.fixed_method))
    with pytest.raises(Killed):
        moves.drive("m", Drive(fuse=Fuse(after=f"storing step {step}")))
    seen_by_controllers(space)
    return moves


def migrations(space: Space) -> list[Json]:
    found: list[Json] = space.api.get(MIGRATIONS.format(space.name))["items"]
    return found


def test_a_move_that_is_made_is_finished(space: Space, nodes: list[str]) -> None:
    space.create(deployment("web", 2))
    wait_until_settled(space, 2)
    begun(space, nodes, migration_spec("", method=Method.HANDOFF), "Finish")
    ran = clean_up(space.cluster, "--yes")
    assert ran.code == 0, ran.said
    assert f"finished migration {space.name}/m" in ran.out
    wait_until_settled(space, 2)
    assert not [key for pod in space.pods("web") for key in ours_on(pod)]


def test_the_trace_of_moves_that_were_over_long_ago_goes_and_what_people_wrote_stays(
    space: Space, nodes: list[str]
) -> None:
    theirs = {labels.RESCHEDULING: "disabled", "team": "shop"}
    trace = {labels.MIGRATION_ID: "old", labels.MIGRATION_STATUS: "completed", labels.MIGRATED_FROM: "node-9"}
    body = pod("lone")
    body["metadata"] |= {
        "labels": theirs | trace | {labels.MIGRATION_REASON: "LoadBalancing"},
        "annotations": {labels.ORIGINAL_POD: "1-2", labels.ORIGINAL_POD_NAME: "x", labels.EVICTION_COST: "5"},
    }
    space.create(body)
    planned = clean_up(space.cluster, "--dry-run")
    assert f"patch Pod {space.name}/lone: take the trace of its move off (dry run)" in planned.out
    assert labels.MIGRATION_ID in space.get("Pod", "lone")["metadata"]["labels"]
    ran = clean_up(space.cluster, "--yes")
    assert ran.code == 0, ran.said
    metadata = space.get("Pod", "lone")["metadata"]
    left = {key: value for key, value in metadata["labels"].items() if not key.startswith("topology.")}
    assert (left, metadata["annotations"]) == (theirs, {labels.EVICTION_COST: "5"})


def ours_on(body: Json) -> list[str]:
    """Labels and annotations of ours."""
    metadata = body["metadata"]
    keys = [*(metadata.get("labels") or {}), *(metadata.get("annotations") or {})]
    return [key for key in keys if key.startswith((labels.PREFIX, labels.OWN_PREFIX))]


def test_what_is_in_another_namespace_is_found_also_where_there_is_no_lease(space: Space) -> None:
    """Leader election may be off, and somebody may have deleted the Lease."""
    ours = {"labels": {labels.MANAGED_BY: labels.MANAGER}}
    secret, state = f"/api/v1/namespaces/{space.name}/secrets", f"/api/v1/namespaces/{space.name}/configmaps"
    space.api.post(secret, {"metadata": ours | {"name": "kube-rescheduler-webhook"}})
    space.api.post(state, {"metadata": ours | {"name": "kube-rescheduler-state"}, "data": {"paused": "false"}})
    for flags, mark in ((["--dry-run"], " (dry run)"), (["--yes"], "")):
        ran = clean_up(space.cluster, *flags)
        assert ran.code == 0, ran.said
        told = [line.partition(":")[0] + mark for line in ran.out.splitlines()]
        assert f"delete Secret {space.name}/kube-rescheduler-webhook{mark}" in told
        assert f"delete ConfigMap {space.name}/kube-rescheduler-state{mark}" in told
    assert space.api.get(secret)["items"] == []
    assert [name_of(each) for each in space.api.get(state)["items"]] in ([], ["kube-root-ca.crt"])


def test_a_dry_run_names_the_lease_and_the_kind_too(space: Space) -> None:
    space.create(lease("kube-rescheduler", leaseDurationSeconds=1))
    ran = clean_up(space.cluster, "--dry-run", "--crds")
    assert f"delete Lease {space.name}/kube-rescheduler: no controller runs any more (dry run)" in ran.out
    kind = name_of(POD_MIGRATION)
    assert f"delete CustomResourceDefinition {kind}" in ran.out
    assert f"delete CustomResourceDefinition {kind}" not in clean_up(space.cluster, "--dry-run").out


@pytest.mark.parametrize("case", list(CASES))
def test_moves_under_way_are_rolled_back_or_finished_and_forgotten(space: Space, nodes: list[str], case: str) -> None:
    method, workload, steps = CASES[case]
    space.create(workload)
    pods = 1 if method is Method.COPY else 2
    for step in steps:
        before = wait_until_settled(space, pods)
        original = name_of(space.pods("web")[0])
        begun(space, nodes, migration_spec("", method=method), step)
        ran = clean_up(space.cluster, "--yes")
        assert ran.code == 0, ran.said
        assert f" migration {space.name}/m\n" in ran.out
        assert migrations(space) == []
        ended = pod_migration(space.name, "m", migration_spec(original), MigrationStatus(phase=Phase.FAILED))
        audit(before, wait_until_settled(space, pods), ended)


def test_everything_of_ours_goes_and_a_second_run_finds_nothing(space: Space, nodes: list[str]) -> None:
    space.create(deployment("web", 2))
    before = wait_until_settled(space, 2)
    begun(space, nodes, migration_spec("", method=Method.EVICT), "Evict")
    space.api.delete(f"{MIGRATIONS.format(space.name)}/m")
    Moves(space).order("waiting", migration_spec("web"))
    path = f"/api/v1/nodes/{nodes[0]}"
    label = {"labels": {labels.MAINTENANCE: "true"}, "annotations": {labels.CORDONED: "2026-01-01T00:00:00Z"}}
    space.api.patch(path, {"metadata": label, "spec": {"unschedulable": True}})
    ran = clean_up(space.cluster, "--yes")
    assert ran.code == 0, ran.said
    assert f"patch Deployment {space.name}/web: resume it" in ran.out
    assert f"patch Node {nodes[0]}: take our cordon down" in ran.out
    assert "1 migration removed" in ran.said
    node = space.api.get(path)
    assert not node["spec"].get("unschedulable")
    assert labels.CORDONED not in (node["metadata"].get("annotations") or {})
    space.api.patch(path, {"metadata": {"labels": {labels.MAINTENANCE: None}}})
    assert wait_until_settled(space, 2) == before
    assert space.api.get(LEASES)["items"] == []
    again = clean_up(space.cluster, "--yes")
    assert (again.code, again.out) == (0, "")
    assert "0 things put right, 0 migrations removed" in again.said


def test_records_of_failures_and_the_webhook_with_its_secret_go(space: Space, nodes: list[str]) -> None:
    noted = {labels.FAILURES: '{"count":1}', "team.example/owner": "shop"}
    for body in (deployment("web", 1), daemon_set("agent"), pod("lone")):
        body["metadata"]["annotations"] = dict(noted)
        space.create(body)
    space.rolled_out("web")
    assert labels.FAILURES in notes(space, "ReplicaSet"), "the Deployment's controller copies annotations"
    ours = {"name": "kube-rescheduler", "labels": {labels.MANAGED_BY: labels.MANAGER}}
    space.api.post(WEBHOOKS, {"metadata": ours, "webhooks": []})
    secret = {"metadata": ours | {"name": "kube-rescheduler-webhook"}}
    space.api.post("/api/v1/namespaces/default/secrets", secret)
    planned = clean_up(space.cluster, "--dry-run").out
    assert f"patch DaemonSet {space.name}/agent: forget where its pods failed (dry run)" in planned
    ran = clean_up(space.cluster, "--yes")
    assert ran.code == 0, ran.said
    for kind in ("Deployment", "ReplicaSet", "DaemonSet"):
        assert labels.FAILURES not in notes(space, kind), kind
        assert notes(space, kind)["team.example/owner"] == "shop"
    assert labels.FAILURES not in space.get("Pod", "lone")["metadata"]["annotations"]
    assert "delete MutatingWebhookConfiguration kube-rescheduler" in ran.out
    assert "delete Secret default/kube-rescheduler-webhook" in ran.out
    assert "kube-rescheduler" not in [name_of(each) for each in space.api.get(WEBHOOKS)["items"]]


def notes(space: Space, kind: str) -> dict[str, str]:
    (found,) = space.list(kind)
    annotations: dict[str, str] = found["metadata"].get("annotations", {})
    return annotations


def test_a_dry_run_tells_what_would_be_undone_and_changes_nothing(space: Space, nodes: list[str]) -> None:
    space.create(deployment("web", 2))
    wait_until_settled(space, 2)
    begun(space, nodes, migration_spec("", method=Method.EVICT), "Evict")
    before, kept = inventory(space), migrations(space)
    ran = clean_up(space.cluster, "--dry-run")
    assert ran.code == 0, ran.said
    assert f"roll back migration {space.name}/m (dry run)" in ran.out
    assert "take the preference out again (dry run)" in ran.out
    assert (inventory(space), migrations(space)) == (before, kept)


def test_nothing_is_undone_without_a_yes(space: Space, nodes: list[str]) -> None:
    Moves(space).order("waiting", migration_spec("web"))
    command = [str(PROGRAM), "cleanup", "--kubeconfig", str(space.cluster.kubeconfig)]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert ran.returncode == 130, "as a process of its own ends that nobody answers"
    assert len(migrations(space)) == 1


def test_the_kind_goes_if_that_is_wanted_and_a_cluster_without_it_is_clean(space: Space) -> None:
    Moves(space).order("waiting", migration_spec("web"))
    ran = clean_up(space.cluster, "--yes", "--crds")
    assert ran.code == 0, ran.said
    assert name_of(POD_MIGRATION) in ran.out

    def definitions() -> list[str]:
        return [name_of(each) for each in space.api.get(DEFINITIONS)["items"]]

    until("it is gone", lambda: name_of(POD_MIGRATION) not in definitions())  # with all that was of that kind
    again = clean_up(space.cluster, "--yes", "--crds")
    assert (again.code, again.out) == (0, "")
    assert name_of(POD_MIGRATION) not in definitions()
    space.api.post(DEFINITIONS, POD_MIGRATION)


def test_a_controller_that_runs_is_named_and_nothing_is_done(space: Space) -> None:
    space.create(lease("held", holderIdentity="controller-0", leaseDurationSeconds=3600))
    done: list[str] = []

    async def work() -> None:
        done.append("work")

    async def attempt() -> None:
        async with ApiClient(load_connection(KubeconfigOptions(space.cluster.kubeconfig, None), os.environ)) as client:
            election = LeaseClaim(client, LeaseName(space.name, "held", "cleanup"), TIMES)
            await while_claiming([election], 5.0, work)

    with pytest.raises(ClusterError, match=f"a controller is running: Lease {space.name}/held is held by controller-0"):
        asyncio.run(attempt())
    assert done == []


def test_the_lease_is_free_again_after_the_work(space: Space) -> None:
    async def attempt() -> None:
        async with ApiClient(load_connection(KubeconfigOptions(space.cluster.kubeconfig, None), os.environ)) as client:
            election = LeaseClaim(client, LeaseName(space.name, "free", "cleanup"), TIMES)

            async def work() -> str:
                return election.holder

            assert await while_claiming([election], 30.0, work) == "cleanup"

    asyncio.run(attempt())
    assert not space.get("Lease", "free")["spec"].get("holderIdentity")


def test_the_work_stops_at_once_when_the_lease_is_lost(space: Space) -> None:
    stopped: list[str] = []

    async def attempt() -> None:
        async with ApiClient(load_connection(KubeconfigOptions(space.cluster.kubeconfig, None), os.environ)) as client:
            election = LeaseClaim(client, LeaseName(space.name, "stolen", "cleanup"), TIMES)

            async def work() -> None:
                thief = {"spec": {"holderIdentity": "controller-0", "leaseDurationSeconds": 3600}}
                await asyncio.to_thread(space.patch, "Lease", "stolen", thief)
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    stopped.append("work")
                    raise

            await while_claiming([election], 30.0, work)

    with pytest.raises(ClusterError, match="the lease was lost in the middle"):
        asyncio.run(attempt())
    assert stopped == ["work"]
    assert space.get("Lease", "stolen")["spec"]["holderIdentity"] == "controller-0"
