"""Requests: what is sent, what is tried again and after what wait, and how failures read."""

import asyncio
from pathlib import Path

import pytest

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import ApiError
from tests.support.api_server import Answer, ApiServer, api_server, status_answer
from tests.support.kubeconfigs import RecordedWaits, connection

BUSY = status_answer(429, "TooManyRequests", "too many requests", {"Retry-After": "7"})
BROKEN = status_answer(500, "InternalError", "etcd leader changed")


def client_of(server: ApiServer, folder: Path, waits: RecordedWaits, timeout: float | None = None) -> ApiClient:
    to = connection(folder, {"server": server.url}, {"token": "t"})
    return ApiClient(to, backoff=waits.backoff, request_timeout=timeout)


def ten_seconds_later() -> None:
    """By the loop's clock, and at once: nobody waits, and what a machine under load takes is no part of it."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + 10.0  # type: ignore[method-assign]  # the loop is this test's own


async def test_method_path_query_body_and_content_type_arrive(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path, RecordedWaits()) as client:
        server.script("/api/v1/x", Answer(201, b'{"a":1}'))
        answer = await client.send(
            ApiRequest(
                "PATCH",
                "/api/v1/x",
                params={"fieldManager": "rescheduler", "labelSelector": "a in (b, c)"},
                body=b'{"b":2}',
                content_type="application/merge-patch+json",
            )
        )
        seen = server.seen[0]
    assert answer == b'{"a":1}'
    assert (seen.method, seen.path, seen.body) == ("PATCH", "/api/v1/x", b'{"b":2}')
    assert seen.query == {"fieldManager": "rescheduler", "labelSelector": "a in (b, c)"}
    assert seen.headers["Content-Type"] == "application/merge-patch+json"


async def test_a_server_below_a_path_keeps_it(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script("/k8s/clusters/c-1/version", Answer())
        async with ApiClient(connection(tmp_path, {"server": f"{server.url}/k8s/clusters/c-1/"})) as client:
            assert await client.get("/version") == b"{}"


async def test_a_compressed_answer_is_unpacked_and_compression_can_be_declined(tmp_path: Path) -> None:
    body = b'{"a":"' + b"x" * 5000 + b'"}'
    async with api_server() as server:
        server.script("/version", Answer(body=body))
        for disable in (False, True):
            cluster = {"server": server.url, "disable-compression": disable}
            async with ApiClient(connection(tmp_path, cluster)) as client:
                assert await client.get("/version") == body
        assert [seen.headers["Accept-Encoding"] for seen in server.seen] == ["gzip", "identity"]


async def test_retry_after_is_honoured_for_every_method(tmp_path: Path) -> None:
    for method in ("GET", "POST"):
        waits = RecordedWaits()
        async with api_server() as server, client_of(server, tmp_path, waits) as client:
            busy = status_answer(503, "ServiceUnavailable", "starting", {"Retry-After": "1"})
            server.script("/version", BUSY, busy, Answer())
            assert await client.send(ApiRequest(method, "/version")) == b"{}"
        assert waits.waits == [7.125, 1.125]


async def test_a_pause_that_is_too_long_is_told_to_the_user_instead(tmp_path: Path) -> None:
    waits = RecordedWaits()
    async with api_server() as server, client_of(server, tmp_path, waits) as client:
        server.script("/version", status_answer(429, "TooManyRequests", "slow down", {"Retry-After": "3600"}))
        with pytest.raises(ApiError) as raised:
            await client.get("/version")
    assert waits.waits == []
    assert str(raised.value) == ("slow down (429 TooManyRequests on /version); the server is busy; try again in 3600 s")


async def test_a_429_to_a_write_without_retry_after_is_an_answer(tmp_path: Path) -> None:
    """It is what an eviction gets that the disruption budget does not allow."""
    async with api_server() as server, client_of(server, tmp_path, RecordedWaits()) as client:
        server.script("/evict", status_answer(429, "TooManyRequests", "would violate the disruption budget"))
        with pytest.raises(ApiError, match="would violate"):
            await client.send(ApiRequest("POST", "/evict", body=b"{}"))
        assert len(server.seen) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_server_error_is_tried_again_with_growing_waits(tmp_path: Path, status: int) -> None:
    waits = RecordedWaits()
    async with api_server() as server, client_of(server, tmp_path, waits) as client:
        server.script("/version", *[Answer(status, b"<html>bad gateway</html>")] * 4, Answer())
        assert await client.get("/version") == b"{}"
    assert waits.waits == [0.1875, 0.375, 0.75, 1.5]


async def test_tries_are_bounded_and_the_servers_words_are_kept(tmp_path: Path) -> None:
    waits = RecordedWaits()
    async with api_server() as server, client_of(server, tmp_path, waits) as client:
        server.script("/version", BROKEN)
        with pytest.raises(ApiError) as raised:
            await client.get("/version")
        assert len(server.seen) == 5
    error = raised.value
    assert (error.status, error.reason, error.message, error.path) == (
        500,
        "InternalError",
        "etcd leader changed",
        "/version",
    )


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_a_write_is_not_repeated_when_it_may_have_arrived(tmp_path: Path, method: str) -> None:
    for failure in (BROKEN, Answer(promised=100), Answer(hang_up=True)):
        async with api_server() as server, client_of(server, tmp_path, RecordedWaits()) as client:
            server.script("/x", failure, Answer())
            with pytest.raises(ApiError):
                await client.send(ApiRequest(method, "/x", body=b"{}"))
            assert len(server.seen) == 1


async def test_a_caller_can_take_a_status_for_an_answer(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path, RecordedWaits()) as client:
        server.script("/x", Answer(503), Answer())
        with pytest.raises(ApiError):
            await client.send(ApiRequest("GET", "/x", answers=frozenset({503})))
        assert len(server.seen) == 1


async def test_a_truncated_answer_is_read_again(tmp_path: Path) -> None:
    waits = RecordedWaits()
    async with api_server() as server, client_of(server, tmp_path, waits) as client:
        server.script("/version", Answer(body=b'{"half":', promised=500), Answer(body=b'{"whole":1}'))
        assert await client.get("/version") == b'{"whole":1}'
    assert len(waits.waits) == 1


async def test_an_answer_that_is_always_truncated_says_so(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path, RecordedWaits()) as client:
        server.script("/version", Answer(body=b'{"half":', promised=500))
        with pytest.raises(ApiError) as raised:
            await client.get("/version")
        assert len(server.seen) == 5
    assert raised.value.reason == "BrokenOff"
    assert str(raised.value).startswith(f"the connection to {server.url} broke off: ")


async def test_a_connection_that_is_dropped_is_made_again(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path, RecordedWaits()) as client:
        server.script("/version", Answer(hang_up=True), Answer(body=b"[]"))
        assert await client.get("/version") == b"[]"


async def test_a_redirect_is_not_followed_and_takes_no_credentials_along(tmp_path: Path) -> None:
    async with api_server() as other, api_server() as server, client_of(server, tmp_path, RecordedWaits()) as client:
        server.script("/version", Answer(302, b"", {"Location": f"{other.url}/steal"}))
        with pytest.raises(ApiError) as raised:
            await client.get("/version")
        assert (len(server.seen), other.seen) == (1, [])
    assert str(raised.value) == (
        f"{server.url} redirects to {other.url}/steal (302 Found on /version); redirects are not followed; "
        f"correct the server of context dev of {tmp_path}/kubeconfig"
    )


async def test_forbidden_says_whom_to_ask(tmp_path: Path) -> None:
    message = 'pods is forbidden: User "dev" cannot list resource "pods"'
    async with api_server() as server, client_of(server, tmp_path, RecordedWaits()) as client:
        server.script("/api/v1/pods", status_answer(403, "Forbidden", message))
        with pytest.raises(ApiError) as raised:
            await client.get("/api/v1/pods")
    assert str(raised.value) == (
        f"{message} (403 Forbidden on /api/v1/pods); "
        "ask for an RBAC role that allows it, or use another --context or --as"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>no</html>", "the server answered Not Found"),
        (b"no route\nhere", "no route here"),
        (b"", "the server answered Not Found"),
        (b"[1]", "[1]"),
        (b'{"kind":"Status"}', "the server answered Not Found"),
    ],
)
async def test_an_error_that_is_no_status_object_still_reads_well(tmp_path: Path, body: bytes, message: str) -> None:
    async with api_server() as server, client_of(server, tmp_path, RecordedWaits()) as client:
        server.script("/x", Answer(404, body))
        with pytest.raises(ApiError) as raised:
            await client.get("/x")
    assert str(raised.value) == f"{message} (404 Not Found on /x)"


async def test_the_request_timeout_ends_a_request_that_is_not_answered(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path, RecordedWaits(), timeout=9.0) as client:
        server.script("/version", Answer(never=True, before=ten_seconds_later))
        with pytest.raises(ApiError) as raised:
            await client.get("/version")
    assert str(raised.value) == (
        f"{server.url} did not answer in time (TimedOut on /version); try again, or give a longer --request-timeout"
    )


async def test_when_time_is_up_between_tries_the_last_failure_is_told(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path, RecordedWaits(), timeout=9.0) as client:
        server.script("/version", BROKEN, Answer(never=True, before=ten_seconds_later))
        with pytest.raises(ApiError, match="etcd leader changed"):
            await client.get("/version")


async def test_a_client_outside_its_context_is_a_mistake(tmp_path: Path) -> None:
    client = ApiClient(connection(tmp_path, {"server": "https://127.0.0.1:1"}))
    with pytest.raises(RuntimeError, match="async with"):
        await client.get("/version")
