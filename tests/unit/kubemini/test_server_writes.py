"""What is written through the embedded API server: codes, forms of answers, options, and parts of objects."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.custom import CustomKind
from kubemini.kinds import DEPLOYMENT
from kubemini.refusals import Refusal
from kubemini.server import writing
from tests.unit.kubemini.served import MAPS, PODS, TABLE, Client, Json, pod, served

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
FINALIZED = {"finalizers": ["example.io/later"]}


def deployment(name: str, replicas: int = 2) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


async def versions(client: Client, path: str) -> str:
    found: str = (await client.get(path)).json["metadata"]["resourceVersion"]
    return found


async def test_a_created_object_is_answered_with_201() -> None:
    async with served() as client:
        answer = await client.post(MAPS, {"metadata": {"name": "a"}, "data": {"x": "y"}})
        assert answer.status == 201
        assert answer.json == (await client.get(f"{MAPS}/a")).json
        again = await client.post(MAPS, {"metadata": {"name": "a"}})
        assert (again.status, again.message) == (409, 'configmaps "a" already exists')


async def test_a_dry_run_writes_nothing() -> None:
    async with served() as client:
        assert (await client.post(f"{MAPS}?dryRun=All", {"metadata": {"name": "a"}})).status == 201
        assert (await client.get(f"{MAPS}/a")).status == 404
        await client.make("a", data={"x": "1"})
        put = await client.send("PUT", f"{MAPS}/a?dryRun=All", {"metadata": {"name": "a"}, "data": {"x": "2"}})
        assert put.json["data"] == {"x": "2"}
        assert (await client.patch(f"{MAPS}/a?dryRun=All", {"data": {"x": "3"}})).json["data"] == {"x": "3"}
        assert (await client.delete(f"{MAPS}/a?dryRun=All")).json["status"] == "Success"
        assert (await client.get(f"{MAPS}/a")).json["data"] == {"x": "1"}


@pytest.mark.parametrize(
    ("method", "query", "said"),
    [
        ("POST", "dryRun=Foo", 'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value'),
        ("POST", "fieldValidation=x", 'fieldValidation: Unsupported value: "x": supported values: ""'),
        ("DELETE", "dryRun=Foo", 'DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value'),
        ("DELETE", "propagationPolicy=Foo", 'propagationPolicy: Unsupported value: "Foo"'),
    ],
)
async def test_options_that_make_no_sense_are_refused(method: str, query: str, said: str) -> None:
    async with served() as client:
        await client.make("a")
        path, body = (MAPS, {"metadata": {"name": "b"}}) if method == "POST" else (f"{MAPS}/a", None)
        answer = await client.send(method, f"{path}?{query}", body)
        assert (answer.status, answer.json["reason"]) == (422, "Invalid")
        assert said in answer.message


async def test_a_whole_version_is_replaced_unless_it_is_stale() -> None:
    async with served() as client:
        made = await client.make("a", data={"x": "1"})
        changed = await client.send("PUT", f"{MAPS}/a", made | {"data": {"x": "2"}})
        assert (changed.status, changed.json["data"]) == (200, {"x": "2"})
        stale = await client.send("PUT", f"{MAPS}/a", made | {"data": {"x": "3"}})
        assert (stale.status, stale.json["reason"]) == (409, "Conflict")
        wrong = await client.send("PUT", f"{MAPS}/a", {"metadata": {"name": "b"}})
        assert wrong.status == 400
        assert (await client.send("PUT", f"{MAPS}/b", {"metadata": {"name": "b"}})).status == 404


@pytest.mark.parametrize(
    ("sort", "patch"),
    [
        ("merge-patch", {"data": {"x": "2", "z": None}}),
        ("strategic-merge-patch", {"data": {"x": "2", "z": None}}),
        ("json-patch", [{"op": "replace", "path": "/data/x", "value": "2"}, {"op": "remove", "path": "/data/z"}]),
    ],
)
async def test_patches_of_each_sort_are_carried_out(sort: str, patch: Any) -> None:
    async with served() as client:
        await client.make("a", data={"x": "1", "y": "1", "z": "1"})
        answer = await client.patch(f"{MAPS}/a", patch, sort)
        assert (answer.status, answer.json["data"]) == (200, {"x": "2", "y": "1"})


async def test_a_patch_of_an_unknown_sort_is_not_supported() -> None:
    async with served() as client:
        await client.make("a")
        answer = await client.send("PATCH", f"{MAPS}/a", {}, {"Content-Type": "application/json"})
        assert (answer.status, answer.json["reason"]) == (415, "UnsupportedMediaType")


async def test_a_patch_that_names_a_stale_version_is_a_conflict() -> None:
    async with served() as client:
        made = await client.make("a")
        await client.change("a", data={"x": "1"})
        patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"x": "2"}}
        assert (await client.patch(f"{MAPS}/a", patch)).status == 409


async def test_applying_needs_a_manager_and_creates_what_is_not_there() -> None:
    async with served() as client:
        body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1'}\n"
        sort = {"Content-Type": writing.APPLY}
        nobody = await client.send("PATCH", f"{MAPS}/a", body, sort)
        assert (nobody.status, nobody.json["details"]["kind"]) == (422, "PatchOptions")
        assert "fieldManager: Required value: is required for apply patch" in nobody.message
        created = await client.send("PATCH", f"{MAPS}/a?fieldManager=me", body, sort)
        assert (created.status, created.json["data"]) == (201, {"x": "1"})
        again = await client.send("PATCH", f"{MAPS}/a?fieldManager=me", body.replace(b"'1'", b"'2'"), sort)
        assert (again.status, again.json["data"]) == (200, {"x": "2"})


async def test_the_status_is_written_by_itself() -> None:
    async with served() as client:
        await client.post(PODS, pod("a"))
        path = f"{PODS}/a/status"
        patch = {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}
        patched = await client.patch(path, patch, "merge-patch")
        assert patched.json["status"]["phase"] == "Running"
        assert "nodeName" not in patched.json["spec"]
        body = patched.json
        body["status"]["phase"] = "Failed"
        assert (await client.send("PUT", path, body)).json["status"]["phase"] == "Failed"
        assert (await client.get(path)).json == (await client.get(f"{PODS}/a")).json


async def test_unknown_fields_of_custom_objects_are_those_that_their_schema_does_not_know() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    kind = CustomKind("example.io", "v1", "Thing", "things", custom=True, schema=schema)
    async with served() as client:
        client.api.kinds.add(kind)
        things = "/apis/example.io/v1/namespaces/default/things"
        body = {"metadata": {"name": "a"}, "spec": {"size": 3, "sice": 4}}
        strict = await client.post(f"{things}?fieldValidation=Strict", body)
        assert strict.status == 400
        assert strict.message.endswith('strict decoding error: unknown field "spec.sice"')
        made = await client.post(things, body)
        assert (made.status, made.headers["Warning"]) == (201, '299 - "unknown field \\"spec.sice\\""')
        patched = await client.patch(f"{things}/a?fieldValidation=Strict", {"spec": {"sice": 5}})
        assert patched.status == 422


async def test_a_deleted_object_is_a_success_with_details() -> None:
    async with served() as client:
        made = await client.make("a")
        answer = await client.delete(f"{MAPS}/a")
        details = {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
        assert answer.json["status"] == "Success"
        assert (answer.status, answer.json["details"]) == (200, details)
        await client.post(DEPLOYMENTS, deployment("d"))
        assert (await client.delete(f"{DEPLOYMENTS}/d")).json["details"]["group"] == "apps"
        assert (await client.delete(f"{MAPS}/a")).status == 404


async def test_an_object_that_stays_for_a_while_is_shown_when_it_is_deleted() -> None:
    async with served() as client:
        await client.make("a", metadata=FINALIZED)
        for _ in range(2):
            answer = await client.delete(f"{MAPS}/a")
            assert answer.json["kind"] == "ConfigMap"
            assert answer.json["metadata"]["deletionTimestamp"]
        await client.patch(f"{MAPS}/a", {"metadata": {"finalizers": None}})
        assert (await client.get(f"{MAPS}/a")).status == 404


async def test_a_pod_is_shown_even_when_it_goes_at_once() -> None:
    async with served() as client:
        await client.post(PODS, pod("a"))
        answer = await client.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
        assert (answer.json["kind"], answer.json["metadata"]["name"]) == ("Pod", "a")
        assert (await client.get(f"{PODS}/a")).status == 404


async def test_the_grace_of_a_deletion_is_in_the_body_or_the_query() -> None:
    async with served() as client:
        for name in ("a", "b"):
            await client.post(PODS, pod(name, spec={"nodeName": "n"}))
        by_query = await client.delete(f"{PODS}/a?gracePeriodSeconds=7")
        assert by_query.json["metadata"]["deletionGracePeriodSeconds"] == 7
        by_body = await client.delete(f"{PODS}/b?gracePeriodSeconds=7", {"gracePeriodSeconds": 9})
        assert by_body.json["metadata"]["deletionGracePeriodSeconds"] == 9


async def test_a_deletion_has_preconditions() -> None:
    async with served() as client:
        made = await client.make("a")
        for wrong in ({"uid": "other"}, {"resourceVersion": "1"}):
            assert (await client.delete(f"{MAPS}/a", {"preconditions": wrong})).status == 409
        right = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
        assert (await client.delete(f"{MAPS}/a", {"preconditions": right})).status == 200


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"orphanDependents": True}, ["orphan"]),
    ],
)
async def test_a_deletion_says_what_becomes_of_dependents(options: Json, finalizers: list[str]) -> None:
    async with served() as client:
        await client.make("a")
        answer = await client.delete(f"{MAPS}/a", {"kind": "DeleteOptions", "apiVersion": "v1"} | options)
        assert answer.json["metadata"]["finalizers"] == finalizers


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"gracePeriodSeconds":"x"}'])
async def test_options_of_a_deletion_that_make_no_sense_are_a_bad_request(body: bytes) -> None:
    async with served() as client:
        await client.make("a")
        assert (await client.send("DELETE", f"{MAPS}/a", body)).status == 400
        both = {"propagationPolicy": "Foreground", "orphanDependents": True}
        assert (await client.delete(f"{MAPS}/a", both)).status == 422


async def test_the_pods_of_a_job_are_kept_unless_somebody_says_otherwise() -> None:
    async with served() as client:
        template = {"spec": pod("x")["spec"] | {"restartPolicy": "Never"}}
        for name in ("a", "b"):
            await client.post(JOBS, {"metadata": {"name": name}, "spec": {"template": template}})
        kept = await client.delete(f"{JOBS}/a")
        assert kept.json["metadata"]["finalizers"] == ["orphan"]
        assert (await client.delete(f"{JOBS}/b?propagationPolicy=Background")).json["status"] == "Success"


async def test_a_selected_part_of_a_collection_is_deleted() -> None:
    async with served() as client:
        for name, group in (("a", "x"), ("b", "x"), ("c", "y")):
            await client.make(name, metadata={"labels": {"group": group}})
        answer = await client.delete(f"{MAPS}?labelSelector=group%3Dx")
        assert (answer.status, answer.json["kind"], answer.names) == (200, "ConfigMapList", ["a", "b"])
        assert (await client.get(MAPS)).names == ["c"]


async def test_a_workload_is_scaled() -> None:
    async with served() as client:
        await client.post(DEPLOYMENTS, deployment("d"))
        path = f"{DEPLOYMENTS}/d/scale"
        scale = (await client.get(path)).json
        assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})
        scale["spec"]["replicas"] = 5
        assert (await client.send("PUT", path, scale)).json["spec"] == {"replicas": 5}
        stale = await client.send("PUT", path, scale)
        assert (stale.status, stale.json["reason"]) == (409, "Conflict")
        for sort in ("merge-patch", "strategic-merge-patch"):
            assert (await client.patch(path, {"spec": {"replicas": 6}}, sort)).json["spec"] == {"replicas": 6}
        changed = (await client.get(f"{DEPLOYMENTS}/d")).json
        assert (changed["spec"]["replicas"], changed["metadata"]["generation"]) == (6, 3)
        table = (await client.get(path, TABLE)).json
        assert table["rows"][0]["cells"][:3] == ["d", 6, 0]
        assert (await client.get(f"{DEPLOYMENTS}/nobody/scale")).status == 404


async def test_a_pod_is_evicted_and_bound() -> None:
    async with served() as client:
        await client.post(PODS, pod("a"))
        binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
        bound = await client.post(f"{PODS}/a/binding", binding)
        assert (bound.status, bound.json["status"]) == (201, "Success")
        assert (await client.get(f"{PODS}/a")).json["spec"]["nodeName"] == "n"
        eviction = {"metadata": {"name": "a"}}
        tried = await client.post(f"{PODS}/a/eviction?dryRun=All", eviction)
        assert (tried.status, tried.json["status"]) == (201, "Success")
        assert "deletionTimestamp" not in (await client.get(f"{PODS}/a")).json["metadata"]
        done = await client.post(f"{PODS}/a/eviction", eviction)
        assert done.status == 201
        assert (await client.get(f"{PODS}/a")).json["metadata"]["deletionTimestamp"]
        assert (await client.post(f"{PODS}/nobody/eviction", {"metadata": {"name": "nobody"}})).status == 404


async def test_a_refusal_that_says_when_to_come_again_says_it_in_the_header_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def evict(*_: object, **__: object) -> Json:
        raise Refusal(429, "TooManyRequests", "later", {"retryAfterSeconds": 10})

    monkeypatch.setattr("kubemini.eviction.evict", evict)
    async with served() as client:
        answer = await client.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
        assert (answer.status, answer.headers["Retry-After"]) == (429, "10")
        assert answer.json["details"]["retryAfterSeconds"] == 10


async def test_a_namespace_is_finalized() -> None:
    async with served() as client:
        path = "/api/v1/namespaces/default"
        kept = await client.send(
            "PUT", f"{path}/finalize", {"metadata": {"name": "default"}, "spec": {"finalizers": ["x/y"]}}
        )
        assert kept.json["spec"]["finalizers"] == ["x/y"]
        await client.delete(path)
        assert (await client.get(path)).json["metadata"]["deletionTimestamp"]
        await client.send("PUT", f"{path}/finalize", {"metadata": {"name": "default"}, "spec": {"finalizers": []}})
        assert (await client.get(path)).status == 404


async def test_a_written_object_is_shown_as_a_row_to_those_who_ask() -> None:
    async with served() as client:
        answer = await client.post(MAPS, {"metadata": {"name": "a"}}, Accept=TABLE)
        assert (answer.status, answer.json["kind"]) == (201, "Table")
        assert answer.json["rows"][0]["cells"][:2] == ["a", 0]


async def test_an_edit_that_changes_nothing_writes_nothing() -> None:
    async with served() as client:
        await client.make("a", data={"x": "1"})
        before = await versions(client, f"{MAPS}/a")
        await client.patch(f"{MAPS}/a", {"data": {"x": "1"}})
        await client.send("PUT", f"{MAPS}/a", {"data": {"x": "1"}, "metadata": {"name": "a"}})
        assert await versions(client, f"{MAPS}/a") == before


async def test_a_deployment_written_by_http_is_the_one_that_is_stored() -> None:
    async with served() as client:
        answer = await client.post(DEPLOYMENTS, deployment("d"))
        assert client.api.find(DEPLOYMENT, ("default", "d")) == answer.json
