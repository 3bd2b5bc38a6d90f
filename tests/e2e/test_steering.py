"""Scenario: with the webhook in force, pods that are evicted and made anew come to their targets.

The API server asks the process itself, over TLS; neither Deployment nor ReplicaSet is changed for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Space, is_ready, name_of
from tests.support.controller_process import Controller
from tests.support.manifests import deployment, stateful_set
from tests.support.migrations import MIGRATIONS
from tests.support.recovering import Recovering
from tests.testbed.processes import until

PREFIX = "scheduler.alpha.kubernetes.io/"


@pytest.fixture
def nodes(cluster: ClusterUnderTest) -> Iterator[list[str]]:
    names = cluster.add_nodes(4, prefix="steered")
    yield names
    cluster.remove_nodes(names)


@pytest.fixture(params=["prefer", "nominate"])
def controller(request: pytest.FixtureRequest, space: Space, nodes: list[str], tmp_path: Path) -> Iterator[Controller]:
    served = Recovering(space, tmp_path, webhook=True, extender=False)
    with served.run(steering=request.param, allow={"singleReplica": True}) as started:
        yield started


def moved(space: Space, pod: str, target: str, controller: Controller, name: str = "m") -> Json:
    """A migration by eviction, when it is over."""
    body = {
        "apiVersion": "rescheduler.io/v1alpha1",
        "kind": "PodMigration",
        "metadata": {"name": name},
        "spec": {"pod": {"name": pod}, "target": target, "method": "evict"},
    }
    path = MIGRATIONS.format(space.name)
    space.api.post(path, body)

    def over() -> Json | None:
        found: Json = space.api.get(f"{path}/{name}")
        return found if found.get("status", {}).get("completionTime") else None

    return until("the move is over", over, [controller])


def other_node(pod: Json, nodes: list[str]) -> str:
    return next(node for node in reversed(nodes) if node != pod["spec"]["nodeName"])


def nothing_is_left(space: Space, controller: Controller) -> None:
    """No placeholder, no gate, no pause, no note."""
    pods = space.list("Pod")
    assert not [name_of(each) for each in pods if "rescheduler.io/placeholder" in each["metadata"]["labels"]]
    assert not [name_of(each) for each in pods if each["spec"].get("schedulingGates")]
    for kind in ("Deployment", "ReplicaSet", "StatefulSet"):
        for each in space.list(kind):
            assert f"{PREFIX}migration-id" not in each["metadata"].get("annotations", {}), kind
            assert not each["spec"].get("paused")


def test_a_pod_that_is_evicted_comes_to_its_target_and_its_template_is_not_touched(
    space: Space, nodes: list[str], controller: Controller
) -> None:
    space.create(deployment("web", 2, strategy={"type": "Recreate"}))
    space.create(stateful_set("database", 3, podManagementPolicy="Parallel"))
    space.rolled_out("web")
    until("all are Ready", lambda: sum(map(is_ready, space.pods("database"))) == 3)
    comes_to_its_target(space, nodes, controller)
    keeps_its_name(space, nodes, controller)
    nothing_is_left(space, controller)


def comes_to_its_target(space: Space, nodes: list[str], controller: Controller) -> None:
    """A pod of the Deployment."""
    before, pod = space.replica_set("web"), space.pods("web")[0]
    target = other_node(pod, nodes)
    status = moved(space, name_of(pod), target, controller, "of-the-deployment")["status"]
    assert status["phase"] == "Completed", status
    new = space.get("Pod", status["replacement"]["name"])
    assert (new["spec"]["nodeName"], is_ready(new)) == (target, True)
    assert new["metadata"]["labels"][f"{PREFIX}migrated-from"] == pod["spec"]["nodeName"]
    after = space.replica_set("web")
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


def keeps_its_name(space: Space, nodes: list[str], controller: Controller) -> None:
    """A pod of the StatefulSet."""
    pod = space.get("Pod", "database-1")
    target = other_node(pod, nodes)
    status = moved(space, "database-1", target, controller, "of-the-stateful-set")["status"]
    assert status["phase"] == "Completed", status
    assert space.get("Pod", "database-1")["spec"]["nodeName"] == target
    assert space.get("Pod", "database-1")["metadata"]["uid"] != pod["metadata"]["uid"]
