"""Strategic merge patches of built-in kinds: lists by their keys, directives, and the order that comes of it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubemini.kinds import BUDGET, DEPLOYMENT, NODE, POD, Kind
from kubemini.patches import STRATEGIC, patched
from kubemini.refusals import Json, Refusal

NAMES = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


def deployment(**pod: Any) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "finalizers": ["x/a", "x/b"]},
        "spec": {
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {"spec": {"containers": [container("a"), container("b"), container("c")], **pod}},
        },
    }


def container(name: str, **fields: Any) -> Json:
    return {"name": name, "image": "old", **fields}


def pod_of(patch: Json, before: Json | None = None) -> Json:
    after = strategic(DEPLOYMENT, before or deployment(), {"spec": {"template": {"spec": patch}}})
    spec: Json = after["spec"]["template"]["spec"]
    return spec


def strategic(kind: Kind, before: Json, patch: Json) -> Json:
    return patched(kind, STRATEGIC, json.dumps(patch).encode(), before)


def names(items: list[Json]) -> str:
    return "".join(each["name"] for each in items)


def refused(patch: Json, before: Json | None = None) -> Refusal:
    with pytest.raises(Refusal) as caught:
        pod_of(patch, before)
    return caught.value


def test_containers_are_merged_by_name_and_new_ones_come_first() -> None:
    found = pod_of({"containers": [{"name": "b", "image": "new"}, {"name": "d", "image": "new"}]})["containers"]
    assert names(found) == "abdc"
    assert [each["image"] for each in found] == ["old", "new", "new", "old"]


def test_a_new_container_alone_stands_in_front() -> None:
    assert names(pod_of({"containers": [{"name": "z", "image": "new"}]})["containers"]) == "zabc"


@pytest.mark.parametrize(
    ("field", "key", "there", "given"),
    [
        ("env", "name", ["A", "B"], "B"),
        ("ports", "containerPort", [80, 81], 81),
        ("volumeMounts", "mountPath", ["/a", "/b"], "/b"),
        ("volumeDevices", "devicePath", ["/a", "/b"], "/b"),
    ],
)
def test_lists_in_containers_are_merged_by_their_keys(field: str, key: str, there: list[Any], given: Any) -> None:
    before = deployment(containers=[container("a", **{field: [{key: each} for each in there]})])
    patch = {"containers": [{"name": "a", field: [{key: given, "marked": "yes"}]}]}
    items = pod_of(patch, before)["containers"][0][field]
    assert len(items) == 2
    assert {key: given, "marked": "yes"} in items


@pytest.mark.parametrize(
    ("field", "key", "there", "given"),
    [
        ("initContainers", "name", ["a", "b"], "b"),
        ("ephemeralContainers", "name", ["a", "b"], "b"),
        ("volumes", "name", ["a", "b"], "b"),
        ("imagePullSecrets", "name", ["a", "b"], "b"),
        ("schedulingGates", "name", ["x/a", "x/b"], "x/b"),
        ("hostAliases", "ip", ["10.0.0.1", "10.0.0.2"], "10.0.0.2"),
        ("topologySpreadConstraints", "topologyKey", ["zone", "host"], "host"),
    ],
)
def test_lists_in_pods_are_merged_by_their_keys(field: str, key: str, there: list[str], given: str) -> None:
    before = deployment(**{field: [{key: each} for each in there]})
    items = pod_of({field: [{key: given}, {key: "new"}]}, before)[field]
    assert {each[key] for each in items} == {*there, "new"}


@pytest.mark.parametrize("field", ["tolerations", "readinessGates"])
def test_atomic_lists_are_replaced(field: str) -> None:
    before = deployment(**{field: [{"key": "old", "conditionType": "old"}]})
    assert pod_of({field: [{"conditionType": "new"}]}, before)[field] == [{"conditionType": "new"}]


def test_finalizers_and_owners_are_merged() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    before = deployment()
    before["metadata"]["ownerReferences"] = [{**owner, "uid": "1"}]
    patch = {"metadata": {"finalizers": ["x/c"], "ownerReferences": [{**owner, "uid": "2"}]}}
    metadata = strategic(DEPLOYMENT, before, patch)["metadata"]
    assert set(metadata["finalizers"]) == {"x/a", "x/b", "x/c"}
    assert {each["uid"] for each in metadata["ownerReferences"]} == {"1", "2"}


def test_conditions_and_addresses_of_a_node_are_merged_by_type_and_its_taints_replaced() -> None:
    before: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "spec": {"taints": [{"key": "old", "effect": "NoSchedule"}]},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "1"}],
        },
    }
    patch = {
        "spec": {"taints": [{"key": "new", "effect": "NoSchedule"}]},
        "status": {
            "conditions": [{"type": "Ready", "status": "False"}],
            "addresses": [{"type": "Hostname", "address": "n"}],
        },
    }
    after = strategic(NODE, before, patch)
    assert [each["key"] for each in after["spec"]["taints"]] == ["new"]
    assert {(each["type"], each["status"]) for each in after["status"]["conditions"]} == {
        ("Ready", "False"),
        ("Other", "True"),
    }
    assert len(after["status"]["addresses"]) == 2


def test_conditions_of_a_pod_are_merged_by_type() -> None:
    conditions = [{"type": "PodScheduled", "status": "True"}]
    before: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"conditions": conditions}}
    patch = {"status": {"conditions": [{"type": "x/y", "status": "True"}]}}
    assert len(strategic(POD, before, patch)["status"]["conditions"]) == 2


def test_the_selector_of_a_budget_is_replaced() -> None:
    spec = {"selector": {"matchLabels": {"a": "1"}}, "minAvailable": 1}
    before: Json = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    after = strategic(BUDGET, before, {"spec": {"selector": {"matchLabels": {"b": "2"}}}})
    assert after["spec"] == {"selector": {"matchLabels": {"b": "2"}}, "minAvailable": 1}


def test_an_item_is_deleted_by_directive() -> None:
    assert names(pod_of({"containers": [{"name": "b", "$patch": "delete"}]})["containers"]) == "ac"
    assert names(pod_of({"containers": [{"name": "zz", "$patch": "delete"}]})["containers"]) == "abc"


def test_a_list_or_an_object_is_replaced_by_directive() -> None:
    containers = [{"$patch": "replace"}, {"name": "z", "image": "new"}]
    assert names(pod_of({"containers": containers})["containers"]) == "z"
    after = strategic(DEPLOYMENT, deployment(), {"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}})
    assert after["spec"]["strategy"] == {"type": "Recreate"}
    after = strategic(DEPLOYMENT, deployment(), {"spec": {"strategy": {"$patch": "delete"}}})
    assert after["spec"]["strategy"] == {}


def test_keys_that_are_not_retained_go() -> None:
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic(DEPLOYMENT, deployment(), patch)["spec"]["strategy"] == {"type": "Recreate"}


def test_what_is_given_must_be_retained() -> None:
    with pytest.raises(Refusal) as caught:
        strategic(DEPLOYMENT, deployment(), {"spec": {"strategy": {"$retainKeys": ["x"], "type": "Recreate"}}})
    assert caught.value.code == 400


def test_members_are_deleted_from_a_list_of_texts() -> None:
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a", "x/none"]}}
    assert strategic(DEPLOYMENT, deployment(), patch)["metadata"]["finalizers"] == ["x/b"]


def test_the_order_of_a_list_can_be_set() -> None:
    order = [{"name": "c"}, {"name": "a"}]
    assert names(pod_of({"$setElementOrder/containers": order})["containers"]) == "bca"
    given = {"$setElementOrder/containers": [{"name": "a"}, {"name": "z"}], "containers": [container("z")]}
    assert names(pod_of(given)["containers"]) == "azbc"


@pytest.mark.parametrize(
    "patch",
    [
        {"containers": [{"image": "nameless"}]},
        {"containers": [{"$patch": "delete"}]},
        {"containers": [{"name": "a", "$patch": "merge"}]},
        {"containers": [{"name": "a", "$patch": "nonsense"}]},
        {"containers": ["text"]},
        {"securityContext": {"$patch": "nonsense"}},
        {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "z"}]},
        {"$setElementOrder/containers": [{"name": "a"}], "containers": None},
        {"$setElementOrder/tolerations": [{"key": "a"}]},
    ],
)
def test_a_patch_without_sense_is_refused_as_the_api_server_does(patch: Json) -> None:
    assert refused(patch, deployment(securityContext={"runAsUser": 1}, tolerations=[{"key": "a"}])).code == 500


def test_null_in_what_is_new_means_nothing() -> None:
    assert pod_of({"affinity": {"podAffinity": None, "nodeAffinity": {}}})["affinity"] == {"nodeAffinity": {}}


@given(NAMES, NAMES)
def test_merged_lists_have_the_items_of_both_each_once_and_those_of_the_patch_in_its_order(
    there: list[str], given: list[str]
) -> None:
    before = deployment(volumes=[{"name": each} for each in there])
    found = names(pod_of({"volumes": [{"name": each} for each in given]}, before)["volumes"])
    assert sorted(found) == sorted({*there, *given})
    assert [each for each in found if each in given] == given
    assert [each for each in found if each not in given] == [each for each in there if each not in given]


@given(NAMES, NAMES)
def test_a_strategic_patch_applied_twice_is_the_same_as_once(there: list[str], given: list[str]) -> None:
    before = deployment(volumes=[{"name": each, "emptyDir": {}} for each in there])
    patch = {"volumes": [{"name": each, "hostPath": {"path": "/x"}} for each in given]}
    once = {"spec": {"template": {"spec": pod_of(copy.deepcopy(patch), before)}}}
    again = pod_of(patch, deployment() | {"spec": once["spec"]})
    assert again == once["spec"]["template"]["spec"]
