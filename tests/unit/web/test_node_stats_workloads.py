"""Whom a pod belongs to is the same on the page as in a plan."""

from __future__ import annotations

import msgspec
import pytest

from rescheduler.decode.cache import ClusterCache
from rescheduler.planning.workloads import Workloads
from rescheduler.web.node_stats import workload_of
from tests.support.showing import NOW


def owner(kind: str, name: str) -> list[dict[str, object]]:
    return [{"apiVersion": "v1", "kind": kind, "name": name, "uid": name, "controller": True}]


@pytest.mark.parametrize(
    ("kind", "name", "above", "expected"),
    [
        ("ReplicaSet", "web-abc", "Deployment", "Deployment/web"),
        ("ReplicaSet", "web-abc", "", "ReplicaSet/web-abc"),
        ("ReplicaSet", "web-abc", "Rollout", "ReplicaSet/web-abc"),
        ("Job", "night-1", "CronJob", "CronJob/web"),
        ("Machine", "m", "", "Machine/m"),
    ],
)
def test_a_pods_workload_is_that_of_planning(kind: str, name: str, above: str, expected: str) -> None:
    cache = ClusterCache("test")
    cache.put("Node", msgspec.json.encode({"metadata": {"name": "a"}}))
    pod = {"name": "p", "namespace": "shop", "ownerReferences": owner(kind, name)}
    cache.put("Pod", msgspec.json.encode({"metadata": pod, "spec": {"nodeName": "a", "containers": []}}))
    if above:
        references = owner(above, "web")
        body = {"name": name, "namespace": "shop", "ownerReferences": references}
        cache.put(kind, msgspec.json.encode({"metadata": body}))
    if above in ("Deployment", "CronJob"):
        cache.put(above, msgspec.json.encode({"metadata": {"name": "web", "namespace": "shop"}}))
    row = cache.row("Pod", ("shop", "p"))
    found, _, called = Workloads(cache.snapshot(NOW)).key(row)
    assert workload_of(cache, row) == f"{found}/{called}" == expected


def test_a_pod_that_nobody_manages_has_none() -> None:
    cache = ClusterCache("test")
    cache.put("Pod", b'{"metadata": {"name": "p", "namespace": "shop"}}')
    assert workload_of(cache, cache.row("Pod", ("shop", "p"))) == ""
