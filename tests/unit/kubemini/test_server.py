"""The embedded API server over HTTP: what the contract tests, which run on both clusters, cannot show or provoke."""

from __future__ import annotations

import io
from typing import Any

import aiohttp
import pytest

from kubemini.kinds import DEPLOYMENT, NAMESPACE, POD, Kinds
from kubemini.server import answers, listing
from kubemini.server.requests import RequestTarget, place_of
from tests.unit.kubemini.served import MAPS, TOKEN, served


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


async def test_only_clients_with_the_token_are_served() -> None:
    async with served() as client, aiohttp.ClientSession() as stranger:
        url = client.server.url
        for path, status in (("/api/v1/pods", 401), ("/version", 200), ("/readyz", 200), ("/token/wrong/api", 401)):
            async with stranger.get(url + path) as response:
                assert response.status == status, path
        async with stranger.get(f"{client.server.private_url}/api/v1/pods") as response:
            assert response.status == 200  # kubectl sends no token without TLS, so its address has it


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
