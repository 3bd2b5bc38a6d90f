"""Either cluster with a source of usage: metrics.k8s.io, or a real Prometheus.

metrics.k8s.io is served by the embedded cluster itself, and by the real metrics-server on the real one. What Prometheus
scrapes comes from the tests, by where the pods are: so it moves as they do, on both clusters alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.support.both_clusters import ClusterUnderTest, Space, name_of
from tests.support.embedded import EmbeddedControlPlane
from tests.support.measured_series import Consumer, exporter
from tests.support.prometheus import Prometheus, scraping
from tests.testbed.cluster import ControlPlane
from tests.testbed.hollow import NodeShape
from tests.testbed.metering import metered

MEMORY = 64 * 2**20  # bytes that each pod uses


@contextmanager
def measured(cluster: ClusterUnderTest) -> Iterator[NodeShape]:
    """The cluster serves metrics.k8s.io in the block; how nodes are made that are measured."""
    if isinstance(cluster, ControlPlane):
        with metered(cluster):
            yield NodeShape(kubelet_port=cluster.kubelet_port)
        return
    assert isinstance(cluster, EmbeddedControlPlane)
    cluster.cluster.serve_metrics()
    try:
        yield NodeShape()
    finally:
        cluster.cluster.end_metrics()


@contextmanager
def scraped(space: Space, cores: float, folder: Path) -> Iterator[Prometheus]:
    """Prometheus in the block, with metrics of every node, and of each running pod of the space, which uses so much."""
    with closing(space.api.another()) as api:

        def consumers() -> Iterator[Consumer]:
            running: defaultdict[str, int] = defaultdict(int)
            for pod in api.get(space.path("Pod"))["items"]:
                if pod["status"]["phase"] == "Running":
                    node = pod["spec"]["nodeName"]
                    running[node] += 1
                    of_pod = f'namespace="{space.name}",pod="{name_of(pod)}",container="main"'
                    yield Consumer(f'id="/kubepods/{name_of(pod)}",node="{node}",{of_pod}', cores, MEMORY)
            for node in map(name_of, api.get("/api/v1/nodes")["items"]):
                yield Consumer(f'id="/",node="{node}"', cores * running[node], MEMORY * running[node])

        with exporter(consumers) as port, scraping({"kubelet": [port]}, folder) as prometheus:
            yield prometheus
