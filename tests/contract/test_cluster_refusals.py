"""What the server says to requests that make no sense: the code, the reason, and the field where there is one."""

from __future__ import annotations

import json

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, refusal
from tests.support.manifests import deployment, lease, pod, replica_set, stateful_set
from tests.testbed.api import ApiError


def test_an_object_that_is_not_there_is_not_found(space: Space) -> None:
    with refusal(404, "NotFound") as refused:
        space.get("Deployment", "nobody")
    assert refused.message == 'deployments.apps "nobody" not found'
    assert refused.error.status["kind"] == "Status"
    assert refused.error.status["status"] == "Failure"
    assert refused.error.status["code"] == 404
    assert refused.error.status["details"] == {"name": "nobody", "group": "apps", "kind": "deployments"}


def test_nothing_is_created_in_a_namespace_that_is_not_there(space: Space) -> None:
    with refusal(404, "NotFound") as refused:
        Space(space.cluster, "no-such-namespace").create(lease("homeless"))
    assert refused.message == 'namespaces "no-such-namespace" not found'


def test_a_namespace_that_is_not_there_is_empty(space: Space) -> None:
    assert Space(space.cluster, "no-such-namespace").list("Lease") == []


def test_nothing_is_created_in_a_namespace_that_ends(space: Space) -> None:
    name = f"{space.name[:50]}-2"
    space.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    ending = Space(space.cluster, name)
    held = lease("held")
    held["metadata"]["finalizers"] = ["contract.test/hold"]
    ending.create(held)
    assert space.api.delete(f"/api/v1/namespaces/{name}")["status"]["phase"] == "Terminating"
    try:
        with refusal(403, "Forbidden") as refused:
            ending.create(lease("late"))
        assert "being terminated" in refused.message
    finally:
        ending.patch("Lease", "held", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    "path", ["/api/v1/widgets", "/apis/apps/v1/widgets", "/apis/widgets.test/v1/widgets", "/nothing/at/all"]
)
def test_an_unknown_kind_is_not_found(space: Space, path: str) -> None:
    with pytest.raises(ApiError) as refused:
        space.api.get(path)
    assert refused.value.code == 404


def test_a_verb_that_a_kind_does_not_have_is_not_allowed(space: Space) -> None:
    space.create(lease("plain"))
    with refusal(405, "MethodNotAllowed"):
        space.api.post(space.path("Lease", "plain"), lease("plain"))


def test_an_unknown_sort_of_patch_is_not_supported(space: Space) -> None:
    space.create(lease("plain"))
    with refusal(415, "UnsupportedMediaType"):
        space.api.send("PATCH", space.path("Lease", "plain"), "{}", "application/json")


@pytest.mark.parametrize(
    "body",
    [
        "{not json",
        "[]",
        json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wrong"}}),
        json.dumps({"metadata": {"name": "wrong", "labels": {"number": 1}}}),
        json.dumps({"metadata": {"name": "wrong", "namespace": "elsewhere"}}),
    ],
    ids=["no-json", "no-object", "another-kind", "number-for-a-text", "another-namespace"],
)
def test_a_body_that_is_no_such_object_is_a_bad_request(space: Space, body: str) -> None:
    with refusal(400, "BadRequest"):
        space.api.send("POST", space.path("Lease"), body)


def test_a_body_for_another_name_is_a_bad_request(space: Space) -> None:
    space.create(lease("plain"))
    with refusal(400, "BadRequest"):
        space.api.put(space.path("Lease", "plain"), lease("other"))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (lease(""), "metadata.name"),
        (lease("Not_A_Name"), "metadata.name"),
        (pod("x", containers=[]), "spec.containers"),
        (deployment("x", -1), "spec.replicas"),
        (deployment("x", 1, selector={"matchLabels": {"app": "y"}}), "spec.template.metadata.labels"),
        (deployment("x", 1, selector={}), "spec.selector"),
        (replica_set("x", 1, selector={"matchLabels": {"app": "y"}}), "spec.template.metadata.labels"),
        (stateful_set("x", -1), "spec.replicas"),
    ],
    ids=lambda value: value if isinstance(value, str) else value["kind"],
)
def test_a_value_that_is_not_allowed_is_invalid_and_its_field_is_named(space: Space, body: Json, field: str) -> None:
    with refusal(422, "Invalid") as refused:
        space.create(body)
    assert field in refused.fields
    assert field in refused.message


def test_a_patch_that_makes_an_object_invalid_is_refused(space: Space) -> None:
    made = space.create(deployment("web", 0))
    with refusal(422, "Invalid") as refused:
        space.patch("Deployment", "web", {"spec": {"replicas": -1}})
    assert refused.fields == ["spec.replicas"]
    with refusal(422, "Invalid"):
        space.patch("Deployment", "web", {"spec": {"replicas": "many"}})
    assert space.get("Deployment", "web")["spec"] == made["spec"]


@pytest.mark.parametrize(
    "query", [{"labelSelector": "a=b=c"}, {"fieldSelector": "spec.mood=cheerful"}, {"limit": "many"}], ids=str
)
def test_a_query_that_makes_no_sense_is_a_bad_request(space: Space, query: dict[str, str]) -> None:
    with refusal(400, "BadRequest"):
        space.list("Pod", **query)


def test_an_unknown_sort_of_dry_run_is_invalid(space: Space) -> None:
    with refusal(422, "Invalid"):
        space.create(lease("dry"), dryRun="Some")
