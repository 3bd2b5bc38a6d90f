"""The embedded API server's door: paths, verbs, the token, bodies and forms of answers, as the real one has them."""

from __future__ import annotations

import asyncio
import gzip
import io

import aiohttp
import pytest
import yaml

from kubemini.kinds import DEPLOYMENT, NAMESPACE, NODE, POD, Kind, Kinds
from kubemini.refusals import Refusal
from kubemini.server import shapes
from kubemini.server.negotiation import accepted
from kubemini.server.paths import place_of
from kubemini.store import Entry
from tests.unit.kubemini.served import MAPS, METADATA, METADATA_LIST, PODS, TABLE, TOKEN, pod, served

KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"


def steps(path: str) -> list[str]:
    return path.strip("/").split("/")


@pytest.mark.parametrize(
    ("path", "kind", "rest"),
    [
        ("/api/v1/pods", POD, ("", "", "")),
        ("/api/v1/namespaces/a/pods", POD, ("a", "", "")),
        ("/api/v1/namespaces/a/pods/b", POD, ("a", "b", "")),
        ("/api/v1/namespaces/a/pods/b/eviction", POD, ("a", "b", "eviction")),
        ("/api/v1/namespaces", NAMESPACE, ("", "", "")),
        ("/api/v1/namespaces/a", NAMESPACE, ("", "a", "")),
        ("/api/v1/namespaces/a/finalize", NAMESPACE, ("", "a", "finalize")),
        ("/api/v1/nodes/n/status", NODE, ("", "n", "status")),
        ("/apis/apps/v1/namespaces/a/deployments/d/scale", DEPLOYMENT, ("a", "d", "scale")),
    ],
)
def test_a_path_names_a_place(path: str, kind: Kind, rest: tuple[str, str, str]) -> None:
    place = place_of(Kinds(), steps(path))
    assert place is not None
    assert place.kind == kind
    assert (place.namespace, place.name, place.subresource) == rest
    assert not place.watched


@pytest.mark.parametrize(
    "path",
    [
        "/api/v2/pods",
        "/api/v1/nope",
        "/apis/apps/v2/deployments",
        "/api/v1/pods/b",
        "/api/v1/namespaces/a/nodes",
        "/api/v1/namespaces/a/pods/b/nope",
        "/api/v1/nodes/n/status/x",
        "/api/v1//pods",
        "/apis/apps/v1/namespaces/a/pods",
    ],
)
def test_other_paths_name_nothing(path: str) -> None:
    assert place_of(Kinds(), steps(path)) is None


def test_the_old_way_of_watching_is_in_the_path() -> None:
    place = place_of(Kinds(), steps("/api/v1/watch/namespaces/a/pods/b"))
    assert place is not None
    assert (place.kind, place.namespace, place.name, place.watched) == (POD, "a", "b", True)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/api/v1/pods", {"GET"}),
        ("/api/v1/nodes", {"GET", "POST", "DELETE"}),
        ("/api/v1/namespaces/a/pods", {"GET", "POST", "DELETE"}),
        ("/api/v1/namespaces/a/pods/b", {"GET", "PUT", "PATCH", "DELETE"}),
        ("/api/v1/namespaces/a/pods/b/status", {"GET", "PUT", "PATCH"}),
        ("/api/v1/namespaces/a/pods/b/eviction", {"POST"}),
        ("/api/v1/namespaces/a/pods/b/binding", {"POST"}),
        ("/apis/apps/v1/namespaces/a/deployments/b/scale", {"GET", "PUT", "PATCH"}),
        ("/api/v1/namespaces/a/finalize", {"PUT"}),
    ],
)
def test_each_place_has_its_methods(path: str, allowed: set[str]) -> None:
    place = place_of(Kinds(), steps(path))
    assert place is not None
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"):
        if method in allowed:
            assert place.verb(method)
        else:
            with pytest.raises(Refusal) as refused:
                place.verb(method)
            assert refused.value.code == 405


@pytest.mark.parametrize(
    ("header", "encoding", "shape"),
    [
        ("", "application/json", ""),
        ("*/*", "application/json", ""),
        ("application/yaml", "application/yaml", ""),
        ("application/vnd.kubernetes.protobuf,application/json", "application/json", ""),
        ("application/json;q=0.1,application/yaml", "application/yaml", ""),
        (KUBECTL, "application/json", "Table"),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", "application/json", ""),
        ("application/json;as=Other;v=v1;g=meta.k8s.io,application/json", "application/json", ""),
    ],
)
def test_the_best_acceptable_form_is_taken(header: str, encoding: str, shape: str) -> None:
    agreed = accepted(header, "Table")
    assert (agreed.encoding, agreed.shape) == (encoding, shape)


@pytest.mark.parametrize("header", ["text/html", "application/vnd.kubernetes.protobuf", TABLE, "application/json;q=0"])
def test_a_client_that_accepts_nothing_of_ours_is_told_so(header: str) -> None:
    with pytest.raises(Refusal) as refused:
        accepted(header)
    assert (refused.value.code, refused.value.reason) == (406, "NotAcceptable")


async def test_only_those_who_know_the_token_come_in() -> None:
    async with served() as client, aiohttp.ClientSession() as session:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
            async with session.get(f"{client.server.url}/api/v1/pods", headers=headers) as response:
                assert response.status == 401
                assert (await response.json())["reason"] == "Unauthorized"
        for path in ("/livez", "/readyz", "/healthz", "/livez/ping", "/version"):
            async with session.get(f"{client.server.url}{path}") as response:
                assert response.status == 200


async def test_the_token_may_be_in_the_address_because_kubectl_sends_none_without_tls() -> None:
    async with served() as client, aiohttp.ClientSession() as session:
        async with session.get(f"{client.server.private_url}/api/v1/namespaces/default") as response:
            assert (await response.json())["metadata"]["name"] == "default"
        for wrong in ("wrong", "", TOKEN + "x"):
            async with session.get(f"{client.server.url}/token/{wrong}/api/v1/pods") as response:
                assert response.status == 401


async def test_what_is_not_there_is_not_found() -> None:
    async with served() as client:
        unknown = await client.get("/api/v1/namespaces/default/nopes")
        assert (unknown.status, unknown.message) == (404, "the server could not find the requested resource")
        nobody = await client.get(f"{PODS}/nobody")
        assert (nobody.status, nobody.message) == (404, 'pods "nobody" not found')
        assert nobody.json["details"] == {"name": "nobody", "kind": "pods"}
        for path in ("/nope", "/apis/nope.io", "/apis/nope.io/v1"):
            answer = await client.get(path)
            assert (answer.status, answer.raw) == (404, b"404 page not found\n")
        assert (await client.get("/apis/nope.io/v1/things")).status == 404


async def test_a_wrong_method_is_refused() -> None:
    async with served() as client:
        for method, path in (("PUT", PODS), ("POST", f"{PODS}/a"), ("POST", "/api/v1/pods"), ("DELETE", "/apis")):
            answer = await client.send(method, path, {})
            assert (answer.status, answer.json["reason"]) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"a', "must be of type Pod): couldn't get version/kind; json parse error"),
        (b"[]", "must be of type Pod): couldn't get version/kind"),
        (b"", "must be of type Pod): couldn't get version/kind"),
        (b"\xff\xfe", "json parse error"),
        (b'{"kind":"Node","apiVersion":"v1"}', 'Node in version "v1" cannot be handled as a Pod'),
        (b'{"kind":3}', "must be of type Pod): kind must be a text"),
        (b'{"metadata":{"name":3}}', "metadata.name must be a string"),
        (b'{"metadata":[]}', "metadata must be an object"),
        (b'{"metadata":{"labels":{"a":1}}}', "metadata.labels must be a map of strings"),
        (b'{"apiVersion":"v2","kind":"Pod"}', "does not match the expected"),
    ],
)
async def test_a_body_that_makes_no_sense_is_a_bad_request(body: bytes, said: str) -> None:
    async with served() as client:
        answer = await client.post(PODS, body)
        assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
        assert said in answer.message


async def test_a_body_in_another_form_is_not_supported() -> None:
    async with served() as client:
        answer = await client.send("POST", PODS, b"x", {"Content-Type": "text/plain"})
        assert (answer.status, answer.json["reason"]) == (415, "UnsupportedMediaType")
        assert "application/json, application/yaml" in answer.message


async def test_a_body_may_be_yaml_and_its_dates_stay_texts() -> None:
    text = b"kind: ConfigMap\nmetadata:\n  name: a\n  annotations: {when: 2026-01-01}\ndata: {x: 'y'}\n"
    async with served() as client:
        answer = await client.send("POST", MAPS, text, {"Content-Type": "application/yaml; charset=utf-8"})
        assert answer.status == 201
        assert answer.json["metadata"]["annotations"] == {"when": "2026-01-01"}
        broken = await client.send("POST", MAPS, b"kind: [ConfigMap", {"Content-Type": "application/yaml"})
        assert broken.status == 400
        assert "unrecognized (must be of type ConfigMap): yaml:" in broken.message


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with served() as client:
        answer = await client.send("POST", MAPS, io.BytesIO(b'{"data":{"x":"' + b"y" * 4_000_000 + b'"}}'))
        assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")


async def test_answers_come_as_yaml_and_pretty_for_those_who_ask() -> None:
    async with served() as client:
        await client.make("a", data={"x": "y"})
        as_yaml = await client.get(f"{MAPS}/a", "application/yaml")
        assert as_yaml.headers["Content-Type"].startswith("application/yaml")
        assert yaml.safe_load(as_yaml.raw) == (await client.get(f"{MAPS}/a")).json
        assert yaml.safe_load((await client.get(MAPS, "application/yaml")).raw)["kind"] == "ConfigMapList"
        assert b'\n  "kind": ' in (await client.get(f"{MAPS}/a?pretty=true")).raw
        curl = await client.send("GET", f"{MAPS}/a", headers={"User-Agent": "curl/8"})
        assert b'\n  "kind": ' in curl.raw
        assert b"\n  " not in (await client.get(f"{MAPS}/a")).raw


async def test_large_answers_are_compressed_for_those_who_ask() -> None:
    async with served() as client, aiohttp.ClientSession(auto_decompress=False) as session:
        for number in range(300):
            await client.make(f"map-{number}", data={"x": "y" * 1000})
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": "gzip"}
        for path in (MAPS, f"{MAPS}?limit=200"):  # in pieces, and in one
            async with session.get(f"{client.server.url}{path}", headers=headers) as response:
                assert response.headers["Content-Encoding"] == "gzip"
                assert gzip.decompress(await response.read()) == (await client.get(path)).raw
        async with session.get(f"{client.server.url}{MAPS}/map-0", headers=headers) as response:
            assert "Content-Encoding" not in response.headers


async def test_nothing_is_written_for_a_client_that_could_not_read_the_answer() -> None:
    async with served() as client:
        answer = await client.post(MAPS, {"metadata": {"name": "a"}}, Accept="text/html")
        assert answer.status == 406
        assert (await client.get(f"{MAPS}/a")).status == 404


async def test_metadata_alone_is_given_to_those_who_ask() -> None:
    async with served() as client:
        await client.make("a", data={"x": "y"})
        whole = (await client.get(f"{MAPS}/a")).json
        one = (await client.get(f"{MAPS}/a", METADATA)).json
        expected = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": whole["metadata"]}
        assert one == expected
        listed = (await client.get(MAPS, METADATA_LIST)).json
        assert listed["kind"] == "PartialObjectMetadataList"
        assert listed["items"] == [expected]
        assert (await client.get(MAPS, METADATA)).status == 406
        assert (await client.get(f"{MAPS}/a", METADATA_LIST)).status == 406


async def test_a_fault_of_ours_is_an_internal_error_and_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as client:
        monkeypatch.setattr(client.api.store, "get", lambda *_: 1 / 0)
        answer = await client.get(f"{PODS}/a")
        assert (answer.status, answer.json["reason"]) == (500, "InternalError")
        assert "ZeroDivisionError" in caplog.text


async def test_a_list_that_fails_half_way_is_broken_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as client:
        for number in range(600):
            await client.make(f"map-{number:03}")

        def raw_of(_: Kind, entry: Entry) -> bytes:
            if entry.key[1] == "map-555":
                raise ZeroDivisionError
            return entry.raw

        monkeypatch.setattr(shapes, "raw_of", raw_of)
        with pytest.raises(aiohttp.ClientError):
            await client.get(MAPS)
        assert "ZeroDivisionError" in caplog.text
        assert (await client.get(f"{MAPS}?limit=5")).status == 200


async def test_the_token_is_not_in_the_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async with served() as client, aiohttp.ClientSession() as session:
        monkeypatch.setattr(client.api.store, "get", lambda *_: 1 / 0)
        async with session.get(f"{client.server.private_url}{PODS}/a") as response:
            assert response.status == 500
        assert TOKEN not in caplog.text


async def test_requests_are_served_side_by_side() -> None:
    async with served() as client:
        answers = await asyncio.gather(*(client.post(PODS, pod(f"pod-{number}")) for number in range(50)))
        assert {answer.status for answer in answers} == {201}
        assert len((await client.get(PODS)).names) == 50
