"""metrics.k8s.io of the embedded cluster: pods use what their annotations say, else what they request."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from kubemini.api import Target
from kubemini.cluster import EmbeddedCluster
from kubemini.kinds import DEPLOYMENT, NODE, POD
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.model.json import Json
from rescheduler.model.objects import Usage
from rescheduler.usage.metrics_api import MetricsApi

CPU, MEMORY = "simulate.rescheduler.io/cpu-usage", "simulate.rescheduler.io/memory-usage"


def workload(name: str, replicas: int, **annotations: str) -> Json:
    labels = {"app": name}
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    container = {"name": "main", "image": "hollow:1", "resources": resources}
    metadata = {"labels": labels, "annotations": annotations}
    template = {"metadata": metadata, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


async def running(cluster: EmbeddedCluster, count: int) -> None:
    changed = asyncio.Event()
    unsubscribe = cluster.api.store.subscribe(lambda change: changed.set(), POD)
    while sum(entry.fields["status.phase"] == "Running" for entry in cluster.api.store.entries(POD)) < count:
        changed.clear()
        await changed.wait()
    unsubscribe()


def client_of(cluster: EmbeddedCluster, folder: Path) -> ApiClient:
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(cluster.kubeconfig()))
    return ApiClient(load_connection(KubeconfigOptions(path), {}))


async def rows_of(client: ApiClient) -> dict[str, dict[str, int]]:
    rows: list[Usage] = []
    assert await MetricsApi(client).read(rows.extend) == ()
    return {row.name: dict(row.usage) for row in rows}


async def test_metrics_are_served_only_between_serve_and_end(tmp_path: Path) -> None:
    async with EmbeddedCluster() as cluster, client_of(cluster, tmp_path) as client:
        with pytest.raises(ClusterError):
            await rows_of(client)
        cluster.serve_metrics()
        assert await rows_of(client) == {}
        cluster.end_metrics()
        with pytest.raises(ClusterError):
            await rows_of(client)


async def test_pods_use_what_their_annotations_say_or_else_what_they_request(tmp_path: Path) -> None:
    async with EmbeddedCluster() as cluster, client_of(cluster, tmp_path) as client:
        cluster.serve_metrics()
        await cluster.add_nodes(1)
        await cluster.api.create(Target(DEPLOYMENT, "default"), workload("calm", 2))
        await cluster.api.create(Target(DEPLOYMENT, "default"), workload("busy", 1, **{CPU: "1500m", MEMORY: "1Gi"}))
        await cluster.api.create(Target(DEPLOYMENT, "default"), workload("odd", 1, **{CPU: "plenty"}))
        await running(cluster, 4)
        found = await rows_of(client)
    used = {name.partition("-")[0]: amounts for name, amounts in found.items()}
    assert used["calm"] == used["odd"] == {"cpu": 100, "memory": 64 * 2**20}
    assert used["busy"] == {"cpu": 1500, "memory": 2**30}
    assert used["node"] == {"cpu": 1800 + 10, "memory": 2**30 + 3 * 64 * 2**20 + 16 * 2**20}


async def test_pods_on_a_dead_node_are_not_measured(tmp_path: Path) -> None:
    async with EmbeddedCluster() as cluster, client_of(cluster, tmp_path) as client:
        cluster.serve_metrics()
        await cluster.add_nodes(1)
        await cluster.api.create(Target(DEPLOYMENT, "default"), workload("calm", 1))
        await running(cluster, 1)

        def dead(body: Json) -> Json:
            body["metadata"]["labels"]["simulate.rescheduler.io/kubelet"] = "Dead"
            return body

        await cluster.api.edit(Target(NODE, name="node-0"), dead)
        assert await rows_of(client) == {}
