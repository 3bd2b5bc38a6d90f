"""Server-side apply: who owns what, what is taken out again, and where managers get into each other's way."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.api import Api, Target
from kubemini.apply import ApplyOptions, apply
from kubemini.custom_kind import CustomKind, kinds_of
from kubemini.kinds import DEPLOYMENT, NAMESPACE, Kind
from kubemini.ownership import noted
from kubemini.refusals import Json, Refusal

CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")


@pytest.fixture
async def api() -> Api:
    api = Api()
    await api.create(Target(NAMESPACE, name="default"), {"metadata": {"name": "default"}})
    return api


def deployment(containers: list[Json] | None = None, **spec: Any) -> Json:
    labels = {"app": "web"}
    pod = {"containers": containers if containers is not None else [{"name": "web", "image": "one"}]}
    made = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": made}


def part(**spec: Any) -> Json:
    """What a manager says who cares for these fields alone."""
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def data(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": data}


async def applied(api: Api, body: Json, manager: str, *, force: bool = False, subresource: str = "") -> Json:
    kind = {"Deployment": DEPLOYMENT, "ConfigMap": CONFIG_MAP, "Widget": widget()}[body["kind"]]
    target = Target(kind, "default", body["metadata"]["name"], subresource)
    found, _ = await apply(api, target, body, ApplyOptions(manager, force))
    return found


async def refusal_of(api: Api, body: Json, manager: str = "bob") -> Refusal:
    with pytest.raises(Refusal) as caught:
        await applied(api, body, manager)
    return caught.value


def owned(body: Json) -> dict[str, Json]:
    """The trees of fields by manager, operation and subresource."""
    return {
        " ".join(filter(None, (each["manager"], each["operation"], each.get("subresource")))): each["fieldsV1"]
        for each in body["metadata"].get("managedFields", ())
    }


def widget() -> CustomKind:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "order": {"type": "array", "items": {"type": "string"}},
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                        "items": {
                            "type": "object",
                            "required": ["port"],
                            "properties": {
                                "port": {"type": "integer"},
                                "protocol": {"type": "string", "default": "TCP"},
                                "note": {"type": "string"},
                            },
                        },
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return kinds_of({"metadata": {}, "spec": spec})[0]


def widget_body(**fields: Any) -> Json:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, **fields}


async def test_applying_what_is_not_there_makes_it_and_the_manager_owns_what_he_said(api: Api) -> None:
    target = Target(DEPLOYMENT, "default", "web")
    found, created = await apply(api, target, deployment(replicas=2), ApplyOptions("alice"))
    assert created
    assert found["spec"]["replicas"] == 2
    container: Json = {'k:{"name":"web"}': {".": {}, "f:image": {}, "f:name": {}}}
    assert owned(found) == {
        "alice Apply": {
            "f:spec": {
                "f:replicas": {},
                "f:selector": {},
                "f:template": {
                    "f:metadata": {"f:labels": {"f:app": {}}},
                    "f:spec": {"f:containers": container},
                },
            }
        }
    }
    again, created = await apply(api, target, deployment(replicas=2), ApplyOptions("alice"))
    assert not created
    assert again == found


async def test_a_dry_run_keeps_nothing(api: Api) -> None:
    target = Target(CONFIG_MAP, "default", "web")
    found, created = await apply(api, target, data(a="1"), ApplyOptions("alice", dry_run=True))
    assert (found["data"], created) == ({"a": "1"}, True)
    assert api.find(CONFIG_MAP, target.key) is None


async def test_two_managers_may_want_the_same_value(api: Api) -> None:
    await applied(api, data(a="1"), "alice")
    found = await applied(api, data(a="1"), "bob")
    assert owned(found) == {"alice Apply": {"f:data": {"f:a": {}}}, "bob Apply": {"f:data": {"f:a": {}}}}


async def test_another_value_is_a_conflict_that_names_the_manager_and_the_field(api: Api) -> None:
    await applied(api, deployment(replicas=2), "alice")
    refusal = await refusal_of(api, part(replicas=3))
    assert (refusal.code, refusal.reason) == (409, "Conflict")
    assert refusal.message == 'Apply failed with 1 conflict: conflict with "alice": .spec.replicas'
    assert refusal.details["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "alice"', "field": ".spec.replicas"}
    ]


async def test_several_conflicts_are_listed_by_manager(api: Api) -> None:
    environment = [{"name": "A", "value": "1"}]
    await applied(api, deployment([{"name": "web", "image": "one", "env": environment}], replicas=2), "alice")
    await applied(api, part(replicas=2), "carol")
    changed = [{"name": "web", "image": "two", "env": [{"name": "A", "value": "2"}]}]
    refusal = await refusal_of(api, part(replicas=3, template={"spec": {"containers": changed}}))
    assert refusal.message == (
        'Apply failed with 4 conflicts: conflicts with "alice":\n'
        "- .spec.replicas\n"
        '- .spec.template.spec.containers[name="web"].image\n'
        '- .spec.template.spec.containers[name="web"].env[name="A"].value\n'
        'conflicts with "carol":\n'
        "- .spec.replicas"
    )


async def test_force_takes_the_field_over(api: Api) -> None:
    await applied(api, data(a="1", b="1"), "alice")
    found = await applied(api, data(a="2"), "bob", force=True)
    assert found["data"] == {"a": "2", "b": "1"}
    assert owned(found) == {"alice Apply": {"f:data": {"f:b": {}}}, "bob Apply": {"f:data": {"f:a": {}}}}


async def test_what_a_manager_no_longer_applies_goes_unless_others_own_it(api: Api) -> None:
    await applied(api, data(mine="1", ours="1"), "alice")
    await applied(api, data(ours="1", his="1"), "bob")
    found = await applied(api, data(), "alice")
    assert found["data"] == {"ours": "1", "his": "1"}
    assert owned(found).keys() == {"alice Apply", "bob Apply"}
    found = await applied(api, {**data(), "data": {"his": "1"}}, "bob")
    assert found["data"] == {"his": "1"}


async def test_defaults_that_nobody_applied_stay(api: Api) -> None:
    found = await applied(api, deployment(replicas=2), "alice")
    assert found["spec"]["strategy"]["type"] == "RollingUpdate"
    found = await applied(api, deployment(), "alice")
    assert found["spec"]["strategy"]["type"] == "RollingUpdate"
    assert found["spec"]["replicas"] == 1


async def test_items_of_a_keyed_list_belong_to_those_who_apply_them(api: Api) -> None:
    await applied(api, deployment([{"name": "web", "image": "one"}]), "alice")
    sidecar = {"template": {"spec": {"containers": [{"name": "log", "image": "log"}]}}}
    found = await applied(api, part(**sidecar), "bob")
    containers = found["spec"]["template"]["spec"]["containers"]
    assert [each["name"] for each in containers] == ["web", "log"]
    nothing = part()
    del nothing["spec"]
    found = await applied(api, nothing, "bob")
    assert [each["name"] for each in found["spec"]["template"]["spec"]["containers"]] == ["web"]
    assert owned(found).keys() == {"alice Apply"}


async def test_the_order_that_is_applied_is_the_order_of_a_list(api: Api) -> None:
    names = ["a", "b", "c"]
    await applied(api, deployment([{"name": each, "image": "i"} for each in names]), "alice")
    found = await applied(api, deployment([{"name": each, "image": "i"} for each in ("c", "a", "b")]), "alice")
    assert [each["name"] for each in found["spec"]["template"]["spec"]["containers"]] == ["c", "a", "b"]


async def test_ports_are_told_apart_by_number_and_protocol_where_tcp_goes_without_saying(api: Api) -> None:
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]
    found = await applied(api, deployment([{"name": "web", "image": "one", "ports": ports}]), "alice")
    container = found["spec"]["template"]["spec"]["containers"][0]
    assert [each["protocol"] for each in container["ports"]] == ["TCP", "UDP"]
    fields = owned(found)["alice Apply"]["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"web"}']
    assert fields["f:ports"].keys() == {
        'k:{"containerPort":80,"protocol":"TCP"}',
        'k:{"containerPort":80,"protocol":"UDP"}',
    }


async def test_atomic_lists_belong_to_one_manager_as_a_whole(api: Api) -> None:
    pod = {"containers": [{"name": "web", "image": "one"}], "tolerations": [{"key": "a", "operator": "Exists"}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod}
    await applied(
        api, deployment() | {"spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}}, "alice"
    )
    other = part(template={"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}})
    assert (await refusal_of(api, other)).details["causes"][0]["field"] == ".spec.template.spec.tolerations"
    found = await applied(api, other, "bob", force=True)
    assert [each["key"] for each in found["spec"]["template"]["spec"]["tolerations"]] == ["b"]


async def test_finalizers_are_a_set_of_which_each_manager_has_his_own(api: Api) -> None:
    def finalized(*names: str) -> Json:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "finalizers": list(names)}}

    await applied(api, finalized("x/a"), "alice")
    found = await applied(api, finalized("x/b"), "bob")
    assert found["metadata"]["finalizers"] == ["x/a", "x/b"]
    found = await applied(api, finalized(), "alice")
    assert found["metadata"]["finalizers"] == ["x/b"]


async def test_what_was_there_before_the_first_apply_belongs_to_nobody_in_particular(api: Api) -> None:
    target = Target(CONFIG_MAP, "default", "web")
    made = await api.create(target, {"metadata": {"name": "web", "labels": {"l": "1"}}, "data": {"a": "1", "b": "1"}})
    assert "managedFields" not in made["metadata"]
    refusal = await refusal_of(api, data(a="2"))
    assert refusal.message == 'Apply failed with 1 conflict: conflict with "unknown" using v1: .data.a'
    found = await applied(api, data(a="2"), "bob", force=True)
    assert owned(found) == {
        "bob Apply": {"f:data": {"f:a": {}}},
        "unknown Update": {
            "f:data": {".": {}, "f:b": {}},
            "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
        },
    }


async def test_the_structure_that_every_object_has_is_owned_by_nobody(api: Api) -> None:
    await api.create(Target(DEPLOYMENT, "default", "web"), deployment(replicas=2))
    found = await applied(api, part(replicas=2), "bob")
    spec = owned(found)["unknown Update"]["f:spec"]
    assert "." not in spec
    assert "." not in spec["f:template"]
    assert spec["f:strategy"]["f:rollingUpdate"].keys() == {".", "f:maxSurge", "f:maxUnavailable"}


async def test_the_status_is_applied_apart(api: Api) -> None:
    await applied(api, widget_body(spec={"order": ["a"]}, status={"phase": "ignored"}), "alice")
    found = await applied(
        api, widget_body(spec={"order": ["ignored"]}, status={"phase": "Ready"}), "alice", subresource="status"
    )
    assert (found["spec"], found["status"]) == ({"order": ["a"]}, {"phase": "Ready"})
    assert owned(found) == {
        "alice Apply": {"f:spec": {"f:order": {}}},
        "alice Apply status": {"f:status": {"f:phase": {}}},
    }


async def test_the_status_of_what_is_not_there_cannot_be_applied(api: Api) -> None:
    with pytest.raises(Refusal) as caught:
        await applied(api, widget_body(status={"phase": "x"}), "alice", subresource="status")
    assert caught.value.code == 404


async def test_lists_of_custom_resources_are_what_their_schema_says(api: Api) -> None:
    spec = {"names": ["a"], "order": ["a"], "ports": [{"port": 1}], "free": {"x": {"y": 1}}}
    await applied(api, widget_body(spec=spec), "alice")
    found = await applied(api, widget_body(spec={"names": ["b"], "ports": [{"port": 2, "note": "n"}]}), "bob")
    assert found["spec"]["names"] == ["a", "b"]
    assert [each["port"] for each in found["spec"]["ports"]] == [1, 2]
    assert owned(found)["alice Apply"]["f:spec"] == {
        "f:free": {"f:x": {".": {}, "f:y": {}}},
        "f:names": {'v:"a"': {}},
        "f:order": {},
        "f:ports": {'k:{"port":1,"protocol":"TCP"}': {".": {}, "f:port": {}}},
    }
    assert (await refusal_of(api, widget_body(spec={"order": ["b"]}))).code == 409


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (part(replicas="three"), 500, ".spec.replicas: expected numeric (int or float), got string"),
        (part(nothing=1), 500, ".spec.nothing: field not declared in schema"),
        (part(template=[]), 500, ".spec.template: expected map"),
        (deployment([{"name": "a"}, {"name": "a"}]), 500, 'duplicate entries for key [name="a"]'),
        (widget_body(spec={"names": ["a", "a"]}), 500, 'duplicate entries for key [="a"]'),
        (widget_body(spec={"nothing": 1}), 500, ".spec.nothing: field not declared in schema"),
        ({**data(), "metadata": {"name": "web", "managedFields": []}}, 400, "metadata.managedFields must be nil"),
        ({**data(), "metadata": {"name": "web", "uid": "u"}}, 409, "no existing object was found"),
        ({**data(), "apiVersion": "v2"}, 400, "invalid object type: v2, Kind=ConfigMap"),
    ],
)
async def test_what_cannot_be_applied_is_refused(api: Api, body: Json, code: int, words: str) -> None:
    refusal = await refusal_of(api, body)
    assert refusal.code == code
    assert words in refusal.message


@pytest.mark.parametrize("metadata", [{}, {"name": "other"}, {"name": "web", "namespace": "other"}])
async def test_what_is_applied_must_be_what_the_path_names(api: Api, metadata: Json) -> None:
    body = {**data(), "metadata": metadata}
    with pytest.raises(Refusal) as caught:
        await apply(api, Target(CONFIG_MAP, "default", "web"), body, ApplyOptions("alice"))
    assert caught.value.code == 400


async def test_a_version_that_is_named_must_be_the_newest(api: Api) -> None:
    made = await applied(api, data(a="1"), "alice")
    newest = {"name": "web", "resourceVersion": made["metadata"]["resourceVersion"]}
    found = await applied(api, {**data(a="2"), "metadata": newest}, "alice")
    assert found["data"] == {"a": "2"}
    assert (await refusal_of(api, {**data(a="3"), "metadata": newest}, "alice")).code == 409


async def test_other_writes_to_an_applied_object_are_noted(api: Api) -> None:
    before = await applied(api, data(a="1", b="1"), "alice")
    after = {**before, "data": {"a": "2", "c": "1"}, "metadata": dict(before["metadata"])}
    noted(CONFIG_MAP, before, after, "kubectl", "")
    assert owned(after) == {"kubectl Update": {"f:data": {"f:a": {}, "f:c": {}}}}
    assert (await applied(api, data(a="1", b="1"), "alice"))["data"] == {"a": "1", "b": "1"}


async def test_other_writes_to_what_was_never_applied_cost_nothing(api: Api) -> None:
    before = {"metadata": {"name": "web"}, "data": {"a": "1"}}
    after = {"metadata": {"name": "web"}, "data": {"a": "2"}}
    noted(CONFIG_MAP, before, after, "kubectl", "")
    assert after == {"metadata": {"name": "web"}, "data": {"a": "2"}}


@pytest.mark.parametrize("empty", [[], [{}]])
async def test_who_empties_managed_fields_has_them_forgotten(api: Api, empty: list[Json]) -> None:
    before = await applied(api, data(a="1"), "alice")
    after = {**before, "metadata": {**before["metadata"], "managedFields": empty}}
    noted(CONFIG_MAP, before, after, "kubectl", "")
    assert "managedFields" not in after["metadata"]


async def test_managed_fields_that_a_writer_leaves_out_are_kept(api: Api) -> None:
    before = await applied(api, data(a="1"), "alice")
    metadata = {key: value for key, value in before["metadata"].items() if key != "managedFields"}
    after = {**before, "metadata": metadata}
    noted(CONFIG_MAP, before, after, "", "")
    assert after == before


async def test_the_oldest_of_many_updates_become_one(api: Api) -> None:
    body = await applied(api, data(a="1"), "alice")
    for number in range(12):
        after = {**body, "data": {**body["data"], f"k{number}": "1"}, "metadata": dict(body["metadata"])}
        noted(CONFIG_MAP, body, after, f"writer-{number}", "")
        body = after
    writers = [each["manager"] for each in body["metadata"]["managedFields"] if each["operation"] == "Update"]
    assert len(writers) == 10
    assert "ancient-changes" in writers
    assert owned(body)["alice Apply"] == {"f:data": {"f:a": {}}}
