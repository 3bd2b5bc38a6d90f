"""What pods have in common is one object for as long as any pod has it, and is forgotten afterwards.

Planning groups pods by the identity of their shape, labels and owner, so equal pods must share them, whatever has come
and gone in between. A reader that never forgot would grow with every pod that there ever was.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.decode import cache as caching
from rescheduler.decode.cache import ClusterCache
from rescheduler.model.objects import Pod
from rescheduler.model.shape import Shape

NAMES = 4
NOTHING = Shape()
READS = 7  # between two forgettings


@pytest.fixture(autouse=True, scope="module")
def forgetful() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caching, "_READS", READS)
        yield


def pod(name: int, template: int, given_cpu: int | None = None) -> bytes:
    """The name says nothing of the template: a pod can come back as another one."""
    container: dict[str, Any] = {"name": "c", "resources": {"requests": {"cpu": f"{template % 5 + 1}00m"}}}
    spec: dict[str, Any] = {
        "nodeName": f"node-{template % 2}",
        "containers": [container],
        "nodeSelector": {"pool": f"{template}"},
        "tolerations": [{"key": f"t{template % 3}", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": node_terms(template)}},
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"rs-{template}", "uid": "u", "controller": True}
    metadata = {"name": f"p{name}", "namespace": "ns", "labels": {"app": f"a{template}"}, "ownerReferences": [owner]}
    status: dict[str, Any] = {"phase": "Running"}
    if given_cpu is not None:
        status["containerStatuses"] = [{"name": "c", "allocatedResources": {"cpu": f"{given_cpu}"}}]
    return json.dumps({"metadata": metadata, "spec": spec, "status": status}).encode()


def node_terms(template: int) -> dict[str, Any]:
    zones = {"key": "zone", "operator": "In", "values": [f"z{template % 2}"]}
    return {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}


def rows(cache: ClusterCache) -> list[Pod]:
    found = (cache.row("Pod", ("ns", f"p{name}")) for name in range(NAMES))
    return [row for row in found if row is not None]


def values(row: Pod) -> list[Any]:
    """All that the row says; rows and shapes themselves are compared by identity."""
    return [*msgspec.structs.astuple(msgspec.structs.replace(row, shape=NOTHING)), msgspec.structs.astuple(row.shape)]


PARTS: dict[str, Callable[[Pod], tuple[object, Hashable]]] = {
    "shape": lambda row: (row.shape, msgspec.structs.astuple(row.shape)),
    "labels": lambda row: (row.labels, tuple(sorted(row.labels.items()))),
    "owner": lambda row: (row.owner, row.owner),
    "held": lambda row: (row.held, row.held),
    "tolerations": lambda row: (row.shape.tolerations, row.shape.tolerations),
    "node affinity": lambda row: (row.shape.node_affinity, row.shape.node_affinity),
    "node": lambda row: (row.node, row.node),
}


def shared_twice(found: list[Pod]) -> list[str]:
    """The parts of which there are several objects for one value."""
    twice: list[str] = []
    for part, of in PARTS.items():
        identities: dict[Any, set[int]] = {}
        for row in found:
            thing, value = of(row)
            identities.setdefault(value, set()).add(id(thing))
        twice += [part for ids in identities.values() if len(ids) > 1]
    return twice


STEPS = st.tuples(st.integers(0, NAMES - 1), st.none() | st.tuples(st.integers(0, 2), st.none() | st.integers(1, 2)))


@given(steps=st.lists(STEPS, min_size=20, max_size=60))
def test_equal_pods_share_their_parts_after_any_history(steps: list[tuple[int, Any]]) -> None:
    cache = ClusterCache("test")
    expected: dict[int, bytes] = {}
    for name, put in steps:
        if put is None:
            cache.drop("Pod", ("ns", f"p{name}"))
            expected.pop(name, None)
        else:
            raw = pod(name, *put)
            cache.put("Pod", raw)
            expected[name] = raw
        assert shared_twice(rows(cache)) == []
    fresh = ClusterCache("test")
    for raw in expected.values():
        fresh.put("Pod", raw)
    assert [values(row) for row in rows(cache)] == [values(row) for row in rows(fresh)]


def test_a_shape_outlives_all_pods_that_are_gone() -> None:
    cache = ClusterCache("test")
    cache.put("Pod", pod(0, 0))
    (stays,) = rows(cache)
    for template in range(1, 10 * READS):
        cache.put("Pod", pod(1, template))
    cache.put("Pod", pod(2, 0))
    assert {id(row.shape) for row in rows(cache) if row.name != "p1"} == {id(stays.shape)}


def test_pods_that_come_and_go_leave_nothing_behind() -> None:
    cache = ClusterCache("test")

    def grown_by(templates: range) -> int:
        before = tracemalloc.get_traced_memory()[0]
        for template in templates:
            cache.put("Pod", pod(0, template))
            cache.drop("Pod", ("ns", "p0"))
        return tracemalloc.get_traced_memory()[0] - before

    tracemalloc.start()
    try:
        grown_by(range(100))
        assert grown_by(range(100, 600)) < 50_000  # 500 shapes that nobody forgets take a megabyte
    finally:
        tracemalloc.stop()
