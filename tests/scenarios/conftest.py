"""An embedded cluster for scenarios of commands that write: one for each module, with four nodes and PodMigrations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.embedded import EmbeddedControlPlane
from tests.support.migrations import pod_migrations
from tests.support.shell import Shell
from tests.testbed.namespaces import own_namespace


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedControlPlane]:
    with EmbeddedControlPlane() as embedded, pod_migrations(embedded):
        yield embedded


@pytest.fixture(scope="module")
def nodes(cluster: ClusterUnderTest) -> list[str]:
    return cluster.add_nodes(4)


@pytest.fixture
def space(request: pytest.FixtureRequest, cluster: ClusterUnderTest) -> Iterator[Space]:
    with own_namespace(cluster.api, request.node.name) as name:
        yield Space(cluster, name)


@pytest.fixture
def shell(cluster: ClusterUnderTest) -> Shell:
    return Shell(cluster)
