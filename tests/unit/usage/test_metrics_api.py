"""metrics.k8s.io as our client reads it: rows, single objects that make no sense, and the cure where it is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.model.json import Json
from rescheduler.model.objects import Usage
from rescheduler.model.time import format_instant
from rescheduler.usage.metrics_api import MetricsApi
from tests.support.api_server import Answer, ApiServer, api_server, list_answer, status_answer
from tests.support.builders import NOW
from tests.support.kubeconfigs import RecordedWaits, connection

NODES, PODS = "/apis/metrics.k8s.io/v1beta1/nodes", "/apis/metrics.k8s.io/v1beta1/pods"


def node_metrics(name: str, cpu: str = "250m") -> Json:
    usage = {"cpu": cpu, "memory": "1Gi"}
    return {"metadata": {"name": name}, "timestamp": format_instant(NOW), "window": "10s", "usage": usage}


def pod_metrics(name: str, *cpus: str) -> Json:
    containers = [{"name": f"c{at}", "usage": {"cpu": cpu, "memory": "1Mi"}} for at, cpu in enumerate(cpus)]
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "timestamp": format_instant(NOW),
        "window": "10s",
        "containers": containers,
    }


async def read(server: ApiServer, folder: Path) -> tuple[list[Usage], list[int], tuple[str, ...]]:
    rows: list[Usage] = []
    parts: list[int] = []

    def take(more: Any) -> None:
        rows.extend(more)
        parts.append(len(more))

    backoff = RecordedWaits().backoff
    async with ApiClient(connection(folder, {"server": server.url}), backoff=backoff) as client:
        warnings = await MetricsApi(client).read(take)
    return rows, parts, warnings


async def test_nodes_and_pods_become_rows(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script(NODES, list_answer([node_metrics("a", "123456789n")]))
        server.script(PODS, list_answer([pod_metrics("web", "100m", "25m"), pod_metrics("empty")]))
        rows, _, warnings = await read(server, tmp_path)
    assert rows == [
        Usage("NodeMetrics", "", "a", (("cpu", 124), ("memory", 2**30)), NOW),
        Usage("PodMetrics", "shop", "web", (("cpu", 125), ("memory", 2**21)), NOW),
        Usage("PodMetrics", "shop", "empty", (), NOW),
    ]
    assert warnings == ()


async def test_a_large_answer_comes_in_parts(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script(NODES, list_answer([]))
        server.script(PODS, list_answer([pod_metrics(f"web-{number}", "1m") for number in range(1200)]))
        rows, parts, _ = await read(server, tmp_path)
    assert len(rows) == 1200
    assert max(parts) == 500


async def test_an_object_that_makes_no_sense_costs_only_itself(tmp_path: Path) -> None:
    broken = [node_metrics(f"b{number}", "much") for number in range(5)]
    async with api_server() as server:
        server.script(NODES, list_answer([*broken, node_metrics("a")]))
        server.script(PODS, list_answer([]))
        rows, _, warnings = await read(server, tmp_path)
    assert [row.name for row in rows] == ["a"]
    assert len(warnings) == 4
    assert "NodeMetrics b0: usage.cpu: 'much' is not a quantity" in warnings[0]
    assert warnings[-1] == "metrics.k8s.io: 2 more objects could not be read"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (status_answer(404, "NotFound", "no"), "the cluster has no metrics.k8s.io; install metrics-server"),
        (
            status_answer(503, "ServiceUnavailable", "the server is currently unable to handle the request"),
            "metrics.k8s.io is registered, but its server does not answer",
        ),
        (
            status_answer(403, "Forbidden", "not you"),
            'ask for the rule {apiGroups: ["metrics.k8s.io"], resources: ["nodes", "pods"], verbs: ["list"]}',
        ),
    ],
)
async def test_where_it_is_not_served_the_cure_is_named(tmp_path: Path, answer: Answer, said: str) -> None:
    async with api_server() as server:
        server.script(NODES, answer)
        with pytest.raises(ClusterError) as caught:
            await read(server, tmp_path)
    assert said in str(caught.value)
    assert len(server.seen) == 1  # asked again with the next round, not at once


async def test_what_is_no_list_is_an_error_of_the_api(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script(NODES, Answer(body=b"<html>"))
        with pytest.raises(ApiError):
            await read(server, tmp_path)
