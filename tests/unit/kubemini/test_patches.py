"""JSON, merge and strategic merge patches, and apply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubemini.api import Api, Target
from kubemini.custom import CustomKind
from kubemini.errors import Json, StatusError
from kubemini.kinds import DEPLOYMENT, MUTATING_WEBHOOKS, SERVICE, Kind
from kubemini.patches import JSON_PATCH, MERGE, STRATEGIC, apply_patch, apply_server_side


def patch(sort: str, change: Any, kind: Kind = DEPLOYMENT, **fields: Any) -> Json:
    """What a patch makes of an object with these fields, without its head."""
    before = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "a", "namespace": "n"}, **fields}
    after = apply_patch(kind, sort, json.dumps(change).encode(), before)
    return {key: value for key, value in after.items() if key in fields or key in change}


def test_a_merge_patch_merges_objects_deletes_nulls_and_replaces_lists() -> None:
    change = {"spec": {"a": None, "b": {"c": 1}, "list": [3]}}
    assert patch(MERGE, change, spec={"a": 1, "b": {"d": 2}, "list": [1, 2]}) == {
        "spec": {"b": {"d": 2, "c": 1}, "list": [3]}
    }


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ({"env": [{"name": "a"}]}, {"env": [{"name": "b"}]}, {"env": [{"name": "a"}, {"name": "b"}]}),
        ({"env": [{"name": "a"}]}, {"env": [{"name": "a", "value": "1"}]}, {"env": [{"name": "a", "value": "1"}]}),
        ({"env": [{"name": "a"}, {"name": "b"}]}, {"env": [{"name": "a", "$patch": "delete"}]},
         {"env": [{"name": "b"}]}),
        ({"env": [{"name": "a"}]}, {"env": [{"name": "b"}, {"$patch": "replace"}]}, {"env": [{"name": "b"}]}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
        ({"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, {"finalizers": ["a", "b"]}),
        ({"env": [{"name": "a"}]}, {"$setElementOrder/env": [{"name": "a"}]}, {"env": [{"name": "a"}]}),
        ({"a": 1, "b": 2}, {"$retainKeys": ["b"], "b": 3}, {"b": 3}),
        ({"map": {"a": 1}}, {"map": {"b": 2, "$patch": "replace"}}, {"map": {"b": 2}}),
        ({"ports": [{"containerPort": 80}]}, {"ports": [{"containerPort": 80, "name": "x"}]},
         {"ports": [{"containerPort": 80, "name": "x"}]}),
    ],
)  # fmt: skip
def test_a_strategic_patch_merges_lists_by_key_and_heeds_directives(before: Json, change: Json, after: Json) -> None:
    assert patch(STRATEGIC, {"spec": change}, spec=before) == {"spec": after}


def test_ports_of_a_service_are_merged_by_their_port() -> None:
    after = patch(STRATEGIC, {"spec": {"ports": [{"port": 80, "name": "x"}]}}, SERVICE, spec={"ports": [{"port": 80}]})
    assert after == {"spec": {"ports": [{"port": 80, "name": "x"}]}}


def test_a_json_patch_does_its_operations_in_order() -> None:
    steps = [
        {"op": "test", "path": "/spec/a", "value": 1},
        {"op": "replace", "path": "/spec/a", "value": 2},
        {"op": "add", "path": "/spec/list/-", "value": 3},
    ]
    assert patch(JSON_PATCH, steps, spec={"a": 1, "list": []}) == {"spec": {"a": 2, "list": [3]}}


@pytest.mark.parametrize(
    ("sort", "change", "code"),
    [
        (JSON_PATCH, [{"op": "test", "path": "/spec/a", "value": 2}], 422),
        (JSON_PATCH, [{"op": "remove", "path": "/spec/b"}], 422),
        (JSON_PATCH, [{"op": "add", "path": "/spec/a/b/c", "value": 1}], 422),
        (JSON_PATCH, [{"op": "add", "path": "/spec/list/9", "value": 1}], 422),
        (JSON_PATCH, [{"op": "replace", "path": "", "value": 1}], 422),
        (JSON_PATCH, {"op": "test"}, 422),
        (JSON_PATCH, [{"path": "/spec"}], 422),
        (JSON_PATCH, [1], 422),
        (MERGE, [], 400),
        (STRATEGIC, {"spec": {"env": [1]}}, 400),
        ("application/json", {}, 415),
    ],
)
def test_a_patch_that_cannot_be_made_is_refused(sort: str, change: Any, code: int) -> None:
    with pytest.raises(StatusError) as refused:
        patch(sort, change, spec={"a": 1, "list": []})
    assert refused.value.code == code


def test_custom_kinds_take_no_strategic_patch() -> None:
    with pytest.raises(StatusError, match="unknown format"):
        patch(STRATEGIC, {}, CustomKind("x.io", "v1", "Thing", "things", custom=True))


async def test_apply_creates_and_then_merges_webhooks_by_name() -> None:
    api, target = Api(), Target(MUTATING_WEBHOOKS, name="ours")
    head = {"apiVersion": MUTATING_WEBHOOKS.api_version, "kind": MUTATING_WEBHOOKS.name, "metadata": {"name": "ours"}}
    hooks = [{"name": name, "clientConfig": {"url": "https://old", "caBundle": "eA=="}} for name in ("a", "b")]
    assert (await apply_server_side(api, target, {**head, "webhooks": hooks}))[1]
    changed = {**head, "webhooks": [{"name": "a", "clientConfig": {"url": "https://new"}}]}
    after, created = await apply_server_side(api, target, changed)
    assert not created
    assert [each["clientConfig"] for each in after["webhooks"]] == [
        {"url": "https://new", "caBundle": "eA=="},
        {"url": "https://old", "caBundle": "eA=="},
    ]
