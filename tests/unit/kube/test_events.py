"""Events as they are sent: within the API server's limits, told once, and never in anybody's way."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import ApiError, AuthError
from rescheduler.kube.events import EventRecorder
from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.model.json import Json

POD = Subject("Pod", "shop", "web-a", "uid")
MIGRATION = Subject("PodMigration", "shop", "m", "m-uid")


class Server:
    """Keeps what it is sent, and answers with these errors first."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.kept: dict[str, Json] = {}

    async def send(self, request: ApiRequest) -> bytes:
        if self.errors:
            raise self.errors.pop(0)
        body = msgspec.json.decode(request.body or b"")
        key = f"{request.path}/{body['metadata']['name']}"
        if key in self.kept:
            raise ApiError(409, "AlreadyExists", "it is there", request.path)
        self.kept[key] = body
        return b"{}"


def piece(**more: Any) -> ObjectEvent:
    return ObjectEvent(**{
        "regarding": POD, "related": MIGRATION, "reason": "MigrationStarted", "action": "Migrate",
        "note": "moves", "occasion": "m-uid/1", **more,
    })  # fmt: skip


async def told(server: Server, *news: ObjectEvent, identity: str = "me") -> list[Json]:
    await EventRecorder(cast("ApiClient", server), identity, lambda: 1_800_000_000.25).record(news)
    return list(server.kept.values())


async def test_an_event_says_who_when_what_and_of_whom() -> None:
    (event,) = await told(Server(), piece())
    name = event["metadata"]["name"]
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "shop"},
        "eventTime": "2027-01-15T08:00:00.250000Z",
        "type": "Normal",
        "reason": "MigrationStarted",
        "action": "Migrate",
        "note": "moves",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web-a", "uid": "uid"},
        "related": {
            "apiVersion": "rescheduler.io/v1alpha1",
            "kind": "PodMigration",
            "namespace": "shop",
            "name": "m",
            "uid": "m-uid",
        },
        "reportingController": "rescheduler.io/rescheduler",
        "reportingInstance": "me",
    }
    assert name.startswith("web-a.")


async def test_the_same_event_is_written_once_even_in_other_words_or_by_another_replica() -> None:
    server = Server()
    with capture_logs() as logs:
        await told(server, piece())
        await told(server, piece(note="other words"), identity="another")
    assert len(server.kept) == 1
    assert logs == []


async def test_other_news_are_told_beside_them() -> None:
    server = Server()
    node = Subject("Node", "", "one", "one")
    other = (piece(), piece(occasion="m-uid/2"), piece(reason="MigrationFailed", warning=True), piece(regarding=node))
    events = await told(server, *other)
    assert len(events) == 4
    assert [each["metadata"]["namespace"] for each in events] == ["shop", "shop", "shop", "default"]
    assert [each["type"] for each in events] == ["Normal", "Normal", "Warning", "Normal"]


async def test_what_is_too_long_is_cut_between_letters() -> None:
    long = Subject("Pod", "shop", "a" * 236 + "-" + "b" * 16, "uid")
    (event,) = await told(Server(), piece(note="ü" * 1000, regarding=long), identity="i" * 200)
    assert len(event["note"].encode()) <= 1024
    assert event["note"].endswith("ü…")
    assert len(event["reportingInstance"].encode()) <= 128
    name = event["metadata"]["name"]
    assert len(name) <= 253
    assert name[:237] == "a" * 236 + "."


@pytest.mark.parametrize(
    "error",
    [ApiError(403, "Forbidden", "no role", "/x"), ApiError(409, "Conflict", "no", "/x"), AuthError("log in again")],
    ids=str,
)
async def test_an_event_that_cannot_be_told_is_logged_and_the_others_are_told(
    error: Exception,
) -> None:
    server = Server(error)
    with capture_logs() as logs:
        assert len(await told(server, piece(), piece(reason="MigrationCompleted"))) == 1
    assert [(each["event"], each["reason"], each["name"]) for each in logs] == [
        ("event not written", "MigrationStarted", "web-a")
    ]


async def test_who_is_cancelled_while_telling_is_cancelled() -> None:
    with pytest.raises(asyncio.CancelledError):
        await told(Server(asyncio.CancelledError()), piece())


async def test_no_news_are_no_request() -> None:
    assert await told(Server()) == []
