"""What may be in a CustomResourceDefinition, and what a schema makes of objects."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from kubemini.api import Api, Target
from kubemini.conformance import faults
from kubemini.custom_kind import CustomKind
from kubemini.kinds import DEFINITION, POD
from kubemini.refusals import Json, Refusal
from kubemini.schema import unknown_fields
from kubemini.structural import fill, prune

Change = Callable[[Json], Any]


def definition() -> Json:
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "widgets.example.com"}, "spec": spec}


def first(body: Json) -> Json:
    found: Json = body["spec"]["versions"][0]
    return found


def field(**schema: Any) -> Change:
    """A field `x` with this schema; words that are no names are spelled with _ for -."""
    spelled = {key.replace("_", "-") if key.startswith("x_") else key: value for key, value in schema.items()}
    return lambda body: first(body)["schema"]["openAPIV3Schema"]["properties"].update(x=spelled)


X = "spec.validation.openAPIV3Schema.properties[x]"
KEYED = {"type": "object", "properties": {"a": {"type": "string"}}}


async def causes_of(change: Change) -> list[tuple[str, str]]:
    body = definition()
    change(body)
    with pytest.raises(Refusal) as caught:
        await Api().create(Target(DEFINITION), body)
    assert caught.value.code == 422
    return [(each["field"], each["reason"]) for each in caught.value.details["causes"]]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda body: body["metadata"].update(name="other.example.com"), "metadata.name"),
        (lambda body: body["spec"].update(scope=""), "spec.scope"),
        (lambda body: body["spec"].update(scope="Galaxy"), "spec.scope"),
        (lambda body: body["spec"]["names"].update(listKind="Widget"), "spec.names.listKind"),
        (lambda body: body["spec"]["names"].update(shortNames=["W_"]), "spec.names.shortNames[0]"),
        (lambda body: body["spec"]["names"].update(categories=["W_"]), "spec.names.categories[0]"),
        (lambda body: body["spec"].update(preserveUnknownFields=True), "spec.preserveUnknownFields"),
        (lambda body: body["spec"].update(conversion={"strategy": "Magic"}), "spec.conversion.strategy"),
        (lambda body: body["spec"].update(conversion={"strategy": "Webhook"}), "spec.conversion.strategy"),
        (lambda body: first(body).pop("schema"), "spec.versions[0].schema.openAPIV3Schema"),
        (lambda body: first(body).update(name="V_1"), "spec.versions[0].name"),
        (lambda body: body["spec"]["versions"].append({**first(body), "storage": False}), "spec.versions"),
        (
            lambda body: first(body).update(
                subresources={"scale": {"specReplicasPath": ".x", "statusReplicasPath": ".status.n"}}
            ),
            "spec.subresources.scale.specReplicasPath",
        ),
        (
            lambda body: first(body).update(
                additionalPrinterColumns=[{"name": "n", "type": "date", "jsonPath": "spec"}]
            ),
            "spec.additionalPrinterColumns[0].JSONPath",
        ),
        (
            lambda body: first(body)["schema"]["openAPIV3Schema"].update(type="string"),
            "spec.validation.openAPIV3Schema.type",
        ),
        (
            lambda body: first(body)["schema"]["openAPIV3Schema"].pop("type"),
            "spec.validation.openAPIV3Schema.type",
        ),
        (field(), f"{X}.type"),
        (field(type="nonsense"), f"{X}.type"),
        (field(type="array"), f"{X}.items"),
        (field(type="array", items={}), f"{X}.items.type"),
        (field(type="object", additionalProperties={}), f"{X}.additionalProperties.type"),
        (
            field(type="object", properties={"a": {"type": "string"}}, additionalProperties={"type": "string"}),
            f"{X}.additionalProperties",
        ),
        (field(type="array", items={"type": "string"}, uniqueItems=True), f"{X}.uniqueItems"),
        (field(type="string", pattern="("), f"{X}.pattern"),
        (field(type="string", default=3), f"{X}.default"),
        (field(type="string", enum=["a"], default="b"), f"{X}.default"),
        (field(type="object", default={"unknown": 1}), f"{X}.default"),
        (field(type="string", oneOf=[{"type": "string"}]), f"{X}.oneOf[0].type"),
        (field(type="object", anyOf=[{"properties": {"a": {"default": "x"}}}]), f"{X}.anyOf[0].properties[a].default"),
        (field(type="array", items=KEYED, x_kubernetes_list_type="map"), f"{X}.x-kubernetes-list-map-keys"),
        (
            field(type="array", items=KEYED, x_kubernetes_list_type="map", x_kubernetes_list_map_keys=["a"]),
            f"{X}.items.properties[a].default",
        ),
        (
            field(type="array", items=KEYED, x_kubernetes_list_type="set"),
            f"{X}.items.x-kubernetes-map-type",
        ),
        (field(type="object", x_kubernetes_list_type="set"), f"{X}.type"),
        (field(type="array", items={"type": "string"}, x_kubernetes_list_type="heap"), f"{X}.x-kubernetes-list-type"),
        (field(type="object", x_kubernetes_map_type="heap"), f"{X}.x-kubernetes-map-type"),
        (field(type="object", x_kubernetes_embedded_resource=True), f"{X}.properties"),
        (
            field(type="object", x_kubernetes_preserve_unknown_fields=False),
            f"{X}.x-kubernetes-preserve-unknown-fields",
        ),
        (field(**{"$ref": "elsewhere"}), f"{X}.$ref"),
    ],
)
async def test_a_fault_of_a_definition_is_named_by_its_path(change: Change, path: str) -> None:
    assert [found for found, _ in await causes_of(change)] == [path]


async def test_a_group_must_be_a_domain_and_not_one_of_kubernetes_own() -> None:
    def group(name: str) -> Change:
        return lambda body: (body["spec"].update(group=name), body["metadata"].update(name=f"widgets.{name}"))

    assert await causes_of(group("example")) == [("spec.group", "FieldValueInvalid")]
    (path, _), *_ = await causes_of(group("widgets.k8s.io"))
    assert path == "metadata.annotations[api-approved.kubernetes.io]"


async def test_exactly_one_version_must_be_stored() -> None:
    causes = await causes_of(lambda body: first(body).update(storage=False))
    assert [path for path, _ in causes] == ["spec.versions", "status.storedVersions"]


async def test_a_value_of_the_wrong_type_in_a_definition_is_a_bad_request() -> None:
    body = definition()
    first(body)["served"] = "yes"
    with pytest.raises(Refusal) as caught:
        await Api().create(Target(DEFINITION), body)
    assert caught.value.code == 400
    assert "spec.versions[0].served" in caught.value.message


async def test_names_that_follow_from_others_are_filled_in() -> None:
    made = await Api().create(Target(DEFINITION), definition())
    assert made["spec"]["names"] == {
        "plural": "widgets",
        "kind": "Widget",
        "singular": "widget",
        "listKind": "WidgetList",
    }
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert made["status"]["storedVersions"] == ["v1"]


async def test_a_version_that_objects_may_be_stored_in_must_stay() -> None:
    api = Api()
    await api.create(Target(DEFINITION), definition())

    def other(body: Json) -> Json:
        first(body)["name"] = "v2"
        return body

    with pytest.raises(Refusal) as caught:
        await api.edit(Target(DEFINITION, name="widgets.example.com"), other)
    assert caught.value.details["causes"][0]["field"] == "status.storedVersions[0]"


async def test_what_a_definition_is_about_cannot_change_once_it_is_established() -> None:
    api = Api()
    target = Target(DEFINITION, name="widgets.example.com")
    await api.create(Target(DEFINITION), definition())
    status = {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]}
    await api.edit(Target(DEFINITION, "", "widgets.example.com", "status"), lambda body: {**body, "status": status})
    with pytest.raises(Refusal) as caught:
        await api.edit(target, lambda body: {**body, "spec": {**body["spec"], "scope": "Cluster"}})
    assert str(caught.value).endswith('spec.scope: Invalid value: "Cluster": field is immutable')


def test_fields_that_a_schema_does_not_know_are_taken_out() -> None:
    schema: Json = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "known": {"type": "string"},
                    "items": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                    "map": {
                        "type": "object",
                        "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}},
                    },
                    "free": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {"strict": {"type": "object"}},
                    },
                    "embedded": {
                        "type": "object",
                        "x-kubernetes-embedded-resource": True,
                        "properties": {"spec": {"type": "object"}},
                    },
                },
            }
        },
    }
    body = {
        "apiVersion": "v1",
        "kind": "W",
        "metadata": {"name": "w"},
        "other": 1,
        "spec": {
            "known": "1",
            "unknown": "2",
            "items": [{"a": "1", "b": "2"}],
            "map": {"k": {"a": "1", "b": "2"}},
            "free": {"any": {"thing": 1}, "strict": {"gone": 1}},
            "embedded": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {}, "gone": 1},
        },
    }
    unknown = prune(schema, body)
    assert sorted(unknown) == [
        "other",
        "spec.embedded.gone",
        "spec.free.strict.gone",
        "spec.items[0].b",
        "spec.map.k.b",
        "spec.unknown",
    ]
    assert body["spec"] == {
        "known": "1",
        "items": [{"a": "1"}],
        "map": {"k": {"a": "1"}},
        "free": {"any": {"thing": 1}, "strict": {}},
        "embedded": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {}},
    }
    assert body["metadata"] == {"name": "w"}


def test_fields_that_a_kind_does_not_have_are_told_to_those_who_ask() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    custom = CustomKind("example.com", "v1", "Widget", "widgets", custom=True, schema=schema)
    body = {"metadata": {"name": "w"}, "spec": {"a": "1", "b": "2"}}
    assert unknown_fields(custom, body) == ["spec.b"]
    assert body["spec"] == {"a": "1", "b": "2"}
    made = definition()
    first(made)["colour"] = "red"
    assert unknown_fields(DEFINITION, made) == ["spec.versions[0].colour"]
    assert unknown_fields(POD, {"spec": {"nodename": "n"}}) == ["spec.nodename"]


def test_defaults_fill_what_is_missing_or_null_and_change_nothing_the_second_time() -> None:
    schema: Json = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "default": {},
                "properties": {
                    "a": {"type": "string", "default": "x"},
                    "b": {"type": "string", "nullable": True, "default": "y"},
                    "c": {"type": "string"},
                    "deep": {
                        "type": "object",
                        "default": {},
                        "properties": {"d": {"type": "integer", "default": 1}},
                    },
                    "items": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"e": {"type": "boolean", "default": False}}},
                    },
                },
            }
        },
    }
    body: Json = {"metadata": {}, "spec": {"a": None, "b": None, "c": None, "items": [{}, {"e": True}]}}
    fill(schema, body)
    assert body["spec"] == {"a": "x", "b": None, "items": [{"e": False}, {"e": True}], "deep": {"d": 1}}
    again = copy.deepcopy(body)
    fill(schema, again)
    assert again == body
    empty: Json = {"metadata": {}}
    fill(schema, empty)
    assert empty["spec"] == {"a": "x", "b": "y", "deep": {"d": 1}}
    assert schema["properties"]["spec"]["default"] == {}


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"type": "string"}, ["", "a"], [1, None, True, [], {}]),
        ({"type": "integer"}, [1, -1, 2.0], ["1", 1.5, True]),
        ({"type": "number"}, [1, 1.5], ["1", False]),
        ({"type": "boolean"}, [True, False], [0, "true"]),
        ({"type": "array", "items": {"type": "integer"}}, [[], [1]], [{}, ["a"], [None]]),
        ({"type": "object"}, [{}], [[], "a"]),
        ({"type": "string", "nullable": True}, [None, "a"], [1]),
        ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c", ""]),
        ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 3], [0, 4]),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": 3, "exclusiveMaximum": True},
            [2],
            [1, 3],
        ),
        ({"type": "number", "multipleOf": 0.5}, [1.5], [1.7]),
        ({"type": "integer", "format": "int32"}, [2**31 - 1, -(2**31)], [2**31]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "äöü"], ["a", "abcd"]),
        ({"type": "string", "pattern": "^a+$"}, ["aa"], ["b"]),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2}, [["a"]], [[], ["a"] * 3]),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2},
            [{"a": 1}],
            [{}, {"a": "1"}, {"a": 1, "b": 1, "c": 1}],
        ),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}, [{"a": ""}], [{}]),
        ({"x-kubernetes-int-or-string": True}, [1, "1"], [1.5, True, []]),
        ({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}, [["a", "b"]], [["a", "a"]]),
        (
            {
                "type": "array",
                "items": {"type": "object"},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k", "p"],
            },
            [[{"k": 1, "p": 1}, {"k": 1, "p": 2}]],
            [[{"k": 1, "p": 1}, {"k": 1, "p": 1, "v": 2}]],
        ),
        ({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": 1}], [{}, {"a": 1, "b": 1}]),
        ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": 1, "b": 1}], [{}]),
        ({"type": "object", "allOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": 1, "b": 1}], [{"a": 1}]),
        ({"type": "object", "not": {"required": ["a"]}}, [{}], [{"a": 1}]),
        ({"type": "object", "x-kubernetes-embedded-resource": True}, [{"apiVersion": "v1", "kind": "P"}], [{}]),
        ({"type": "string", "format": "date-time"}, ["2026-01-01T00:00:00Z"], ["2026-01-01", "2026-13-01T00:00:00Z"]),
        ({"type": "string", "format": "date"}, ["2026-01-01"], ["20260101"]),
        ({"type": "string", "format": "duration"}, ["5m", "1h30m", "0"], ["5", "soon"]),
        ({"type": "string", "format": "uuid"}, ["36b5cde9-6827-43aa-b9b4-3aa2e203ed1d"], ["x"]),
        ({"type": "string", "format": "byte"}, ["aGk="], ["!!"]),
        ({"type": "string", "format": "ipv4"}, ["10.0.0.1"], ["10.0.0", "::1"]),
        ({"type": "string", "format": "ipv6"}, ["::1"], ["10.0.0.1"]),
        ({"type": "string", "format": "cidr"}, ["10.0.0.0/8"], ["10.0.0.0"]),
        ({"type": "string", "format": "email"}, ["a@b"], ["a"]),
        ({"type": "string", "format": "uri"}, ["https://a", "/a"], ["a"]),
        ({"type": "string", "format": "hostname"}, ["a.b"], ["_"]),
        ({"type": "string", "format": "of our own"}, ["anything"], [1]),
    ],
)
def test_values_conform_to_their_schema_or_not(schema: Json, right: list[Any], wrong: list[Any]) -> None:
    for value in right:
        assert list(faults(schema, value, "spec")) == [], value
    for value in wrong:
        assert list(faults(schema, value, "spec")) != [], value


def test_faults_say_what_the_api_server_would() -> None:
    schema = {"type": "integer", "minimum": 1}
    assert [str(each) for each in faults(schema, 0, "spec.n")] == [
        "spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1"
    ]
    (mistyped,) = faults(schema, "x", "spec.n")
    assert str(mistyped) == 'spec.n: Invalid value: "string": spec.n in body must be of type integer: "string"'
    assert mistyped.cause["reason"] == "FieldValueTypeInvalid"


def test_a_field_that_may_not_change_may_be_set_and_taken_away_again() -> None:
    immutable = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]}
    schema = {"type": "object", "properties": {"a": immutable}}
    assert list(faults(schema, {"a": "1"}, "spec", {})) == []
    assert list(faults(schema, {}, "spec", {"a": "1"})) == []
    assert list(faults(schema, {"a": "1", "b": "1"}, "spec", {"a": "1"})) == []
    assert [str(each) for each in faults(schema, {"a": "2"}, "spec", {"a": "1"})] == [
        'spec.a: Invalid value: "2": is immutable'
    ]


def test_other_rules_in_cel_are_not_evaluated() -> None:
    schema = {"type": "string", "x-kubernetes-validations": [{"rule": "self.size() > 100"}]}
    assert list(faults(schema, "short", "spec.a", "shorter")) == []


def test_what_an_update_leaves_as_it_was_is_not_judged_again() -> None:
    items = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"maximum": 1}}}
    schema = {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    }
    old = [{"k": "a", "v": 5}]
    assert list(faults(schema, [{"k": "b", "v": 1}, {"k": "a", "v": 5}], "spec", old)) == []
    assert len(list(faults(schema, [{"k": "a", "v": 6}], "spec", old))) == 1
