"""Custom kinds, as our PodMigration is one: served, checked by their schema, defaulted, pruned, printed, removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Space, condition, names, refusal
from tests.support.custom_kinds import DEFINITIONS, Widgets, definition, widgets
from tests.support.manifests import lease
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


def test_status_and_spec_are_apart(shelf: Shelf) -> None:
    body = shelf.kind.widget("apart") | {"status": {"phase": "Done"}}
    made = shelf.api.post(shelf.path(), body)
    assert "status" not in made
    assert made["metadata"]["generation"] == 1
    said = {"status": {"phase": "Working"}, "spec": {"size": "large"}, "metadata": {"labels": {"a": "b"}}}
    found = shelf.api.patch(shelf.path("apart") + "/status", said)
    assert found["status"] == {"phase": "Working"}
    assert found["spec"]["size"] == "small"
    assert found["metadata"]["generation"] == 1
    found = shelf.api.patch(shelf.path("apart"), {"status": {"phase": "Done"}, "spec": {"size": "large"}})
    assert found["status"] == {"phase": "Working"}
    assert found["spec"]["size"] == "large"
    assert found["metadata"]["generation"] == 2


def test_a_status_is_replaced_with_its_version_checked(shelf: Shelf) -> None:
    made = shelf.create("apart")
    shelf.api.put(shelf.path("apart") + "/status", made | {"status": {"phase": "Working"}})
    with refusal(409, "Conflict"):
        shelf.api.put(shelf.path("apart") + "/status", made | {"status": {"phase": "Done"}})


def test_a_replacement_must_say_which_version_it_replaces(shelf: Shelf) -> None:
    made = shelf.create("plain")
    with refusal(422, "Invalid") as refused:
        shelf.api.put(shelf.path("plain"), shelf.kind.widget("plain"))
    assert refused.fields == ["metadata.resourceVersion"]
    assert (
        shelf.api.put(shelf.path("plain"), made)["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    )


def test_merge_and_json_patches_work_and_strategic_ones_are_not_supported(shelf: Shelf) -> None:
    shelf.create("plain", parts=["a"])
    merged = shelf.api.patch(shelf.path("plain"), {"spec": {"parts": ["b"]}})
    assert merged["spec"]["parts"] == ["b"]
    stepped = shelf.api.patch(shelf.path("plain"), [{"op": "add", "path": "/spec/parts/-", "value": "c"}], "json")
    assert stepped["spec"]["parts"] == ["b", "c"]
    with refusal(415, "UnsupportedMediaType"):
        shelf.api.patch(shelf.path("plain"), {"spec": {"parts": ["d"]}}, "strategic")


def test_conditions_of_a_custom_kind_are_applied_by_their_key(shelf: Shelf) -> None:
    shelf.create("plain")
    for manager in ("us", "them"):
        body = shelf.kind.widget("plain") | {"status": {"conditions": [{"type": manager, "status": "True"}]}}
        del body["spec"]
        shelf.api.patch(shelf.path("plain") + f"/status?fieldManager={manager}", body, "apply")
    said = shelf.api.get(shelf.path("plain"))["status"]["conditions"]
    assert sorted(each["type"] for each in said) == ["them", "us"]


def test_custom_objects_are_applied(shelf: Shelf) -> None:
    path = shelf.path("applied") + "?fieldManager=us"
    made = shelf.api.patch(path, shelf.kind.widget("applied", color="red", count=5), "apply")
    assert made["spec"]["color"] == "red"
    again = shelf.api.patch(path, shelf.kind.widget("applied", color="blue", count=5), "apply")
    assert again["spec"] == {"size": "small", "color": "blue", "count": 5, "target": {"node": "any"}}


def test_custom_objects_are_watched_and_selected(shelf: Shelf) -> None:
    since = shelf.api.get(shelf.path())["metadata"]["resourceVersion"]
    shelf.create("a")
    shelf.api.patch(shelf.path("a"), {"metadata": {"labels": {"color": "red"}}})
    with shelf.api.watch(f"{shelf.path()}?resourceVersion={since}") as events:
        assert [next(events)["type"] for _ in range(2)] == ["ADDED", "MODIFIED"]
    shelf.create("b")
    assert names(shelf.api.get(shelf.path() + "?labelSelector=color%3Dred")["items"]) == ["a"]
    assert names(shelf.api.get(shelf.path() + "?fieldSelector=metadata.name%3Db")["items"]) == ["b"]


def test_printer_columns_make_the_table(shelf: Shelf) -> None:
    shelf.create("plain", count=4)
    shelf.api.patch(shelf.path("plain") + "/status", {"status": {"phase": "Working"}})
    table = shelf.api.get(shelf.path(), TABLE)
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns == ["Name", "Size", "Phase", "Count", "Age"]
    assert table["columnDefinitions"][3]["priority"] == 1
    (row,) = table["rows"]
    assert row["cells"][:4] == ["plain", "small", "Working", 4]


def test_a_finalizer_holds_a_custom_object(shelf: Shelf) -> None:
    body = shelf.kind.widget("held")
    body["metadata"]["finalizers"] = ["contract.test/hold"]
    shelf.api.post(shelf.path(), body)
    assert shelf.api.delete(shelf.path("held"))["metadata"]["deletionTimestamp"]
    shelf.api.patch(shelf.path("held"), {"metadata": {"finalizers": None}})
    with refusal(404, "NotFound"):
        shelf.api.get(shelf.path("held"))


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


def test_what_a_custom_object_owned_goes_after_it(shelf: Shelf) -> None:
    # The garbage collector looks for new kinds twice a minute: until it knows this one, nothing happens, and it
    # comes back to what it could not judge after twice as long each time.
    owner = shelf.create("owner")
    body = lease("owned")
    reference = {"apiVersion": owner["apiVersion"], "kind": "Widget", "name": "owner", "uid": owner["metadata"]["uid"]}
    body["metadata"]["ownerReferences"] = [reference]
    shelf.space.create(body)
    shelf.api.delete(shelf.path("owner"))
    until("Lease owned is gone", lambda: shelf.space.find("Lease", "owned") is None, seconds=240)
