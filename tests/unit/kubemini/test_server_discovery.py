"""What clients learn of the embedded API server before they use it: groups, kinds, versions, checks of fields."""

from __future__ import annotations

from kubemini.kinds import Kind, Kinds
from kubemini.server import discovery, openapi
from tests.unit.kubemini.served import Json, served

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
THING = Kind("example.io", "v1", "Thing", "things", short=("th",), subresources=("scale", "status"), custom=True)


def resources_of(document: Json | None) -> dict[str, Json]:
    assert document is not None
    return {each["name"]: each for each in document["resources"]}


def test_kinds_are_listed_with_their_parts() -> None:
    pods = resources_of(discovery.resource_list(Kinds(), "", "v1"))
    assert pods["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
    }
    assert pods["pods/status"]["kind"] == "Pod"
    assert pods["pods/binding"] == {
        "name": "pods/binding",
        "singularName": "",
        "namespaced": True,
        "kind": "Binding",
        "verbs": ["create"],
    }
    eviction = pods["pods/eviction"]  # `kubectl drain` looks for exactly this
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")
    scale = resources_of(discovery.resource_list(Kinds(), "apps", "v1"))["deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


def test_a_custom_kind_is_listed_as_soon_as_it_is_served() -> None:
    kinds = Kinds()
    assert discovery.group(kinds, "example.io") is None
    kinds.add(THING)
    assert "things/scale" in resources_of(discovery.resource_list(kinds, "example.io", "v1"))
    group = discovery.group(kinds, "example.io")
    assert group is not None
    assert group["preferredVersion"] == {"groupVersion": "example.io/v1", "version": "v1"}
    kinds.remove(THING)
    assert discovery.resource_list(kinds, "example.io", "v1") is None


def test_the_most_mature_and_newest_version_is_preferred() -> None:
    kinds = Kinds()
    for version in ("v1", "v2beta1", "v10", "v2", "v1alpha1", "odd", "v2beta2"):
        kinds.add(Kind("example.io", version, "Thing", "things"))
    assert discovery.versions_of(kinds, "example.io") == ["v10", "v2", "v1", "v2beta2", "v2beta1", "v1alpha1", "odd"]


def test_aggregated_discovery_says_the_same_at_once() -> None:
    core = discovery.aggregated(Kinds(), core=True)["items"]
    assert [item["metadata"] for item in core] == [{}]
    (version,) = core[0]["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    pods = next(each for each in version["resources"] if each["resource"] == "pods")
    assert pods["responseKind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert [part["subresource"] for part in pods["subresources"]] == ["binding", "eviction", "status"]
    assert [part["responseKind"]["kind"] for part in pods["subresources"]] == ["Binding", "Eviction", "Pod"]
    others = discovery.aggregated(Kinds(), core=False)["items"]
    assert [item["metadata"]["name"] for item in others] == discovery.groups_of(Kinds())


async def test_both_forms_of_discovery_are_served() -> None:
    async with served() as client:
        assert (await client.get("/api")).json["versions"] == ["v1"]
        assert (await client.get("/apis")).json["kind"] == "APIGroupList"
        assert (await client.get("/apis/apps")).json["name"] == "apps"
        assert (await client.get("/apis/apps/v1")).json["groupVersion"] == "apps/v1"
        assert (await client.get("/api/v1")).json["groupVersion"] == "v1"
        assert (await client.get("/apis/apps/v2")).status == 404
        assert (await client.get("/api/v2")).status == 404
        for path in ("/api", "/apis"):
            answer = await client.get(path, f"{AGGREGATED},application/json")
            assert answer.headers["Content-Type"] == AGGREGATED
            assert answer.json["kind"] == "APIGroupDiscoveryList"
            headers = {"Accept": AGGREGATED, "If-None-Match": answer.headers["ETag"]}
            assert (await client.send("GET", path, headers=headers)).status == 304
        assert "/apis/apps/v1" in (await client.get("/")).json["paths"]


async def test_the_version_is_the_one_whose_ways_it_has() -> None:
    async with served() as client:
        version = (await client.get("/version")).json
        assert (version["major"], version["minor"]) == ("1", "37")
        assert version["gitVersion"].startswith("v1.37.")


def operations(document: Json | None) -> dict[tuple[str, str], Json]:
    assert document is not None
    return {(path, method): each for path, entry in document["paths"].items() for method, each in entry.items()}


def test_openapi_says_that_the_server_checks_fields() -> None:
    kinds = Kinds()
    kinds.add(THING)
    index = openapi.index(kinds)["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/example.io/v1"} <= set(index)
    assert index["apis/apps/v1"]["serverRelativeURL"].startswith("/openapi/v3/apis/apps/v1?hash=")
    for document in (openapi.document_of(kinds, "apis/example.io/v1"), openapi.old_document(kinds)):
        patch = operations(document)[("/apis/example.io/v1/namespaces/{namespace}/things/{name}", "patch")]
        assert patch["x-kubernetes-group-version-kind"] == {"group": "example.io", "version": "v1", "kind": "Thing"}
        assert [each["name"] for each in patch["parameters"]] == ["fieldValidation"]
    assert openapi.document_of(kinds, "apis/nope/v1") is None


async def test_openapi_is_served() -> None:
    async with served() as client:
        index = (await client.get("/openapi/v3")).json["paths"]
        assert (await client.get(index["api/v1"]["serverRelativeURL"])).json["openapi"] == "3.0.0"
        assert (await client.get("/openapi/v2")).json["swagger"] == "2.0"
        only = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        assert (await client.get("/openapi/v2", only)).status == 406
        assert (await client.get("/openapi/v3/apis/nope/v1")).status == 404
        assert (await client.send("POST", "/openapi/v3", {})).status == 405
