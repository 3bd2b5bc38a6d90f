"""Scenario: a node that is calm by requests is hot by what its pods really use. The controller cools it, and rests.

Usage comes from metrics.k8s.io (of the embedded cluster, and of the real metrics-server on the real one) or from a real
Prometheus. Samples are averaged over a time that is much longer than the moves take, so that a controller which went by
what the node used before its pods left would move on and on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rescheduler.config.schema import PrometheusQueries
from rescheduler.model.json import Json
from tests.support.both_clusters import Space, names
from tests.support.controller_process import Controller, write_config
from tests.support.measured_clusters import measured, scraped
from tests.support.skewed_cluster import active, migrations
from tests.testbed.api import ApiError
from tests.testbed.hollow import NodeShape, deployment
from tests.testbed.processes import until

REPLICAS = 8
CORES = 0.45  # used by each pod, and 100m are requested: 90% and 20% of 4 CPUs
METRICS = "/apis/metrics.k8s.io/v1beta1"
CYCLES = 10  # that see nothing more to do


@dataclass(frozen=True)
class Meter:
    """A source of usage: how nodes are made for it, the controller's configuration, and the nodes and pods it has."""

    shape: NodeShape
    usage: Json
    nodes: Callable[[], set[str]]
    pods: Callable[[], set[str]]


@contextmanager
def by_metrics_server(space: Space, folder: Path) -> Iterator[Meter]:
    with measured(space.cluster) as shape:
        yield Meter(
            shape,
            {"source": "metrics.k8s.io"},
            lambda: known_by_metrics_server(space, "nodes"),
            lambda: known_by_metrics_server(space, f"namespaces/{space.name}/pods"),
        )


def known_by_metrics_server(space: Space, path: str) -> set[str]:
    try:
        return {*names(space.api.get(f"{METRICS}/{path}")["items"])}
    except ApiError as error:
        if error.code != 503:  # it does not answer in time: asked again
            raise
        return set()


@contextmanager
def by_prometheus(space: Space, folder: Path) -> Iterator[Meter]:
    with scraped(space, CORES, folder) as prometheus:
        yield Meter(
            NodeShape(),
            {"source": "prometheus", "prometheus": {"url": prometheus.url}},
            lambda: {each["metric"]["node"] for each in prometheus.query(PrometheusQueries().node_cpu)},
            lambda: {each["metric"]["pod"] for each in prometheus.query(PrometheusQueries().pod_cpu)},
        )


Measuring = Callable[[Space, Path], AbstractContextManager[Meter]]


@pytest.fixture
def meter(request: pytest.FixtureRequest, space: Space, tmp_path: Path) -> Iterator[Meter]:
    """A source of usage for the cluster, which has no nodes yet."""
    measuring: Measuring = request.param
    with measuring(space, tmp_path) as meter:
        yield meter


@pytest.fixture
def crowded(meter: Meter, space: Space) -> Iterator[list[str]]:
    """All pods are on the first of three nodes, and all of them have been measured."""
    nodes = space.cluster.add_nodes(1, meter.shape, prefix="used")
    body = deployment("busy", REPLICAS)
    body["spec"]["template"]["metadata"]["annotations"] = {"simulate.rescheduler.io/cpu-usage": f"{CORES}"}
    space.create(body)
    until("all pods run", lambda: Counter(find_places(space)) == {nodes[0]: REPLICAS}, seconds=180)
    nodes += space.cluster.add_nodes(2, meter.shape, prefix="used")
    known = {*names(space.pods("busy"))}
    until("everything is measured", lambda: meter.nodes() >= {*nodes} and meter.pods() == known, seconds=180)
    try:
        yield nodes
    finally:
        space.cluster.remove_nodes(nodes)


def find_places(space: Space) -> list[str]:
    staying = [each for each in space.list("Pod") if "deletionTimestamp" not in each["metadata"]]
    return [each["spec"]["nodeName"] for each in staying if each["status"]["phase"] == "Running"]


def config_of(space: Space, meter: Meter, folder: Path, utilization: str) -> Path:
    return write_config(
        folder / f"{utilization}.yaml",
        space.name,
        enabledStrategies=["ResourceOptimization", "LoadBalancing"],
        utilization=utilization,
        usage={**meter.usage, "interval": "1s", "window": "5m", "maxAge": "2m"},
    )


def cycles(controller: Controller) -> int:
    return sum(line.get("msg") == "planned" for line in controller.said())


@pytest.mark.parametrize(
    "meter", [by_metrics_server, pytest.param(by_prometheus, marks=pytest.mark.release)], indirect=True
)
def test_what_is_hot_by_usage_is_cooled_with_as_few_moves_as_it_takes(
    crowded: list[str], meter: Meter, space: Space, tmp_path: Path
) -> None:
    config = config_of(space, meter, tmp_path, "usage")
    with Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as controller:

        def spread() -> bool:
            done = [each.get("status", {}).get("phase") == "Completed" for each in migrations(space)]
            return all(done) and max(Counter(find_places(space)).values()) <= 4

        until("no node has more than half of the pods", spread, [controller], seconds=180)
        # Cycles follow each other by the second, and each sees means of the time before.
        so_far = cycles(controller)

        def rested() -> bool:
            return cycles(controller) >= so_far + CYCLES and not active(migrations(space))

        until("more cycles have passed", rested, [controller], seconds=180)
        assert controller.stop() == 0
    found = migrations(space)
    assert [each["status"]["phase"] for each in found] == ["Completed"] * len(found)
    where = Counter(find_places(space))
    assert sum(where.values()) == REPLICAS
    assert set(where) == set(crowded)
    # Eight equal pods on three nodes: five have to move at the most, and none twice.
    assert len(found) <= 5
    assert max(where.values()) - min(where.values()) <= 2


@pytest.mark.parametrize("meter", [by_metrics_server], indirect=True)
@pytest.mark.usefixtures("crowded")
def test_by_requests_the_same_cluster_is_calm(meter: Meter, space: Space, tmp_path: Path) -> None:
    config = config_of(space, meter, tmp_path, "requests")
    with Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as controller:
        until("some cycles have passed", lambda: cycles(controller) >= 3, [controller])
        assert controller.stop() == 0
    assert migrations(space) == []
