"""Both clusters for scenarios with the real process, each with nothing on it but what the scenario brings.

`cluster` and `space` are those of the contract's tests. The controller looks at the whole cluster, so a scenario makes
its own nodes and takes them away; the kind PodMigration is installed by the controller and removed after each module.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.both_clusters import BOTH, ClusterUnderTest, Space, one_cluster
from tests.support.loaded_node import SHAPE, load
from tests.support.migrations import DEFINITIONS
from tests.testbed.api import Api
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import until

DEFINITION = f"{DEFINITIONS}/podmigrations.rescheduler.io"
LEASES = "/apis/coordination.k8s.io/v1/leases"


@pytest.fixture(scope="session", params=BOTH)
def any_cluster(request: pytest.FixtureRequest) -> Iterator[ClusterUnderTest]:
    """One cluster for all scenarios of this run, without nodes."""
    yield from one_cluster(request)


@pytest.fixture(scope="module")
def cluster(any_cluster: ClusterUnderTest) -> Iterator[ClusterUnderTest]:
    """The cluster, on which no kind of ours is left afterwards."""
    yield any_cluster
    remove_kind(any_cluster.api)


@pytest.fixture
def space(request: pytest.FixtureRequest, cluster: ClusterUnderTest) -> Iterator[Space]:
    """A namespace of this scenario's own."""
    with own_namespace(cluster.api, request.node.name) as name:
        yield Space(cluster, name)
    forget_controllers(cluster.api)


@pytest.fixture
def nodes(cluster: ClusterUnderTest) -> Iterator[list[str]]:
    """Two nodes; modules that need others have a fixture of this name."""
    names = cluster.add_nodes(2, SHAPE, prefix="one-of-two")
    yield names
    cluster.remove_nodes(names)


@pytest.fixture
def loaded_node(space: Space, nodes: list[str]) -> str:
    """The one of the two that has pods."""
    return load(space, nodes)


def forget_controllers(api: Api) -> None:
    """Their Leases in namespaces that take a while to go: commands of the next scenario would look at their holders."""
    for each in api.get(f"{LEASES}?fieldSelector=metadata.name=kube-rescheduler")["items"]:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{each['metadata']['namespace']}/leases/kube-rescheduler"
        api.discard(path)  # its namespace may have just gone


def remove_kind(api: Api) -> None:
    """PodMigration, with all that is left of it."""
    api.discard(DEFINITION)
    until("PodMigration is gone", lambda: api.find(DEFINITION) is None)
