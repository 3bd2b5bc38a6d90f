"""Objects other than pods, objects that cannot be understood, duplicates, and input in any order."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from rescheduler.model import labels
from rescheduler.model.snapshot import ClusterSnapshot
from tests.support import dumps
from tests.support.dumps import Object
from tests.support.examples import seeds
from tests.support.planning import MAINTENANCE, planned, read


def versioned(thing: Object, version: str) -> Object:
    return {**thing, "metadata": {**thing["metadata"], "resourceVersion": version}}


def seen(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """All that a snapshot says, comparably: rows compare by identity, their texts by content."""
    texts = {name: repr(getattr(snapshot, name)) for name in ("nodes", "pods", "budgets", "usage", "warnings")}
    tables = ("namespaces", "workloads", "claims", "volumes", "storage_classes", "attach_limits")
    return {**texts, **{name: getattr(snapshot, name) for name in tables}, "kinds": snapshot.kinds}


@pytest.mark.parametrize(
    ("status", "generation", "allowed"),
    [
        pytest.param({"disruptionsAllowed": 2, "observedGeneration": 3}, 3, 2, id="up to date"),
        pytest.param({"disruptionsAllowed": 2, "observedGeneration": 2}, 3, 0, id="lagging"),
        pytest.param({"disruptionsAllowed": 2}, 1, 0, id="never observed"),
        pytest.param({"disruptionsAllowed": 2}, None, 2, id="no generation"),
        pytest.param({}, 1, None, id="not reckoned yet"),
        pytest.param(None, 1, None, id="null"),
    ],
)
def test_a_budget_whose_status_lags_behind_allows_nothing(status: Any, generation: int | None, allowed: int) -> None:
    thing = dumps.pdb("web", 1)
    thing["metadata"]["generation"] = generation
    assert read({**thing, "status": status}).budgets[0].allowed == allowed


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        pytest.param([{"type": "Ready", "status": "True"}], True, id="ready"),
        pytest.param([{"type": "Ready", "status": "False"}], False, id="not ready"),
        pytest.param([{"type": "Ready", "status": "Unknown"}], False, id="unknown"),
        pytest.param([{"type": "MemoryPressure", "status": "False"}], True, id="another condition"),
        pytest.param(None, True, id="null"),
    ],
)
def test_a_node_is_ready_as_its_condition_says(conditions: Any, ready: bool) -> None:
    thing = dumps.node("a")
    thing["status"]["conditions"] = conditions
    assert read(thing).nodes[0].ready is ready


@pytest.mark.parametrize("source", ["local", "hostPath"])
def test_a_volume_with_null_for_a_local_source_is_not_local(source: str) -> None:
    spec = {"csi": {"driver": "d", "volumeHandle": "h"}, source: None}
    found = read({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": spec})
    assert not found.volumes["v"].local


def broken(thing: Object) -> Object:
    """The same object with a field that cannot be read."""
    spec = {"nodeName": thing["spec"].get("nodeName"), "containers": 7} if thing["kind"] == "Pod" else 7
    return {**thing, "spec": spec}


THINGS = [dumps.node("odd"), dumps.pod("odd", "a"), dumps.pdb("odd", 1), dumps.deployment("odd", ["a"])[0]]
SAFE = {
    "Node": "nothing is moved there",
    "Pod": "it is not moved, and nothing is moved to its node",
    "PodDisruptionBudget": "nothing in its namespace is evicted",
    "Deployment": "its pods are not handed off",
}


@pytest.mark.parametrize("thing", [pytest.param(thing, id=thing["kind"]) for thing in THINGS])
def test_what_cannot_be_read_is_named_and_made_safe(thing: Object) -> None:
    found = read(dumps.node("a"), broken(thing))
    (warning,) = found.warnings
    assert warning.startswith(f"f.json: {thing['kind']} ")
    assert "odd: spec" in warning
    assert warning.endswith(SAFE[thing["kind"]])


def test_nothing_is_moved_to_a_node_with_a_pod_that_cannot_be_read() -> None:
    maintained = dumps.node("m", labels={"scheduler.alpha.kubernetes.io/maintenance": "true"})
    found = read(maintained, dumps.node("a"), dumps.pod("p", "m"), broken(dumps.pod("odd", "a")))
    plan = planned(found, MAINTENANCE)
    assert plan.moves == ()
    assert "1 NodeProblem" in plan.rejections[0].reason


@pytest.mark.parametrize("thing", [pytest.param(thing, id=thing["kind"]) for thing in THINGS])
def test_an_unreadable_object_and_a_readable_one_of_the_same_name_do_no_harm_in_any_order(thing: Object) -> None:
    healthy, odd = versioned(thing, "2"), versioned(broken(thing), "1")
    one, other = (read(dumps.node("a"), *order) for order in ((healthy, odd), (odd, healthy)))
    assert seen(one) == seen(other)


def test_a_node_with_two_unreadable_pods_says_the_same_in_any_order() -> None:
    odd = [broken(dumps.pod(name, "a")) for name in ("x", "y")]
    assert seen(read(dumps.node("a"), *odd)) == seen(read(dumps.node("a"), *reversed(odd)))


def _named(snapshot: ClusterSnapshot) -> tuple[int, int]:
    return dict(snapshot.nodes[0].allocatable)["cpu"], len(snapshot.warnings)


@pytest.mark.parametrize(
    ("versions", "cpu"),
    [
        pytest.param({"1": 1, "2": 2}, 2000, id="the newer"),
        pytest.param({"9": 9, "10": 10}, 10000, id="as numbers, not texts"),
        pytest.param({"9": 9, "x": 10}, 9000, id="a number before what is none"),
        pytest.param({"3": 3, "1": 1, "2": 2}, 3000, id="of three"),
    ],
)
def test_of_objects_with_one_name_the_newest_counts_in_any_order(versions: dict[str, int], cpu: int) -> None:
    nodes = [versioned(dumps.node("a", amount), version) for version, amount in versions.items()]
    for order in itertools.permutations(nodes):
        assert _named(read(*order)) == (cpu, 1)


def test_objects_of_one_name_and_version_give_one_answer_in_any_order() -> None:
    nodes = [dumps.node("a", 1), dumps.node("a", 2)]
    assert _named(read(*nodes)) == _named(read(*reversed(nodes)))


def test_a_resource_version_without_end_does_no_harm() -> None:
    assert [found.name for found in read(versioned(dumps.node("a"), "9" * 5000)).nodes] == ["a"]


def test_of_pods_with_one_name_the_newest_ones_priority_counts() -> None:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 1), ("high", 1000))
    ]
    old = versioned(dumps.pod("p", "a", priorityClassName="high"), "1")
    newer = [(dumps.pod("p", "a", priority=5), 5), (dumps.pod("p", "a", priorityClassName="low"), 1)]
    for found, priority in newer:
        new = versioned(found, "2")
        for order in ((old, new), (new, old)):
            assert read(*classes, *order).pods[0].priority == priority


@pytest.mark.parametrize("priority", [2**31, -(2**31) - 1, 10**30])
def test_a_priority_that_kubernetes_does_not_know_is_told_of(priority: int) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "x"}, "value": priority}
    found = read(dumps.node("a"), dumps.node("b"), dumps.pod("p", "a", priority=priority), high)
    assert [warning.partition(": Expected")[0] for warning in found.warnings] == [
        "f.json: Pod default/p: spec.priority",
        "f.json: PriorityClass x: value",
    ]
    assert planned(found).moves == ()


def test_pods_on_nodes_that_are_not_there_are_named() -> None:
    found = read(dumps.node("a"), *(dumps.pod(f"p{n}", "gone") for n in range(4)))
    said = "on nodes that are not in the input, so not moved: default/p0, default/p1, default/p2 and 1 more"
    assert found.warnings == (said,)


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        pytest.param({"apiVersion": "v1", "kind": "Pod"}, "a Pod without metadata.name is ignored", id="no metadata"),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": ""}}, "without metadata.name", id="no name"
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod", "metadata": 7}, "that cannot be read is ignored", id="a number"
        ),
        pytest.param({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 7}}, "cannot be read", id="a name of 7"),
    ],
)
def test_what_has_no_name_is_left_out_with_a_warning(thing: Object, words: str) -> None:
    found = read(dumps.node("a"), thing)
    assert found.pods == ()
    assert words in found.warnings[0]


@pytest.mark.parametrize(("api_version", "count"), [("v1", 1), (None, 1), ("example.com/v1", 0), ("apps/v1", 0)])
def test_another_groups_kind_is_not_ours(api_version: str | None, count: int) -> None:
    assert len(read({**dumps.node("a"), "apiVersion": api_version}).nodes) == count


def test_the_same_objects_in_any_order_are_the_same_snapshot() -> None:
    objects = [
        *dumps.hot_cluster(),
        dumps.pdb("web", 1),
        *dumps.deployment("shop", ["b"], namespace="shop"),
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9},
        dumps.pod("ranked", "a", priorityClassName="high"),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "x"}}},
        broken(dumps.pod("odd", "c")),
        versioned(dumps.node("a", "2"), "1"),
    ]
    expected = seen(read(*objects))
    for seed in seeds(few=5, many=20):
        random.Random(seed).shuffle(objects)
        assert seen(read(*objects)) == expected


AUTOSCALER: Object = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 9},
    "status": {"currentReplicas": 2, "desiredReplicas": 5, "lastScaleTime": "2020-01-15T07:59:00Z"},
}


def test_an_autoscaler_says_what_it_scales_and_how_far_it_is() -> None:
    (found,) = read(AUTOSCALER).autoscalers
    assert (found.kind, found.namespace, found.target) == ("Deployment", "shop", "web")
    assert (found.current, found.desired, found.scaled, found.active) == (2, 5, 1579075140.0, True)


@pytest.mark.parametrize(
    ("type_", "status", "active"),
    [("ScalingActive", "False", False), ("AbleToScale", "False", False), ("ScalingLimited", "False", True)],
)
def test_an_autoscaler_that_cannot_reckon_or_scale_is_not_active(type_: str, status: str, active: bool) -> None:
    conditions = [{"type": type_, "status": status}]
    (found,) = read({**AUTOSCALER, "status": {"conditions": conditions}}).autoscalers
    assert (found.active, found.current, found.desired) == (active, 0, 0)


def test_marks_of_nodes_are_kept_and_other_annotations_are_not() -> None:
    thing, ours = dumps.node("a"), {labels.SCALE_DOWN_DISABLED: "true", "rescheduler.io/price": "0.5"}
    thing["metadata"]["annotations"].update(ours)
    (found,) = read(thing).nodes
    assert dict(found.annotations) == ours
    assert found.kept == labels.SCALE_DOWN_DISABLED


def test_priority_classes_are_known_by_name() -> None:
    thing = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    assert read(thing).priority_classes == {"high": 7}
