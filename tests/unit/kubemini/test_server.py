"""The embedded API server over HTTP: what the contract tests, which run on both clusters, cannot show or provoke."""

from __future__ import annotations

import io
from typing import Any

import aiohttp
import pytest

from kubemini.errors import StatusError
from kubemini.kinds import DEPLOYMENT, NAMESPACE, POD, Kind, Kinds
from kubemini.server import answers, listing
from kubemini.server.requests import RequestTarget, place_of
from rescheduler.model.json import Json
from tests.unit.kubemini.served import MAPS, PODS, TOKEN, Client, pod, served


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("api/v1/pods", RequestTarget(POD)),
        ("api/v1/namespaces", RequestTarget(NAMESPACE)),
        ("api/v1/namespaces/a", RequestTarget(NAMESPACE, name="a")),
        ("api/v1/namespaces/a/status", RequestTarget(NAMESPACE, name="a", subresource="status")),
        ("api/v1/namespaces/a/pods/b/eviction", RequestTarget(POD, "a", "b", "eviction")),
        ("apis/apps/v1/namespaces/a/deployments", RequestTarget(DEPLOYMENT, "a")),
        ("apis/apps/v1/pods", None),
        ("api/v1/pods/b", None),
        ("api/v1/namespaces/a/nodes", None),
        ("api/v1/namespaces/a/pods/b/scale", None),
        ("api/v1", None),
    ],
)
def test_a_path_names_a_place_or_nothing(path: str, place: RequestTarget | None) -> None:
    assert place_of(Kinds(), path.split("/")) == place


def test_methods_that_a_place_does_not_have_are_refused() -> None:
    assert RequestTarget(POD, "a").verb("POST") == "create"
    assert RequestTarget(POD).verb("GET") == "list"
    for place, method in (
        (RequestTarget(POD), "POST"),
        (RequestTarget(POD, "a", "b"), "POST"),
        (RequestTarget(POD, "a", "b", "eviction"), "GET"),
    ):
        with pytest.raises(StatusError, match="does not allow this method"):
            place.verb(method)


async def test_only_clients_with_the_token_are_served() -> None:
    async with served() as client, aiohttp.ClientSession() as stranger:
        url = client.server.url
        for path, status in (("/api/v1/pods", 401), ("/version", 200), ("/readyz", 200), ("/token/wrong/api", 401)):
            async with stranger.get(url + path) as response:
                assert response.status == status, path
        async with stranger.get(f"{client.server.private_url}/api/v1/pods") as response:
            assert response.status == 200  # kubectl sends no token without TLS, so its address has it


async def test_what_is_not_there_is_not_found() -> None:
    async with served() as client:
        for path in ("/", "/apis/no.group/v1/things", "/apis/no.group/v1", "/openapi/v2", f"{MAPS}/a", "/api/v1/nope"):
            answer = await client.get(path)
            assert (answer.status, answer.json["kind"]) == (404, "Status"), path


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b'{"kind": "Secret"}', b'{"metadata": []}'])
async def test_a_body_that_is_no_such_object_is_a_bad_request(body: bytes) -> None:
    async with served() as client:
        assert (await client.post(MAPS, io.BytesIO(body))).status in (400, 422)


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with served() as client:
        answer = await client.post(MAPS, io.BytesIO(b'{"data": {"x": "' + b"y" * 4_000_000 + b'"}}'))
        assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")


async def test_a_bug_is_an_internal_error_and_logged_without_the_token(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(listing, "selection", fail)
    async with (
        served() as client,
        aiohttp.ClientSession() as session,
        session.get(f"{client.server.private_url}{MAPS}") as response,
    ):
        assert response.status == 500
    assert "ZeroDivisionError" in caplog.text
    assert TOKEN not in caplog.text


async def test_a_list_that_fails_half_way_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as client:
        for number in range(300):
            await client.make(f"m-{number}", data={"x": "y" * 1000})
        show, shown = answers.ObjectFormat.item, list[bytes]()

        def fail_late(shape: answers.ObjectFormat, raw: bytes) -> bytes:
            shown.append(raw)
            if len(shown) > 290:
                raise ZeroDivisionError
            return show(shape, raw)

        monkeypatch.setattr(answers.ObjectFormat, "item", fail_late)
        with pytest.raises(aiohttp.ClientError):
            await client.get(MAPS)


async def test_a_page_whose_state_is_forgotten_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_KEPT_STATES", 1)
    async with served() as client:
        for name in "abc":
            await client.make(name)
        token = (await client.get(f"{MAPS}?limit=1")).json["metadata"]["continue"]
        assert (await client.get(f"{MAPS}?limit=1&continue={token}")).names == ["b"]
        await client.make("d")
        await client.get(f"{MAPS}?limit=1")
        answer = await client.get(f"{MAPS}?limit=1&continue={token}")
        assert (answer.status, answer.json["reason"]) == (410, "Expired")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("resourceVersion=new", 400),
        ("resourceVersionMatch=Exact&resourceVersion=1", 422),
        ("limit=many", 400),
        ("fieldSelector=spec.nodeName", 400),
        ("fieldSelector=spec.mood%3Dgood", 400),
        ("labelSelector=a%3D%3D%3Db", 400),
    ],
)
async def test_options_that_cannot_be_served_are_refused(query: str, code: int) -> None:
    async with served() as client:
        assert (await client.get(f"{PODS}?{query}")).status == code


async def test_events_of_both_groups_are_the_same_objects() -> None:
    new = "/apis/events.k8s.io/v1/namespaces/default/events"
    body = {"metadata": {"name": "e"}, "note": "hello", "regarding": {"kind": "Pod", "name": "p"}, "type": "Normal"}
    async with served() as client:
        made = (await client.post(new, body | {"reportingController": "me", "reason": "Moved"})).json
        assert (made["apiVersion"], made["note"]) == ("events.k8s.io/v1", "hello")
        core = (await client.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp")).json
        assert core["items"][0]["message"] == "hello"
        assert core["items"][0]["reportingComponent"] == "me"
        assert (await client.get(f"{new}?fieldSelector=regarding.name%3Dp")).json["items"][0]["note"] == "hello"
        patched = (await client.patch(f"{new}/e", {"note": "again"})).json
        assert (patched["note"], patched["regarding"]["name"]) == ("again", "p")


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [({"propagationPolicy": "Orphan"}, ["orphan"]), ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"])],
)
async def test_a_deletion_says_what_becomes_of_dependents(options: Json, finalizers: list[str]) -> None:
    async with served() as client:
        await client.make("a")
        assert (await client.delete(f"{MAPS}/a", options)).json["metadata"]["finalizers"] == finalizers
        assert (await client.delete(f"{MAPS}/a", {"propagationPolicy": "Upwards"})).status == 422


async def test_discovery_follows_the_kinds_that_are_served() -> None:
    thing = Kind("example.io", "v1", "Thing", "things", custom=True)
    async with served() as client:
        assert (await client.get("/apis/example.io/v1")).status == 404
        client.api.kinds.add(thing)
        assert (await client.get("/apis/example.io/v1")).json["resources"][0]["name"] == "things"
        assert "example.io" in [group["name"] for group in (await client.get("/apis")).json["groups"]]
        core = {each["name"] for each in (await client.get("/api/v1")).json["resources"]}
        assert {"pods", "pods/binding", "pods/eviction", "pods/status"} <= core
        paths = (await client.get("/openapi/v3")).json["paths"]
        document = (await client.get(paths["apis/example.io/v1"]["serverRelativeURL"])).json
        patch = document["paths"]["/example.io/v1/things/{name}"]["patch"]
        assert patch["parameters"][0]["name"] == "fieldValidation"


async def test_the_scale_of_a_workload_is_read_and_changed() -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    body = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    async with served() as client:
        await client.post(path, body)
        scale = (await client.get(f"{path}/web/scale")).json
        assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 1}, "app=web")
        assert (await client.patch(f"{path}/web/scale", {"spec": {"replicas": 3}})).json["spec"] == {"replicas": 3}
        assert (await replicas(client, path)) == 3
        assert (await client.send("PUT", f"{path}/web/scale", scale)).status == 409  # it is of an older version
        assert (await client.patch(f"{path}/web/scale", {"spec": {"replicas": -1}})).status == 422
        assert (await replicas(client, path)) == 3


async def replicas(client: Client, path: str) -> int:
    found: int = (await client.get(f"{path}/web")).json["spec"]["replicas"]
    return found
