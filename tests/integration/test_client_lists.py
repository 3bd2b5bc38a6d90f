"""Lists: page by page, started again when they expire, and every kind of the table at most four at a time."""

from pathlib import Path

import msgspec
import pytest

from rescheduler.decode.structs import RESOURCES, ApiResource
from rescheduler.kube.client import ApiClient, ListPage
from rescheduler.kube.errors import ApiError
from rescheduler.kube.objects import AT_ONCE, ForbiddenKindsError, list_cluster
from tests.support.api_server import Answer, ApiServer, api_server, list_answer, status_answer
from tests.support.kubeconfigs import RecordedWaits, connection

PODS = "/api/v1/pods"
EXPIRED = status_answer(410, "Expired", "The provided continue parameter is too old")


def client_of(server: ApiServer, folder: Path) -> ApiClient:
    return ApiClient(connection(folder, {"server": server.url}), backoff=RecordedWaits().backoff, request_timeout=10)


def items(body: bytes) -> list[int]:
    found: list[int] = msgspec.json.decode(body)["items"]
    return found


def forbidden(resource: ApiResource) -> Answer:
    return status_answer(403, "Forbidden", f"{resource.plural} is forbidden")


async def test_pages_are_fetched_until_the_server_has_no_more(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path) as client:
        server.script(PODS, list_answer([1, 2], "a"), list_answer([3, 4], "b"), list_answer([5]))
        pages = [page async for page in client.list_pages(PODS, 2, {"labelSelector": "app=web"})]
        selector = {"labelSelector": "app=web", "limit": "2"}
        assert [seen.query for seen in server.seen] == [
            selector,
            {**selector, "continue": "a"},
            {**selector, "continue": "b"},
        ]
    assert [(page.first, items(page.body)) for page in pages] == [(True, [1, 2]), (False, [3, 4]), (False, [5])]


async def test_a_list_that_expires_starts_again_and_the_caller_can_drop_what_it_had(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path) as client:
        server.script(PODS, list_answer([1, 2], "a"), EXPIRED, list_answer([1, 7], "c"), list_answer([8]))
        kept: list[int] = []
        async for page in client.list_pages(PODS):
            if page.first:
                kept.clear()
            kept += items(page.body)
        assert [seen.query.get("continue") for seen in server.seen] == [None, "a", None, "c"]
    assert kept == [1, 7, 8]


async def test_a_list_that_always_expires_is_given_up(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path) as client:
        server.script(PODS, *[list_answer([1], "a"), EXPIRED] * 9)
        with pytest.raises(ApiError, match="410 Expired"):
            [page async for page in client.list_pages(PODS)]
        assert len(server.seen) == 6


async def test_a_410_to_the_first_page_is_an_error(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path) as client:
        server.script(PODS, EXPIRED)
        with pytest.raises(ApiError, match="410 Expired"):
            [page async for page in client.list_pages(PODS)]
        assert len(server.seen) == 1


async def test_a_page_in_the_middle_is_tried_again_by_itself(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path) as client:
        server.script(PODS, list_answer([1], "a"), Answer(500), Answer(body=b"{", promised=9), list_answer([2]))
        pages = [page async for page in client.list_pages(PODS)]
    assert [items(page.body) for page in pages] == [[1], [2]]


async def test_a_list_that_is_none_points_to_the_server(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path) as client:
        server.script(PODS, Answer(body=b"<html>welcome</html>"))
        with pytest.raises(ApiError) as raised:
            [page async for page in client.list_pages(PODS)]
    assert str(raised.value).startswith(f"{server.url} answered, but not as a Kubernetes API server does: ")


async def test_every_kind_is_listed_four_at_once_and_no_more(tmp_path: Path) -> None:
    pages: list[tuple[str, ListPage]] = []
    async with api_server() as server, client_of(server, tmp_path) as client:
        server.hold_until(AT_ONCE)
        for resource in RESOURCES:
            server.script(resource.path, list_answer([1], "more"), list_answer([2]))
        absent = await list_cluster(client, lambda resource, page: pages.append((resource.kind, page)))
        assert server.most_concurrent == AT_ONCE
    assert absent == frozenset()
    for resource in RESOURCES:
        assert [items(page.body) for kind, page in pages if kind == resource.kind] == [[1], [2]]


@pytest.mark.parametrize("status", [404, 503])
async def test_metrics_that_are_not_there_are_reported_as_absent_at_once(tmp_path: Path, status: int) -> None:
    async with api_server() as server, client_of(server, tmp_path) as client:
        for resource in RESOURCES:
            server.script(resource.path, Answer(status) if resource.optional else list_answer([]))
        absent = await list_cluster(client, lambda _resource, _page: None)
        assert len(server.seen) == len(RESOURCES)
    assert absent == {"NodeMetrics", "PodMetrics"}


async def test_all_kinds_that_may_not_be_listed_are_named_with_their_rules(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path) as client:
        for resource in RESOURCES:
            refused = resource.kind in {"Node", "PodDisruptionBudget"}
            server.script(resource.path, forbidden(resource) if refused else list_answer([], "more"), list_answer([]))
        with pytest.raises(ForbiddenKindsError) as raised:
            await list_cluster(client, lambda _resource, _page: None)
    assert str(raised.value) == (
        "you may not list Node, PodDisruptionBudget (nodes is forbidden); "
        "ask for a ClusterRole with these rules, bound to you:\n"
        '  - {apiGroups: [""], resources: ["nodes"], verbs: ["list"]}\n'
        '  - {apiGroups: ["policy"], resources: ["poddisruptionbudgets"], verbs: ["list"]}'
    )


async def test_the_first_error_of_another_kind_ends_the_listing(tmp_path: Path) -> None:
    async with api_server() as server, client_of(server, tmp_path) as client:
        for resource in RESOURCES:
            server.script(resource.path, Answer(400, b"no") if resource.kind == "Job" else list_answer([]))
        with pytest.raises(ApiError, match=r"no \(400 Bad Request on /apis/batch/v1/jobs\)"):
            await list_cluster(client, lambda _resource, _page: None)


async def test_an_error_of_the_callback_comes_through_as_it_is(tmp_path: Path) -> None:
    def refuse(_resource: ApiResource, _page: ListPage) -> None:
        raise KeyError("items")

    async with api_server() as server, client_of(server, tmp_path) as client:
        for resource in RESOURCES:
            server.script(resource.path, list_answer([]))
        with pytest.raises(KeyError):
            await list_cluster(client, refuse)


def test_the_table_has_each_kind_once_under_the_path_of_its_version() -> None:
    assert len({resource.kind for resource in RESOURCES}) == len(RESOURCES) == 17
    for resource in RESOURCES:
        root = "/apis/" if resource.group else "/api/"
        assert resource.path == f"{root}{resource.api_version}/{resource.plural}"
