"""A copy of the cache is one moment of the cluster, whatever happens before somebody puts it in order."""

from __future__ import annotations

import msgspec

from rescheduler.decode.cache import ClusterCache
from tests.support.showing import NOW, node, pod


def filled() -> ClusterCache:
    cache = ClusterCache("test")
    for name in ("b", "a"):
        cache.put("Node", msgspec.json.encode(node(name)))
    for name in ("q", "p"):
        cache.put("Pod", msgspec.json.encode(pod(name, "a")))
    for kind in ("Deployment", "ReplicaSet"):
        cache.put(kind, msgspec.json.encode({"metadata": {"name": "web", "namespace": "shop"}}))
    return cache


def test_what_changes_after_the_copy_was_taken_is_not_in_the_snapshot() -> None:
    cache = filled()
    before, copied = cache.snapshot(NOW), cache.capture(NOW)
    cache.drop("Node", "a")
    cache.put("Pod", msgspec.json.encode(pod("r", "b")))
    cache.drop("Pod", ("shop", "p"))
    cache.drop("Deployment", ("Deployment", "shop", "web"))
    for _ in range(2):  # it may be asked again
        found = copied()
        assert (found.nodes, found.workloads, found.kinds) == (before.nodes, before.workloads, before.kinds)
        assert [each.name for each in found.pods] == [each.name for each in before.pods] == ["p", "q"]
    assert [each.name for each in cache.snapshot(NOW).pods] == ["q", "r"]


def test_every_kind_is_counted_as_it_comes_and_goes() -> None:
    cache = filled()
    assert [cache.count(kind) for kind in ("Node", "Pod", "Deployment", "ReplicaSet", "Job")] == [2, 2, 1, 1, 0]
    cache.put("Pod", msgspec.json.encode(pod("p", "b")))  # a change
    cache.drop("Pod", ("shop", "nobody"))
    assert cache.count("Pod") == 2
    cache.drop("Deployment", ("Deployment", "shop", "web"))
    assert [cache.count(kind) for kind in ("Deployment", "ReplicaSet")] == [0, 1]
    cache.put("Node", b'{"metadata": {"name": "a"}, "spec": {"taints": 5}}')  # makes no sense
    assert cache.count("Node") == len(cache.rows("Node"))
