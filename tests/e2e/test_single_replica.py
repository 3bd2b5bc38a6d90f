"""Scenario: the only pod of a Deployment, under a budget that allows no disruption, moves with no moment of none."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, name_of, nodes_fixture
from tests.support.controller_process import Controller, write_config
from tests.support.manifests import budget, deployment
from tests.support.migrations import MIGRATIONS
from tests.support.pod_record import Lowest, recorded
from tests.support.skewed_cluster import kind_is_served, migrations
from tests.testbed.processes import until

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"


nodes = nodes_fixture(2, prefix="single")


@pytest.fixture
def only_pod(space: Space, nodes: list[str]) -> Json:
    """Of a Deployment of one, which a budget wants to be there always."""
    space.create(budget("one", "one", minAvailable=1))
    space.create(deployment("one", 1))
    space.rolled_out("one")
    allows_none = "demands it"
    space.reaches(
        "PodDisruptionBudget", "one", allows_none, lambda pdb: pdb.get("status", {}).get("currentHealthy") == 1
    )
    (found,) = space.pods("one")
    return space.ready(name_of(found))


def other(nodes: list[str], pod: Json) -> str:
    (found,) = (name for name in nodes if name != pod["spec"]["nodeName"])
    return found


def wait_until_moved(space: Space, controller: Controller) -> Json:
    """The one migration there is, when it has come to its end, and the pod that stands alone then."""

    def over() -> Json | None:
        found = migrations(space)
        return found[0] if found and found[0].get("status", {}).get("completionTime") else None

    migration = until("the migration is over", over, [controller])
    assert migration["status"]["phase"] == "Completed", migration["status"]
    (left,) = space.exactly("one", 1, "Running")
    assert name_of(left) == migration["status"]["replacement"]["name"]
    assert left["spec"]["nodeName"] == migration["status"]["target"]
    return migration


def test_a_migration_made_by_hand_moves_the_only_replica(
    space: Space, nodes: list[str], only_pod: Json, tmp_path: Path
) -> None:
    config = write_config(tmp_path / "config.yaml", space.name, enabledStrategies=[])
    ordered = {
        "apiVersion": "rescheduler.io/v1alpha1",
        "kind": "PodMigration",
        "metadata": {"name": "by-hand"},
        "spec": {"pod": {"name": name_of(only_pod)}, "target": other(nodes, only_pod)},
    }
    with (
        recorded(space) as record,
        Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as controller,
    ):
        kind_is_served(space, controller)
        space.api.post(MIGRATIONS.format(space.name), ordered)
        status = wait_until_moved(space, controller)["status"]
        assert controller.stop() == 0
    assert (status["source"], status["target"]) == (only_pod["spec"]["nodeName"], other(nodes, only_pod))
    assert record.lowest()["one"] == Lowest(1)
    assert len(space.list("ReplicaSet")) == 1


def test_a_plan_moves_the_only_replica(space: Space, nodes: list[str], only_pod: Json, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config.yaml", space.name, enabledStrategies=["NodeMaintenance"])
    source = only_pod["spec"]["nodeName"]
    with (
        recorded(space) as record,
        Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as controller,
    ):
        space.api.patch(f"/api/v1/nodes/{source}", {"metadata": {"labels": {MAINTENANCE: "true"}}})
        migration = wait_until_moved(space, controller)
        assert controller.stop() == 0
    assert migration["spec"]["strategy"] == "NodeMaintenance"
    assert migration["status"]["target"] == other(nodes, only_pod)
    assert record.lowest()["one"] == Lowest(1)
