"""Merge and JSON patches: what they make of an object, and how one that cannot be is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubemini.custom_kind import CustomKind
from kubemini.json_patch import PatchFailed, json_patched
from kubemini.kinds import DEPLOYMENT, POD, Kind
from kubemini.patches import JSON_PATCH, MERGE, STRATEGIC, merge_patched, patched
from kubemini.refusals import Json, Refusal

CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
KEYS = st.sampled_from(["a", "b", "c", "x/y", "m~n", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab~/", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


def config_map(**data: str) -> Json:
    metadata = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": {"x": "1"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def merge(patch: Any, before: Json | None = None, kind: Kind = CONFIG_MAP) -> Json:
    return patched(kind, MERGE, json.dumps(patch).encode(), before or config_map(k="v"))


def operate(*operations: Json, before: Json | None = None) -> Json:
    return patched(CONFIG_MAP, JSON_PATCH, json.dumps(operations).encode(), before or config_map(k="v", n="m"))


def refused(kind: Kind, form: str, body: str | bytes, before: Json | None = None) -> Refusal:
    raw = body if isinstance(body, bytes) else body.encode()
    with pytest.raises(Refusal) as caught:
        patched(kind, form, raw, before or config_map(k="v"))
    return caught.value


def test_a_merge_patch_adds_changes_and_deletes_by_null() -> None:
    after = merge({"data": {"k": None, "new": "1"}, "metadata": {"labels": {"x": "2"}}})
    assert after["data"] == {"new": "1"}
    assert after["metadata"]["labels"] == {"x": "2"}


def test_a_merge_patch_replaces_lists_as_a_whole_without_nulls_in_their_objects() -> None:
    spec = {"template": {"spec": {"containers": [{"name": "old"}]}}}
    before: Json = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    containers = [{"name": "new", "image": None, "resources": {"requests": {"cpu": None}}}]
    after = merge({"spec": {"template": {"spec": {"containers": containers}}}}, before, DEPLOYMENT)
    assert after["spec"]["template"]["spec"]["containers"] == [{"name": "new", "resources": {"requests": {}}}]


def test_a_patch_leaves_the_object_that_it_was_made_from_as_it_was() -> None:
    before = config_map(k="v")
    untouched = copy.deepcopy(before)
    for form, patch in ((MERGE, {"data": {"k": "w"}}), (STRATEGIC, {"data": {"k": "w"}})):
        patched(CONFIG_MAP, form, json.dumps(patch).encode(), before)
    operate({"op": "replace", "path": "/data/k", "value": "w"}, before=before)
    assert before == untouched


@pytest.mark.parametrize("body", ["{", "", "data: {z: 1}"])
@pytest.mark.parametrize("form", [MERGE, STRATEGIC, JSON_PATCH])
def test_what_is_no_json_is_a_bad_request(form: str, body: str) -> None:
    assert refused(CONFIG_MAP, form, body).code == 400


@pytest.mark.parametrize(
    ("form", "body"),
    [(MERGE, "[]"), (MERGE, "3"), (MERGE, "null"), (STRATEGIC, '"x"'), (JSON_PATCH, "{}"), (JSON_PATCH, '["x"]')],
)
def test_a_patch_of_the_wrong_form_is_a_bad_request(form: str, body: str) -> None:
    assert refused(CONFIG_MAP, form, body).code == 400


def test_an_unknown_content_type_is_refused_with_those_that_are_known() -> None:
    refusal = refused(CONFIG_MAP, "application/json", "{}")
    assert (refusal.code, refusal.reason) == (415, "UnsupportedMediaType")
    assert STRATEGIC in refusal.message


def test_a_content_type_may_have_parameters() -> None:
    after = patched(CONFIG_MAP, f"{MERGE}; charset=utf-8", b'{"data":{"z":"1"}}', config_map())
    assert after["data"] == {"z": "1"}


def test_custom_resources_take_no_strategic_patch() -> None:
    widget = CustomKind("example.com", "v1", "Widget", "widgets", custom=True, schema={"type": "object"})
    refusal = refused(widget, STRATEGIC, "{}", {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {}})
    assert refusal.code == 415
    assert STRATEGIC not in refusal.message


@pytest.mark.parametrize(
    ("patch", "where"),
    [
        ({"data": {"k": 3}}, "data.k"),
        ({"data": []}, "data"),
        ({"metadata": {"labels": ["x"]}}, "metadata.labels"),
        ({"metadata": {"labels": {"x": 1}}}, "metadata.labels.x"),
    ],
)
@pytest.mark.parametrize("form", [MERGE, STRATEGIC])
def test_a_value_of_the_wrong_type_is_a_fault_of_the_patch(form: str, patch: Json, where: str) -> None:
    refusal = refused(CONFIG_MAP, form, json.dumps(patch))
    assert (refusal.code, refusal.reason) == (422, "Invalid")
    assert refusal.details["causes"][0]["field"] == "patch"
    assert f"{where}: cannot unmarshal" in refusal.message


@pytest.mark.parametrize("patch", [{"metadata": None}, {"metadata": {"name": None}}])
def test_a_patch_that_takes_the_name_away_is_refused(patch: Json) -> None:
    refusal = refused(CONFIG_MAP, MERGE, json.dumps(patch))
    assert refusal.code == 400
    assert "name must be provided" in refusal.message


def test_a_patch_cannot_move_an_object_to_another_namespace_or_kind() -> None:
    assert refused(CONFIG_MAP, MERGE, '{"metadata":{"namespace":"b"}}').code == 400
    assert refused(CONFIG_MAP, MERGE, '{"kind":"Pod"}').code == 422
    assert patched(CONFIG_MAP, STRATEGIC, b'{"kind":"Pod"}', config_map())["kind"] == "ConfigMap"


def test_a_namespace_that_a_patch_takes_away_comes_back() -> None:
    assert merge({"metadata": {"namespace": None}})["metadata"]["namespace"] == "default"


@pytest.mark.parametrize(
    ("operations", "data"),
    [
        ([{"op": "add", "path": "/data/z", "value": "1"}], {"k": "v", "n": "m", "z": "1"}),
        ([{"op": "remove", "path": "/data/k"}], {"n": "m"}),
        ([{"op": "replace", "path": "/data/k", "value": "w"}], {"k": "w", "n": "m"}),
        ([{"op": "replace", "path": "/data/new", "value": "w"}], {"k": "v", "n": "m", "new": "w"}),
        ([{"op": "move", "from": "/data/k", "path": "/data/q"}], {"n": "m", "q": "v"}),
        ([{"op": "copy", "from": "/data/k", "path": "/data/q"}], {"k": "v", "n": "m", "q": "v"}),
        ([{"op": "test", "path": "/data/k", "value": "v"}], {"k": "v", "n": "m"}),
        ([{"op": "test", "path": "/data/none", "value": None}], {"k": "v", "n": "m"}),
        ([], {"k": "v", "n": "m"}),
    ],
)
def test_json_patch_operations_do_what_they_say(operations: list[Json], data: Json) -> None:
    assert operate(*operations)["data"] == data


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/data/none"},
        {"op": "add", "path": "/nowhere/deep", "value": "1"},
        {"op": "add", "path": "/data/k/deep", "value": "1"},
        {"op": "test", "path": "/data/k", "value": "other"},
        {"op": "test", "path": "/data/none", "value": "v"},
        {"op": "move", "from": "/data/none", "path": "/data/q"},
        {"op": "move", "from": "/data", "path": "/data/q"},
        {"op": "invent", "path": "/data/q"},
        {"op": "add", "value": "x"},
        {"op": "remove", "path": ""},
        {"op": "add", "path": "", "value": {}},
    ],
)
def test_an_operation_that_fails_makes_the_whole_patch_unprocessable(operation: Json) -> None:
    refusal = refused(CONFIG_MAP, JSON_PATCH, json.dumps([operation]))
    assert (refusal.code, refusal.reason) == (422, "Invalid")
    assert refusal.message == "the server rejected our request due to an error in our request"


def test_pointers_reach_keys_with_slashes_and_tildes() -> None:
    after = operate(
        {"op": "add", "path": "/metadata/labels/example.com~1a", "value": "1"},
        {"op": "add", "path": "/data/a~0b", "value": "2"},
    )
    assert after["metadata"]["labels"] == {"x": "1", "example.com/a": "1"}
    assert after["data"]["a~b"] == "2"


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("0", ["x/n", "x/a", "x/b"]),
        ("-", ["x/a", "x/b", "x/n"]),
        ("-1", ["x/a", "x/b", "x/n"]),
        ("1", ["x/a", "x/n", "x/b"]),
    ],
)
def test_lists_take_items_by_index_at_the_end_and_from_the_end(path: str, wanted: list[str]) -> None:
    added = {"op": "add", "path": f"/metadata/finalizers/{path}", "value": "x/n"}
    after = operate({"op": "add", "path": "/metadata/finalizers", "value": ["x/a", "x/b"]}, added)
    assert after["metadata"]["finalizers"] == wanted


@pytest.mark.parametrize("index", ["7", "x", "1e0", "²", "-9", ""])
def test_an_index_outside_a_list_is_refused(index: str) -> None:
    with pytest.raises(PatchFailed):
        json_patched([{"op": "add", "path": f"/l/{index}", "value": 1}], {"l": [1]})


def test_wrong_types_deep_in_a_pod_are_named_by_their_path() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    refusal = refused(POD, MERGE, '{"spec":{"containers":[{"name":"c","image":3}]}}', pod)
    assert "spec.containers[0].image: cannot unmarshal number" in refusal.message


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_applied_twice_is_the_same_as_once(target: Json, patch: Json) -> None:
    once = merge_patched(patch, target)
    assert merge_patched(patch, once) == once


@given(OBJECTS)
def test_an_empty_merge_patch_changes_nothing(target: Json) -> None:
    assert merge_patched({}, target) == target


@given(OBJECTS, OBJECTS)
def test_after_a_merge_patch_what_it_names_is_as_it_says(target: Json, patch: Json) -> None:
    after = merge_patched(patch, target)
    for key, value in patch.items():
        if value is None:
            assert key not in after
        elif not isinstance(value, dict | list):
            assert after[key] == value
    assert {key: after[key] for key in target.keys() - patch.keys()} == {
        key: target[key] for key in target.keys() - patch.keys()
    }


@given(OBJECTS, VALUES, KEYS)
def test_what_is_added_is_found_and_can_be_taken_away_again(document: Json, value: Any, key: str) -> None:
    path = "/" + key.replace("~", "~0").replace("/", "~1")
    before = {each: document[each] for each in document.keys() - {key}}
    added = {"op": "add", "path": path, "value": value}
    after = json_patched([added, {"op": "test", "path": path, "value": value}], copy.deepcopy(before))
    assert after == {**before, key: value}
    assert json_patched([{"op": "remove", "path": path}], after) == before


@given(st.lists(st.integers(), max_size=4), st.integers(0, 4), st.integers())
def test_an_item_put_into_a_list_and_removed_leaves_the_list(items: list[int], index: int, item: int) -> None:
    document = {"l": list(items)}
    added = {"op": "add", "path": f"/l/{index}", "value": item}
    if index > len(items):
        with pytest.raises(PatchFailed):
            json_patched([added], document)
    else:
        assert json_patched([added, {"op": "remove", "path": f"/l/{index}"}], document) == {"l": items}
