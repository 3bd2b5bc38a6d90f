"""Custom kinds: pruned, defaulted and checked by their schema; served as long as their definition is there."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.custom import CustomKind, check, fill, prune
from kubemini.definitions import CrdController
from kubemini.errors import Json, StatusError
from kubemini.kinds import DEFINITION, Kind
from tests.unit.kubemini.controllers_at_work import Cluster, at_work

SCHEMA: Json = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "string", "enum": ["small", "large"]},
                "count": {"type": "integer", "minimum": 0, "default": 1},
                "color": {"type": "string", "pattern": "^[a-z]+$"},
                "since": {"type": "string", "format": "date-time"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}
KIND = CustomKind("x.io", "v1", "Thing", "things", subresources=("status",), custom=True, schema=SCHEMA)


def body(**spec: Any) -> Json:
    return {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": "small", **spec}}


def test_unknown_fields_are_removed_and_named() -> None:
    found = body(mood="good", free={"any": 1}) | {"extra": 1}
    assert sorted(prune(SCHEMA, found)) == ["extra", "spec.mood"]
    assert found == body(free={"any": 1})


def test_defaults_are_filled_in_and_nulls_removed() -> None:
    found = body(count=None, color=None)
    fill(SCHEMA, found)
    assert found == body(count=1)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"size": "huge"}, "spec.size"),
        ({"count": -1}, "spec.count"),
        ({"count": "1"}, "spec.count"),
        ({"color": "Red!"}, "spec.color"),
        ({"since": "yesterday"}, "spec.since"),
    ],
)
def test_what_the_schema_forbids_is_a_fault_of_its_field(spec: Json, field: str) -> None:
    (fault,) = check(KIND, body(**spec))
    assert fault.path == field


def test_a_value_that_an_older_definition_does_not_know_is_refused_in_the_real_words() -> None:
    assert check(KIND, body(size="huge")) == [("spec.size", 'Unsupported value: "huge"')]


def test_a_missing_field_is_named() -> None:
    assert check(KIND, {"spec": {}}) == [("spec", "'size' is a required property")]


def test_what_the_schema_allows_is_fine() -> None:
    assert check(KIND, body(color="red", since="2026-01-01T00:00:00Z", count=2)) == []


def definition(**spec: Any) -> Json:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    names = {"plural": "things", "kind": "Thing"}
    return {"spec": {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [version]} | spec}


def thing(cluster: Cluster) -> Kind:
    found = cluster.api.kinds.at("x.io", "v1", "things")
    assert found is not None
    return found


@at_work(CrdController)
async def test_a_definition_is_established_and_its_kind_is_served(cluster: Cluster) -> None:
    await cluster.make(DEFINITION, "things.x.io", definition())
    await cluster.settled()
    status = cluster.get(DEFINITION, "things.x.io")["status"]
    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert (await cluster.make(thing(cluster), "a", body(mood="good")))["spec"] == {"size": "small", "count": 1}


@at_work(CrdController)
async def test_a_deleted_definition_goes_when_its_last_object_is_gone(cluster: Cluster) -> None:
    await cluster.make(DEFINITION, "things.x.io", definition())
    await cluster.settled()
    kind = thing(cluster)
    await cluster.make(kind, "held", body() | {"metadata": {"finalizers": ["x.io/hold"]}})
    await cluster.delete(DEFINITION, "things.x.io")
    await cluster.settled()
    assert "deletionTimestamp" in cluster.get(kind, "held")["metadata"]
    with pytest.raises(StatusError, match="terminating"):
        await cluster.make(thing(cluster), "late", body())
    await cluster.edit(kind, "held", lambda found: found["metadata"].pop("finalizers"))
    await cluster.until(lambda: cluster.find(DEFINITION, "things.x.io") is None)
    assert cluster.api.kinds.at("x.io", "v1", "things") is None


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"group": "other.io"}, "metadata.name"),
        ({"versions": []}, "spec"),
        ({"versions": [{"name": "v1", "served": True, "storage": True}]}, "schema"),
    ],
)
def test_a_definition_that_cannot_be_served_is_refused(spec: Json, field: str) -> None:
    @at_work()
    async def scene(cluster: Cluster) -> None:
        with pytest.raises(StatusError) as refused:
            await cluster.make(DEFINITION, "things.x.io", definition(**spec))
        assert refused.value.code == 422
        assert field in refused.value.message

    scene()
