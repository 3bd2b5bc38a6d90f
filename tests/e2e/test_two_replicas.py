"""Scenario: two replicas; the leader is frozen in the middle of its moves, past its lease, and goes on much later."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.audit_log import Entry, entries
from tests.support.both_clusters import ClusterUnderTest, Space, name_of, nodes_fixture
from tests.support.controller_process import Controller, write_config
from tests.support.manifests import deployment, simulated
from tests.support.pod_record import recorded
from tests.support.skewed_cluster import active, migrations
from tests.testbed.cluster import ControlPlane
from tests.testbed.processes import until

LEASE = "kube-rescheduler"
MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
APPS, REPLICAS = 6, 3
FIRST, SECOND = "replica-a", "replica-b"
LEASE_TIMES = {"leaseDuration": "8s", "renewDeadline": "6s", "retryPeriod": "500ms"}


nodes = nodes_fixture(3, prefix="two")


@pytest.fixture
def full_node(space: Space, nodes: list[str]) -> str:
    """A node with all pods of six Deployments, which take so long to start that there is a middle to be seen."""
    node, *others = nodes
    with space.cordoned(others[0]), space.cordoned(others[1]):
        for number in range(APPS):
            space.create(simulated(deployment(f"web-{number}", REPLICAS), starts_in="4"))
        for number in range(APPS):
            space.rolled_out(f"web-{number}")
    return node


def kubeconfig(cluster: ClusterUnderTest, user: str) -> Path:
    """Each replica is a user of its own, so that the audit log shows the writer of each request."""
    return cluster.kubeconfig_as(user, "system:masters") if isinstance(cluster, ControlPlane) else cluster.kubeconfig


def holder(space: Space) -> str:
    lease = space.find("Lease", LEASE)
    return str(lease["spec"].get("holderIdentity") or "") if lease else ""


def in_the_middle(space: Space) -> bool:
    """Several moves have begun, and many have not."""
    found = migrations(space)
    begun = [each for each in active(found) if each.get("status", {}).get("phase") == "InProgress"]
    return len(begun) >= 2 and len(active(found)) >= APPS


def over(space: Space) -> int:
    return len(migrations(space)) - len(active(migrations(space)))


def test_a_leader_that_was_frozen_past_its_lease_writes_nothing_more(
    space: Space, full_node: str, tmp_path: Path
) -> None:
    cluster, api = space.cluster, space.api
    election = {**LEASE_TIMES, "resourceNamespace": space.name}
    fields = {"enabledStrategies": ["NodeMaintenance"], "leaderElection": election}
    config = write_config(tmp_path / "config.yaml", space.name, **fields)
    with (
        recorded(space) as record,
        Controller(kubeconfig(cluster, FIRST), config, tmp_path / "first.log") as first,
    ):
        until("the first replica leads", lambda: holder(space), [first])
        leader = holder(space)
        with Controller(kubeconfig(cluster, SECOND), config, tmp_path / "second.log") as second:
            api.patch(f"/api/v1/nodes/{full_node}", {"metadata": {"labels": {MAINTENANCE: "true"}}})
            until("moves are under way", lambda: in_the_middle(space), [first, second])
            assert holder(space) == leader
            first.freeze()
            until("the second replica leads", lambda: holder(space) not in ("", leader), [second])
            done = over(space)
            until("the second replica goes on with the moves", lambda: over(space) > done, [second])
            first.thaw()
            assert first.ended() != 0
            until("all moves are over", lambda: not active(migrations(space)), [second], 120)
            assert second.stop() == 0
    assert {each["status"]["phase"] for each in migrations(space)} == {"Completed"}
    for number in range(APPS):
        space.exactly(f"web-{number}", REPLICAS, "Running")
        assert record.lowest()[f"web-{number}"].ready == REPLICAS
    assert_orders_are_the_leaders(space, second)
    if isinstance(cluster, ControlPlane):
        assert_never_both(entries(cluster.audit_log, FIRST), entries(cluster.audit_log, SECOND))


def assert_orders_are_the_leaders(space: Space, second: Controller) -> None:
    """Whatever was ordered after the second one took the lease, it has ordered itself."""
    acquired = space.get("Lease", LEASE)["spec"]["acquireTime"]
    ordered = {each["migration"] for each in second.said() if each["msg"] == "migration created"}
    for each in migrations(space):
        if each["metadata"]["creationTimestamp"] > acquired:
            assert f"{space.name}/{name_of(each)}" in ordered


def assert_never_both(first: list[Entry], second: list[Entry]) -> None:
    """By the API server's own record: the first writes until the second leads, and then it asks for nothing more."""
    renewals = [each for each in second if each.right.resource == "leases" and each.is_write and each.code < 300]
    takeover = min(each.time for each in renewals)
    of_second = [each for each in second if each.is_write and each.time < takeover]
    assert not [each for each in of_second if each.right.resource == "podmigrations/status"], of_second
    assert not [each for each in of_second if each.right.group in ("", "apps", "policy")], of_second
    assert [each for each in first if each.is_write and each.code < 300]
    assert not [each for each in first if each.is_write and each.answered > takeover]
