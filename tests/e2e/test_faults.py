"""Half a minute in which the connection to the API server breaks in every way, with moves going on; then it heals.

What must hold is the same as ever: no workload short of pods at any moment, all moves over, nothing lost, nothing left.
`make chaos` does it for ten minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.cases import CASES, stage
from tests.chaos.faults import run_faults
from tests.chaos.lives import PATIENT, Setting
from tests.support.both_clusters import ClusterUnderTest
from tests.support.embedded import EmbeddedControlPlane
from tests.support.fault_proxy import FaultProxy, Odds, Upstream
from tests.support.migrations import pod_migrations
from tests.testbed.api import Api, ApiError
from tests.testbed.cluster import ControlPlane
from tests.testbed.hollow import NodeShape

SECONDS = 25.0


def all_is_well_after_the_storm(cluster: ClusterUnderTest, folder: Path) -> None:
    with pod_migrations(cluster):
        nodes = cluster.add_nodes(4, NodeShape(), prefix="faulty")
        with (
            stage(cluster, nodes, CASES) as made,
            FaultProxy(Upstream.of(cluster.kubeconfig), seed=7) as proxy,
        ):
            setting = Setting(proxy.kubeconfig(folder / "kubeconfig"), folder, PATIENT)
            weather = run_faults(made, setting, proxy, SECONDS, print)
            assert not weather.broken, f"{weather.table()}\n{setting.said()}"
            assert sum(weather.faults.values()) > 20
            assert any("Completed" in end for end in weather.ends)
        cluster.remove_nodes(nodes)


@pytest.mark.cluster
def test_a_controller_behind_a_broken_connection_loses_nothing(control_plane: ControlPlane, tmp_path: Path) -> None:
    all_is_well_after_the_storm(control_plane, tmp_path)


def test_a_controller_behind_a_broken_connection_loses_nothing_in_the_embedded_cluster(tmp_path: Path) -> None:
    with EmbeddedControlPlane() as cluster:
        all_is_well_after_the_storm(cluster, tmp_path)


@pytest.fixture
def embedded() -> Iterator[EmbeddedControlPlane]:
    with EmbeddedControlPlane() as cluster:
        yield cluster


def test_the_proxy_hands_on_what_it_does_not_break(embedded: EmbeddedControlPlane) -> None:
    with FaultProxy(Upstream.of(embedded.kubeconfig), seed=1) as proxy:
        api = Api(proxy.port, None, None)
        made = api.post("/api/v1/namespaces", {"metadata": {"name": "through"}})
        assert api.get("/api/v1/namespaces/through")["metadata"]["uid"] == made["metadata"]["uid"]
        with pytest.raises(ApiError, match="404"):
            api.get("/api/v1/namespaces/nowhere")
        api.close()
    assert not proxy.faults


def test_an_answer_that_is_lost_is_lost_after_the_write(embedded: EmbeddedControlPlane) -> None:
    with FaultProxy(Upstream.of(embedded.kubeconfig), 1, Odds(requests={"reset after": 1.0})) as proxy:
        proxy.faulty = True
        api = Api(proxy.port, None, None)
        with pytest.raises((ConnectionError, OSError)):
            api.post("/api/v1/namespaces", {"metadata": {"name": "made"}})
        api.close()
    assert embedded.api.get("/api/v1/namespaces/made")["metadata"]["name"] == "made"
