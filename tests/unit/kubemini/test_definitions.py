"""CustomResourceDefinitions: established when their names are free, served as they change, gone with their objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubemini.api import Target
from kubemini.custom_kind import CustomKind, columns_of
from kubemini.definitions import Definitions
from kubemini.kinds import DEFINITION, POD, Kind
from kubemini.refusals import Json, Refusal
from tests.unit.kubemini.controllers_at_work import SPACE, Cluster, at_work, condition, names

SCHEMA: Json = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {"size": {"type": "integer", "maximum": 9}, "color": {"type": "string", "default": "red"}},
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


def version(name: str = "v1", *, storage: bool = True, **fields: Any) -> Json:
    schema = {"openAPIV3Schema": copy.deepcopy(SCHEMA)}
    return {"name": name, "served": True, "storage": storage, "schema": schema, **fields}


def definition(plural: str = "widgets", kind: str = "Widget", *versions: Json, **fields: Any) -> Json:
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {},
        "versions": list(versions) or [version(subresources={"status": {}})],
    }
    names = {"plural": plural, "kind": kind, **fields.pop("names", {})}
    return {"spec": spec | {"names": names} | fields}


async def defined(cluster: Cluster, body: Json | None = None) -> Json:
    """A definition that the controller has looked at."""
    body = body or definition()
    name = f"{body['spec']['names']['plural']}.example.com"
    await cluster.make(DEFINITION, name, body)
    await cluster.settled()
    return cluster.get(DEFINITION, name)


def served(cluster: Cluster, plural: str = "widgets", version: str = "v1") -> CustomKind:
    found = cluster.api.kinds.at("example.com", version, plural)
    assert isinstance(found, CustomKind)
    return found


def is_served(cluster: Cluster, plural: str = "widgets", version: str = "v1") -> bool:
    return cluster.api.kinds.at("example.com", version, plural) is not None


async def refusal_of(awaitable: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await awaitable
    return caught.value


@at_work(Definitions)
async def test_a_definition_is_established_and_its_kind_served(cluster: Cluster) -> None:
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    offered = version(
        subresources={
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
        additionalPrinterColumns=columns,
        selectableFields=[{"jsonPath": ".spec.color"}],
    )
    made = await defined(
        cluster, definition("widgets", "Widget", offered, names={"shortNames": ["wd"], "categories": ["all"]})
    )
    assert condition(made, "NamesAccepted")["status"] == "True"
    assert condition(made, "Established")["reason"] == "InitialNamesAccepted"
    assert made["status"]["acceptedNames"] == made["spec"]["names"]
    assert made["status"]["storedVersions"] == ["v1"]
    kind = served(cluster)
    assert (kind.name, kind.short, kind.categories, kind.namespaced) == ("Widget", ("wd",), ("all",), True)
    assert kind.subresources == ("scale", "status")
    assert kind.scale is not None
    assert kind.scale.spec == ".spec.size"
    assert kind.fields == ("spec.color",)
    assert columns_of(kind) == columns
    assert columns_of(POD) == []


@at_work(Definitions)
async def test_objects_are_filled_in_judged_and_counted_in_generations(cluster: Cluster) -> None:
    await defined(cluster)
    kind = served(cluster)
    made = await cluster.make(kind, "w", {"spec": {"size": 1, "unknown": True}, "status": {"phase": "mine"}})
    assert made["spec"] == {"size": 1, "color": "red"}
    assert "status" not in made
    assert made["metadata"]["generation"] == 1
    refusal = await refusal_of(cluster.make(kind, "x", {"spec": {"size": 10}}))
    assert refusal.details["causes"][0]["field"] == "spec.size"
    changed = await cluster.edit(kind, "w", lambda body: body["spec"].update(size=2))
    assert changed["metadata"]["generation"] == 2


@at_work(Definitions)
async def test_the_status_is_written_apart_and_changes_nothing_else(cluster: Cluster) -> None:
    await defined(cluster)
    kind = served(cluster)
    await cluster.make(kind, "w", {"spec": {"size": 1}})

    def both(body: Json) -> None:
        body["status"] = {"phase": "Ready", "unknown": 1}
        body["spec"]["size"] = 5
        body["metadata"]["labels"] = {"a": "b"}

    written = await cluster.edit(kind, "w", both, "status")
    assert written["status"] == {"phase": "Ready"}
    assert (written["spec"]["size"], written["metadata"]["generation"]) == (1, 1)
    assert "labels" not in written["metadata"]


@at_work(Definitions)
async def test_who_replaces_a_custom_resource_must_say_which_version(cluster: Cluster) -> None:
    await defined(cluster)
    kind = served(cluster)
    made = await cluster.make(kind, "w", {"spec": {"size": 1}})
    del made["metadata"]["resourceVersion"]
    assert (await refusal_of(cluster.api.replace(Target(kind, SPACE, "w"), made))).code == 422


@at_work(Definitions)
async def test_a_definition_that_changes_takes_effect(cluster: Cluster) -> None:
    await defined(cluster)
    await cluster.make(served(cluster), "old", {"spec": {"size": 9}})

    def stricter(body: Json) -> None:
        size = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
        size["maximum"] = 5

    await cluster.edit(DEFINITION, "widgets.example.com", stricter)
    await cluster.settled()
    kind = served(cluster)
    assert (await refusal_of(cluster.make(kind, "new", {"spec": {"size": 9}}))).code == 422
    labelled = await cluster.edit(kind, "old", lambda body: body["metadata"].update(labels={"a": "b"}))
    assert labelled["spec"]["size"] == 9  # what is as it was is not judged again
    assert (await refusal_of(cluster.edit(kind, "old", lambda body: body["spec"].update(size=8)))).code == 422


@at_work(Definitions)
async def test_names_that_are_taken_hold_a_definition_up_until_they_are_free(cluster: Cluster) -> None:
    await defined(cluster, definition(names={"shortNames": ["wd"]}))
    late = await defined(cluster, definition("windows", "Window", names={"shortNames": ["wd"]}))
    assert condition(late, "NamesAccepted")["reason"] == "ShortNamesConflict"
    assert condition(late, "NamesAccepted")["message"] == '"wd" is already in use'
    assert condition(late, "Established")["reason"] == "NotAccepted"
    assert not is_served(cluster, "windows")
    await cluster.delete(DEFINITION, "widgets.example.com")
    await cluster.settled()
    assert is_served(cluster, "windows")


@at_work(Definitions)
async def test_a_kind_that_is_taken_is_named_as_the_conflict(cluster: Cluster) -> None:
    await defined(cluster)
    late = await defined(cluster, definition("gadgets", "Widget"))
    assert condition(late, "NamesAccepted")["reason"] == "ListKindConflict"


@at_work(Definitions)
async def test_all_served_versions_show_one_object(cluster: Cluster) -> None:
    old = version("v1alpha1", storage=False)
    await defined(cluster, definition("widgets", "Widget", old, version("v1")))
    assert served(cluster, version="v1").storage == ""
    assert served(cluster, version="v1alpha1").storage == "widgets.example.com"
    await cluster.edit(DEFINITION, "widgets.example.com", lambda body: body["spec"]["versions"][0].update(served=False))
    await cluster.settled()
    assert not is_served(cluster, version="v1alpha1")


@at_work(Definitions)
async def test_when_another_version_is_stored_the_objects_follow(cluster: Cluster) -> None:
    await defined(cluster, definition("widgets", "Widget", version("v1alpha1"), version("v1", storage=False)))
    made = await cluster.make(served(cluster, version="v1alpha1"), "w", {"spec": {"size": 1}})

    def swap(body: Json) -> None:
        for each in body["spec"]["versions"]:
            each["storage"] = not each["storage"]

    await cluster.edit(DEFINITION, "widgets.example.com", swap)
    await cluster.settled()
    kept = cluster.get(served(cluster, version="v1"), "w")
    assert kept["apiVersion"] == "example.com/v1"
    assert kept["metadata"]["generation"] == made["metadata"]["generation"]
    assert cluster.get(DEFINITION, "widgets.example.com")["status"]["storedVersions"] == ["v1alpha1", "v1"]


@at_work(Definitions)
async def test_a_definition_takes_its_objects_with_it(cluster: Cluster) -> None:
    await defined(cluster)
    kind = served(cluster)
    await cluster.make(kind, "w", {"spec": {"size": 1}})
    await cluster.delete(DEFINITION, "widgets.example.com")
    await cluster.settled()
    assert cluster.find(DEFINITION, "widgets.example.com") is None
    assert cluster.all(kind) == []
    assert not is_served(cluster)


@at_work(Definitions)
async def test_a_definition_waits_for_objects_that_are_held_and_takes_no_new_ones(cluster: Cluster) -> None:
    await defined(cluster)
    kind: Kind = served(cluster)
    await cluster.make(kind, "held", {"metadata": {"finalizers": ["example.com/hold"]}, "spec": {"size": 1}})
    await cluster.make(kind, "free", {"spec": {"size": 1}})
    await cluster.delete(DEFINITION, "widgets.example.com")
    await cluster.settled()
    assert names(cluster.all(kind)) == ["held"]
    terminating = cluster.get(DEFINITION, "widgets.example.com")
    assert terminating["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert condition(terminating, "Terminating")["status"] == "True"
    refusal = await refusal_of(cluster.make(served(cluster), "new", {"spec": {"size": 1}}))
    assert (refusal.code, "is terminating" in refusal.message) == (403, True)
    await cluster.edit(served(cluster), "held", lambda body: body["metadata"].pop("finalizers"))
    await cluster.until(lambda: cluster.find(DEFINITION, "widgets.example.com") is None)
    assert not is_served(cluster)


@at_work(Definitions)
async def test_a_definition_whose_finalizer_was_taken_off_leaves_no_objects_either(cluster: Cluster) -> None:
    await defined(cluster)
    kind = served(cluster)
    await cluster.make(kind, "held", {"metadata": {"finalizers": ["example.com/hold"]}, "spec": {"size": 1}})
    await cluster.delete(DEFINITION, "widgets.example.com")
    await cluster.edit(DEFINITION, "widgets.example.com", lambda body: body["metadata"].pop("finalizers"))
    await cluster.settled()
    assert not is_served(cluster)
    assert all("deletionTimestamp" in each["metadata"] for each in cluster.all(kind))
