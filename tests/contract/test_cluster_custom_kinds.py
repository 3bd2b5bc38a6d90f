"""Custom kinds, as our PodMigration is one: served, checked by their schema, defaulted, pruned, printed, removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Space, condition, refusal
from tests.support.custom_kinds import DEFINITIONS, Widgets, definition, widgets
from tests.testbed.processes import until

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


@pytest.fixture(scope="module")
def kind(cluster: ClusterUnderTest) -> Iterator[Widgets]:
    with widgets(cluster) as made:
        yield made


@pytest.fixture
def shelf(kind: Widgets, space: Space) -> Shelf:
    return Shelf(kind, space)


class Shelf:
    """The widgets of one test."""

    def __init__(self, kind: Widgets, space: Space) -> None:
        self.kind = kind
        self.space = space
        self.api = space.api

    def path(self, name: str = "") -> str:
        return self.kind.path(self.space.name, name)

    def create(self, name: str, **spec: Any) -> Json:
        return self.api.post(self.path(), self.kind.widget(name, **spec))


def test_a_definition_is_accepted_and_established(kind: Widgets) -> None:
    found = kind.cluster.api.get(f"{DEFINITIONS}/{kind.definition}")
    assert condition(found, "NamesAccepted")["status"] == "True"
    assert condition(found, "Established")["status"] == "True"
    assert found["status"]["acceptedNames"]["plural"] == "widgets"
    assert found["status"]["storedVersions"] == ["v1"]


def test_a_custom_kind_is_discovered(kind: Widgets) -> None:
    until("its group is listed", lambda: kind.group in served_groups(kind.cluster))
    groups = {group["name"]: group for group in kind.cluster.api.get("/apis")["groups"]}
    assert groups[kind.group]["preferredVersion"]["groupVersion"] == f"{kind.group}/v1"
    resources = {each["name"]: each for each in kind.cluster.api.get(f"/apis/{kind.group}/v1")["resources"]}
    assert resources["widgets"]["kind"] == "Widget"
    assert resources["widgets"]["namespaced"]
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(resources["widgets"]["verbs"])
    assert "widgets/status" in resources


def test_defaults_are_filled_in(shelf: Shelf) -> None:
    assert shelf.create("plain")["spec"] == {"size": "small", "count": 1, "target": {"node": "any"}}
    assert shelf.create("given", count=3, target={"node": "a"})["spec"]["target"] == {"node": "a"}


def test_fields_that_the_schema_does_not_know_are_dropped(shelf: Shelf) -> None:
    made = shelf.create("odd", mood="cheerful", target={"node": "a", "extra": 1}, free={"any": {"thing": True}})
    assert "mood" not in made["spec"]
    assert made["spec"]["target"] == {"node": "a"}
    assert made["spec"]["free"] == {"any": {"thing": True}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"size": "huge"}, "spec.size"),
        ({"count": -1}, "spec.count"),
        ({"count": 10}, "spec.count"),
        ({"count": "3"}, "spec.count"),
        ({"color": "Red!"}, "spec.color"),
        ({"color": "abcdefghijk"}, "spec.color"),
        ({"when": "yesterday"}, "spec.when"),
        ({"parts": ["a", "b", "c"]}, "spec.parts"),
        ({"parts": [1]}, "spec.parts[0]"),
        ({"target": "a"}, "spec.target"),
    ],
    ids=str,
)
def test_what_the_schema_forbids_is_invalid_and_its_field_is_named(
    shelf: Shelf, spec: dict[str, Any], field: str
) -> None:
    with refusal(422, "Invalid") as refused:
        shelf.create("wrong", **spec)
    assert field in refused.fields
    assert f'Widget.{shelf.kind.group} "wrong" is invalid' in refused.message


def test_a_required_field_must_be_there(shelf: Shelf) -> None:
    body = shelf.kind.widget("wrong")
    del body["spec"]
    with refusal(422, "Invalid"):
        shelf.api.post(shelf.path(), body)


def test_a_patch_is_checked_and_defaulted_too(shelf: Shelf) -> None:
    shelf.create("plain", count=3)
    with refusal(422, "Invalid"):
        shelf.api.patch(shelf.path("plain"), {"spec": {"size": "huge"}})
    patched = shelf.api.patch(shelf.path("plain"), {"spec": {"count": None, "color": "red"}})
    assert patched["spec"]["count"] == 1
    assert patched["spec"]["color"] == "red"


def test_printer_columns_make_the_table(shelf: Shelf) -> None:
    shelf.create("plain", count=4)
    shelf.api.patch(shelf.path("plain") + "/status", {"status": {"phase": "Working"}})
    table = shelf.api.get(shelf.path(), TABLE)
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns == ["Name", "Size", "Phase", "Count", "Age"]
    assert table["columnDefinitions"][3]["priority"] == 1
    (row,) = table["rows"]
    assert row["cells"][:4] == ["plain", "small", "Working", 4]


def test_a_deleted_definition_takes_its_objects_along(space: Space) -> None:
    with widgets(space.cluster) as short_lived:
        space.api.post(short_lived.path(space.name), short_lived.widget("doomed"))
        space.api.delete(f"{DEFINITIONS}/{short_lived.definition}")
        until("its group is not served", lambda: short_lived.group not in served_groups(space.cluster))
    with widgets(space.cluster, short_lived.group) as again:
        assert space.api.get(again.path(space.name))["items"] == []


def served_groups(cluster: ClusterUnderTest) -> set[str]:
    return {group["name"] for group in cluster.api.get("/apis")["groups"]}


def test_a_definition_without_a_sound_schema_is_refused(space: Space) -> None:
    broken = definition("broken.test")
    broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "thing"}
    with refusal(422, "Invalid"):
        space.api.post(DEFINITIONS, broken)
    misnamed = definition("broken.test")
    misnamed["metadata"]["name"] = "gadgets.broken.test"
    with refusal(422, "Invalid") as refused:
        space.api.post(DEFINITIONS, misnamed)
    assert refused.fields == ["metadata.name"]
