"""Usage from metrics.k8s.io as the real metrics-server serves it through the API server, of what KWOK simulates."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from rescheduler.app.planning import LiveCluster, read
from rescheduler.config.schema import UsageSettings
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.model.shape import Requests
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.runtime.usage_poller import UsagePoller
from rescheduler.usage.history import UsageHistory
from rescheduler.usage.metrics_api import MetricsApi
from tests.testbed.cluster import ControlPlane
from tests.testbed.hollow import NodeShape, deployment
from tests.testbed.metering import metered
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import Child, until

pytestmark = pytest.mark.cluster

METRICS = "/apis/metrics.k8s.io/v1beta1"
MIB = 2**20
BUSY = {"simulate.rescheduler.io/cpu-usage": "700m", "simulate.rescheduler.io/memory-usage": "300Mi"}


@dataclass(frozen=True)
class Scene:
    """Two nodes, three pods that use what they request, two that use more, and metrics-server, which has seen it."""

    cluster: ControlPlane
    namespace: str
    nodes: list[str]
    server: Child


@pytest.fixture(scope="module")
def scene(control_plane: ControlPlane) -> Iterator[Scene]:
    nodes = control_plane.add_nodes(2, NodeShape(kubelet_port=control_plane.kubelet_port), prefix="measured")
    try:
        with own_namespace(control_plane.api, "measured") as namespace:
            busy = deployment("busy", 2)
            busy["spec"]["template"]["metadata"]["annotations"] = BUSY
            for body in (deployment("calm", 3), busy):
                control_plane.api.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", body)
            with metered(control_plane) as server:
                measured = partial(all_measured, control_plane, namespace, set(nodes))
                until("everything is measured", measured, [server], seconds=180)
                yield Scene(control_plane, namespace, nodes, server)
    finally:
        control_plane.remove_nodes(nodes)


def all_measured(cluster: ControlPlane, namespace: str, nodes: set[str]) -> bool:
    """Other tests' nodes may be among those that are."""
    found = {each["metadata"]["name"] for each in cluster.api.get(f"{METRICS}/nodes")["items"]}
    pods = cluster.api.get(f"{METRICS}/namespaces/{namespace}/pods")["items"]
    return nodes <= found and len(pods) == 5


def client_of(cluster: ControlPlane) -> ApiClient:
    return ApiClient(load_connection(KubeconfigOptions(cluster.kubeconfig), {}))


def poller_of(client: ApiClient) -> UsagePoller:
    return UsagePoller(MetricsApi(client), UsageHistory(UsageSettings()), 30.0, client.clock.now)


def snapshot_of(cluster: ControlPlane) -> ClusterSnapshot:
    return read(LiveCluster(kubeconfig=str(cluster.kubeconfig)), None, lambda count: None)


def about(found: Requests, cpu: int, memory: int) -> bool:
    """CPU is a difference of counters, read at times that are not quite those it is divided by."""
    return abs(dict(found)["cpu"] - cpu) <= cpu // 5 and dict(found)["memory"] == memory


async def test_where_nobody_serves_it_the_cure_is_named(control_plane: ControlPlane) -> None:
    async with client_of(control_plane) as client:
        with pytest.raises(ClusterError, match=r"has no metrics\.k8s\.io; install metrics-server"):
            await MetricsApi(client).read(lambda rows: None)


async def test_the_loop_measures_nodes_pods_and_workloads(scene: Scene) -> None:
    async with client_of(scene.cluster) as client:
        loop = poller_of(client)
        await loop.poll()
        snapshot = loop.with_usage(await asyncio.to_thread(snapshot_of, scene.cluster))
    measured = snapshot.measured
    assert loop.failure == ""
    assert measured is not None
    assert set(scene.nodes) <= set(measured.nodes)
    pods = {key: used for key, used in measured.pods.items() if key[0] == scene.namespace}
    assert len(pods) == 5
    assert all(about(used, 700, 300 * MIB) for (_, name), used in pods.items() if name.startswith("busy"))
    assert all(about(used, 100, 64 * MIB) for (_, name), used in pods.items() if name.startswith("calm"))
    assert about(measured.workloads["Deployment", scene.namespace, "busy"], 700, 300 * MIB)
    for name in scene.nodes:
        here = [key for pod in snapshot.pods if pod.node == name and (key := (pod.namespace, pod.name)) in pods]
        assert dict(measured.nodes[name])["memory"] == sum(dict(pods[key])["memory"] for key in here) + 16 * MIB
    assert not [warning for warning in measured.warnings if "measured-" in warning or "refused" in warning]


async def test_when_metrics_server_dies_that_is_said_and_what_is_known_stays(scene: Scene) -> None:
    async with client_of(scene.cluster) as client:
        loop = poller_of(client)
        await loop.poll()
        scene.server.kill()
        await loop.poll()
        snapshot = loop.with_usage(await asyncio.to_thread(snapshot_of, scene.cluster))
    assert "metrics.k8s.io is registered, but its server does not answer" in loop.failure
    assert snapshot.measured is not None
    assert set(scene.nodes) <= set(snapshot.measured.nodes)
    assert loop.failure in snapshot.measured.warnings[0]
