"""Pods from a dump: what they request, hold and take, who owns them, and the marks on them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rescheduler.model import labels
from rescheduler.model.objects import Owner, Pod
from rescheduler.model.shape import HostPort
from tests.support import dumps
from tests.support.dumps import Object
from tests.support.planning import read, read_bytes

GPU = "example.com/gpu"


def pod_of(spec: Object, status: Object | None = None, **metadata: Any) -> Pod:
    (found,) = read(bare(spec, status, **metadata)).pods
    assert not found.problem, found.problem
    return found


def bare(spec: Object, status: Object | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", **metadata},
        "spec": {"nodeName": "a", **spec},
        "status": {"phase": "Running", **(status or {})},
    }


def asks(name: str = "main", *, always: bool = False, **requests: Any) -> Object:
    given = {key.replace("_", "-").replace("gpu", GPU): value for key, value in requests.items()}
    return {"name": name, "resources": {"requests": given}, **({"restartPolicy": "Always"} if always else {})}


REQUESTS: list[tuple[str, Object, dict[str, int]]] = [
    ("no containers", {}, {}),
    ("one container", {"containers": [asks(cpu="100m", memory="1Ki")]}, {"cpu": 100, "memory": 1024}),
    ("rounded up", {"containers": [asks(cpu="1u", memory="0.5")]}, {"cpu": 1, "memory": 1}),
    ("zero is nothing", {"containers": [asks(cpu="0", memory=0)]}, {}),
    ("containers together", {"containers": [asks("x", cpu=1), asks("y", cpu="500m", gpu=1)]}, {"cpu": 1500, GPU: 1}),
    (
        "an init container that is larger",
        {"containers": [asks(cpu=1)], "initContainers": [asks("i", cpu=3)]},
        {"cpu": 3000},
    ),
    (
        "init containers don't add up",
        {"containers": [asks(cpu=1)], "initContainers": [asks("i", cpu=2), asks("j", cpu=2)]},
        {"cpu": 2000},
    ),
    ("a sidecar", {"containers": [asks(cpu=1)], "initContainers": [asks("s", cpu=1, always=True)]}, {"cpu": 2000}),
    (
        "a sidecar before an init container",
        {"containers": [asks(cpu=1)], "initContainers": [asks("s", cpu=1, always=True), asks("i", cpu=2)]},
        {"cpu": 3000},
    ),
    (
        "a sidecar after an init container",
        {"containers": [asks(cpu=1)], "initContainers": [asks("i", cpu=2), asks("s", cpu="500m", always=True)]},
        {"cpu": 2000},
    ),
    (
        "another restart policy is no sidecar",
        {"containers": [asks(cpu=1)], "initContainers": [{**asks("i", cpu=1), "restartPolicy": "OnFailure"}]},
        {"cpu": 1000},
    ),
    ("overhead", {"containers": [asks(cpu=1)], "overhead": {"cpu": "250m", "memory": "1"}}, {"cpu": 1250, "memory": 1}),
    (
        "of the pod as a whole",
        {"containers": [asks(cpu=1, memory=5)], "resources": {"requests": {"cpu": 2}}},
        {"cpu": 2000, "memory": 5},
    ),
    (
        "of the pod as a whole, not of devices",
        {"containers": [asks(gpu=1)], "resources": {"requests": {GPU: 5, "hugepages-2Mi": 4}}},
        {GPU: 1, "hugepages-2Mi": 4},
    ),
    ("a limit is a request", {"containers": [{"name": "m", "resources": {"limits": {"cpu": 1}}}]}, {"cpu": 1000}),
    (
        "but not before one",
        {"containers": [{"name": "m", "resources": {"limits": {"cpu": 2, "memory": 7}, "requests": {"cpu": 1}}}]},
        {"cpu": 1000, "memory": 7},
    ),
    (
        "nulls",
        {
            "containers": [{"name": "m", "resources": {"requests": None, "limits": None}}],
            "initContainers": None,
            "overhead": None,
            "resources": None,
        },
        {},
    ),
]


@pytest.mark.parametrize(("spec", "expected"), [pytest.param(*row[1:], id=row[0]) for row in REQUESTS])
def test_requests_are_summed_as_the_scheduler_sums_them(spec: Object, expected: dict[str, int]) -> None:
    found = pod_of(spec)
    assert dict(found.shape.requests) == expected
    assert found.held == found.shape.requests


def given(name: str = "main", **cpu: Any) -> Object:
    """A container's status: `allocated` and `actual` CPU."""
    allocated = {"allocatedResources": {"cpu": cpu["allocated"]}} if "allocated" in cpu else {}
    actual = {"resources": {"requests": {"cpu": cpu["actual"]}}} if "actual" in cpu else {}
    return {"name": name, **allocated, **actual}


HELD: list[tuple[str, Object, Object, int]] = [
    ("more is allocated still", {"containers": [asks(cpu=1)]}, {"containerStatuses": [given(allocated=2)]}, 2000),
    (
        "more is in use still",
        {"containers": [asks(cpu=1)]},
        {"containerStatuses": [given(allocated=1, actual=3)]},
        3000,
    ),
    (
        "more is asked than allocated yet",
        {"containers": [asks(cpu=2)]},
        {"containerStatuses": [given(allocated=1)]},
        2000,
    ),
    (
        "one of two",
        {"containers": [asks("x", cpu=1), asks("y", cpu=1)]},
        {"containerStatuses": [given("y", allocated=2)]},
        3000,
    ),
    (
        "a sidecar",
        {"containers": [asks(cpu=1)], "initContainers": [asks("s", cpu=1, always=True)]},
        {"initContainerStatuses": [given("s", allocated=2)]},
        3000,
    ),
    (
        "a container that is not there",
        {"containers": [asks(cpu=1)]},
        {"containerStatuses": [given("gone", allocated=9)]},
        1000,
    ),
    (
        "nulls",
        {"containers": [asks(cpu=1)]},
        {"containerStatuses": [{"name": "main", "allocatedResources": None, "resources": None}]},
        1000,
    ),
]


@pytest.mark.parametrize(("spec", "status", "cpu"), [pytest.param(*row[1:], id=row[0]) for row in HELD])
def test_a_pod_that_is_resized_in_place_holds_the_larger_amount(spec: Object, status: Object, cpu: int) -> None:
    assert dict(pod_of(spec, status).held)["cpu"] == cpu


def test_what_one_pod_holds_does_not_colour_another_that_asks_the_same_sum() -> None:
    status = {"containerStatuses": [given(allocated="150m")]}
    whole = bare({"containers": [asks(cpu="100m")], "resources": {"requests": {"cpu": "200m"}}}, status, name="whole")
    over = bare({"containers": [asks(cpu="100m")], "overhead": {"cpu": "100m"}}, status, name="over")
    for objects in ((whole, over), (over, whole)):
        assert {pod.name: dict(pod.held)["cpu"] for pod in read(*objects).pods} == {"whole": 200, "over": 250}


def test_host_ports_of_containers_and_sidecars_are_taken() -> None:
    spec = {
        "containers": [{"ports": [{"containerPort": 1}, {"hostPort": 80}, {"hostPort": 80}]}, {"ports": None}],
        "initContainers": [
            {"ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}], "restartPolicy": "Always"},
            {"ports": [{"hostPort": 99}]},
        ],
    }
    assert pod_of(spec).shape.host_ports == (HostPort("TCP", "0.0.0.0", 80), HostPort("UDP", "10.0.0.1", 53))


def owned(api_version: str, kind: str, *, controller: bool | None = True) -> Object:
    return {"apiVersion": api_version, "kind": kind, "name": "o", "uid": "u", "controller": controller}


OWNERS: list[tuple[str, Any, Owner | None]] = [
    ("a ReplicaSet", [owned("apps/v1", "ReplicaSet")], Owner("ReplicaSet", "o", "u")),
    (
        "a foreign StatefulSet",
        [owned("apps.kruise.io/v1", "StatefulSet")],
        Owner("StatefulSet.apps.kruise.io", "o", "u"),
    ),
    (
        "the controller among several",
        [owned("x/v1", "X", controller=False), owned("batch/v1", "Job")],
        Owner("Job", "o", "u"),
    ),
    ("no controller", [owned("apps/v1", "ReplicaSet", controller=None)], None),
    ("null", None, None),
]


@pytest.mark.parametrize(("references", "owner"), [pytest.param(*row[1:], id=row[0]) for row in OWNERS])
def test_the_owner_is_the_controller_with_a_foreign_group_in_its_kind(references: Any, owner: Owner | None) -> None:
    assert pod_of({}, ownerReferences=references).owner == owner


def test_marks_are_kept_and_other_annotations_are_not() -> None:
    ours = {labels.MIGRATION_TIME: "2027-01-15T07:59:00Z", "scheduling-retries": "3", labels.MIRROR: "x"}
    ours |= dict.fromkeys((labels.EVICT, labels.PREFER_NO_EVICTION, labels.SAFE_TO_EVICT, labels.DO_NOT_DISRUPT), "y")
    ours |= dict.fromkeys((labels.EVICTION_COST, labels.KOORDINATOR_COST, labels.DELETION_COST), "5")
    for key, value in ours.items():  # each is found by itself
        assert pod_of({}, annotations={key: value, "example.com/token": "secret"}).annotations == {key: value}
    assert pod_of({}, annotations={**ours, "example.com/token": "secret"}).annotations == ours


def test_when_a_pod_started_is_kept_where_a_mark_counts_from_then_on() -> None:
    status = {"startTime": "2027-01-15T08:00:00Z"}
    assert pod_of({}, status, annotations={labels.DO_NOT_DISRUPT: "4h"}).started == 1_800_000_000
    assert pod_of({}, {}, annotations={labels.DO_NOT_DISRUPT: "4h"}).started is None
    assert pod_of({}, status).started is None


def test_marks_are_found_however_json_writes_them() -> None:
    text = json.dumps(dumps.dump(bare({}, annotations={labels.MIRROR: "x"}))).replace("/", "\\/")
    assert read_bytes(text.encode()).pods[0].static


VOLUMES: list[tuple[str, Object, tuple[int, int, int]]] = [
    ("a claim", {"persistentVolumeClaim": {"claimName": "c"}}, (1, 0, 0)),
    ("an ephemeral claim", {"ephemeral": {"volumeClaimTemplate": {}}}, (1, 1, 0)),
    ("a host path", {"hostPath": {"path": "/x"}}, (0, 1, 0)),
    ("an empty dir", {"emptyDir": {}}, (0, 1, 0)),
    ("an empty dir in memory", {"emptyDir": {"medium": "Memory"}}, (0, 0, 0)),
    ("an inline disk", {"gcePersistentDisk": {"pdName": "x"}}, (0, 0, 1)),
    ("a config map", {"configMap": {"name": "x"}}, (0, 0, 0)),
    ("no host path", {"hostPath": None, "configMap": {"name": "x"}}, (0, 0, 0)),
    ("a claim and no empty dir", {"persistentVolumeClaim": {"claimName": "c"}, "emptyDir": None}, (1, 0, 0)),
]


@pytest.mark.parametrize(("source", "counts"), [pytest.param(*row[1:], id=row[0]) for row in VOLUMES])
def test_volumes_are_told_apart_and_null_is_none(source: Object, counts: tuple[int, int, int]) -> None:
    shape = pod_of({"volumes": [{"name": "v", **source}]}).shape
    assert (len(shape.claims), len(shape.local_storage), len(shape.inline_disks)) == counts


def test_pods_of_one_template_share_their_shape_and_labels() -> None:
    first, second = (dumps.pod(name, "a", labels={"app": "web"}) for name in ("x", "y"))
    one, other = read(first, second).pods
    assert one.shape is other.shape
    assert one.labels is other.labels


PRIORITIES: list[tuple[str, Object, int]] = [
    ("its own", {"priority": 7, "priorityClassName": "high"}, 7),
    ("zero of its own", {"priority": 0, "priorityClassName": "high"}, 0),
    ("its class's", {"priorityClassName": "high"}, 1000),
    ("an unknown class's", {"priorityClassName": "gone"}, 0),
    ("the system's without its class", {"priorityClassName": "system-node-critical"}, 2_000_001_000),
    ("none", {}, 0),
]


@pytest.mark.parametrize(("spec", "priority"), [pytest.param(*row[1:], id=row[0]) for row in PRIORITIES])
def test_priorities_come_from_the_pod_or_its_class_in_either_order(spec: Object, priority: int) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    for objects in ([high, bare(spec)], [bare(spec), high]):
        assert read(*objects).pods[0].priority == priority
