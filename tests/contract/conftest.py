"""Both clusters as fixtures: a test that asks for `cluster` or `space` runs on the embedded one and on the real one.

The real half is marked `cluster`, so `-m "not cluster"` runs the embedded half alone and `-m cluster` the real one,
with the skip and fail rules of `tests/testbed/fixtures.py`. One cluster of each kind serves the whole run; nodes live
as long as a module, so that other tests on the same cluster find it as they would without us.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.both_clusters import BOTH, ClusterUnderTest, Space, is_discovered, nodes_fixture, one_cluster
from tests.support.migrations import Moves, pod_migrations
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import until


@pytest.fixture(scope="session", params=BOTH)
def cluster(request: pytest.FixtureRequest) -> Iterator[ClusterUnderTest]:
    """One cluster for all tests of this run, without nodes."""
    yield from one_cluster(request)


nodes = nodes_fixture(4, prefix="contract", scope="module")
"""Four nodes of 4 CPUs, for all tests of a module."""


@pytest.fixture
def namespace(request: pytest.FixtureRequest, cluster: ClusterUnderTest) -> Iterator[str]:
    """A namespace of this test's own; its pods are gone from the nodes when the next test starts."""
    with own_namespace(cluster.api, request.node.name) as name:
        yield name


@pytest.fixture
def space(cluster: ClusterUnderTest, namespace: str) -> Space:
    """The test's namespace, with words for what is in it."""
    return Space(cluster, namespace)


@pytest.fixture(scope="module")
def kind(cluster: ClusterUnderTest) -> Iterator[None]:
    """PodMigration is served while a module's tests run, and kubectl finds it."""
    with pod_migrations(cluster):
        until("PodMigration is discovered", lambda: is_discovered(cluster, "rescheduler.io"))
        yield


@pytest.fixture
def moves(space: Space) -> Moves:
    """Moves in the test's namespace, as the controller makes them."""
    return Moves(space)
