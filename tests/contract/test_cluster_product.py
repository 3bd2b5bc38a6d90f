"""Our own client and commands against a cluster: what they read must not depend on which of the two it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rescheduler.decode.structs import RESOURCES, ApiResource
from rescheduler.kube.client import ApiClient, ListPage
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.objects import list_cluster
from tests.support.both_clusters import ClusterUnderTest, Space, names
from tests.support.cli import succeeded
from tests.support.manifests import deployment
from tests.testbed.hollow import NodeShape

CONFIG = """apiVersion: rescheduler.io/v1alpha1
kind: ReschedulerConfiguration
minPodAge: 0s
maxReschedulePods: unlimited
enabledStrategies: [ResourceOptimization]
"""


@pytest.fixture
def skewed(cluster: ClusterUnderTest, space: Space) -> Iterator[list[str]]:
    """Two nodes: 7 of the 8 quarters of the first are taken, the second is empty."""
    names = cluster.add_nodes(2, NodeShape(cpu="2", labels={"contract.test/skewed": "yes"}), prefix="skewed")
    with space.cordoned(names[1]):
        space.shunned(names[1])
        web = deployment("web", 7, cpu="250m")
        web["spec"]["template"]["spec"]["nodeSelector"] = {"contract.test/skewed": "yes"}
        space.create(web)
        space.rolled_out("web")
    yield names
    cluster.remove_nodes(names)


def test_a_hot_node_is_planned_cool(cluster: ClusterUnderTest, skewed: list[str], tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    flags = ("--kubeconfig", str(cluster.kubeconfig), "--config", str(config), "-o", "json")
    plan = succeeded("plan", *flags).data
    assert (plan["before"]["hotNodes"], plan["after"]["hotNodes"]) == (1, 0)
    (move,) = plan["moves"]
    assert (move["from"], move["to"]) == tuple(skewed)
    assert (move["method"], move["workload"]) == ("handoff", "Deployment/web")


async def test_everything_is_listed_page_by_page(cluster: ClusterUnderTest, space: Space, skewed: list[str]) -> None:
    listed: dict[str, list[str]] = {}
    connection = load_connection(KubeconfigOptions(Path(cluster.kubeconfig), None), {})
    async with ApiClient(connection) as client:

        def keep(resource: ApiResource, page: ListPage) -> None:
            if page.first:
                listed[resource.kind] = []
            listed[resource.kind] += names(msgspec.json.decode(page.body)["items"])

        absent = await list_cluster(client, keep)
    assert set(listed) | absent == {resource.kind for resource in RESOURCES}
    assert set(skewed) <= set(listed["Node"])
    assert set(names(space.pods("web"))) <= set(listed["Pod"])
    assert "web" in listed["Deployment"]
