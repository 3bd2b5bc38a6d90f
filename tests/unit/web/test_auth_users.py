"""Who somebody is: remembered for seconds and never in clear, and what is told when the API server cannot say."""

from __future__ import annotations

import asyncio
import gc
import json
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from rescheduler.kube.client import ApiClient
from rescheduler.kube.reviews import ResourceAttributes, ReviewClient, User
from rescheduler.web.auth import ExpiringCache, PageAccess, TokenRateLimit
from rescheduler.web.responses import HttpError
from tests.support.api_server import Answer, ApiServer, api_server, status_answer
from tests.support.kubeconfigs import connection

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
RIGHTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
JANE = {"username": "jane", "uid": "7", "groups": ["ops", "dev"], "extra": {"scopes": ["a", "b"]}}
HERE = "127.0.0.1"
PAUSE = ResourceAttributes("patch", "configmaps", "", "ours", "state")


class Clock:
    """Time that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def accepted(user: object) -> Answer:
    return Answer(201, json.dumps({"status": {"authenticated": True, "user": user}}).encode())


def refused() -> Answer:
    return Answer(201, json.dumps({"status": {"user": {}, "error": "invalid bearer token"}}).encode())


def answered(**status: object) -> Answer:
    return Answer(201, json.dumps({"status": status}).encode())


@asynccontextmanager
async def identity(tmp_path: Path, clock: Clock) -> AsyncIterator[tuple[PageAccess, ApiServer]]:
    async with api_server() as server:
        found = connection(tmp_path, {"server": server.url})
        async with ApiClient(found) as client:
            yield PageAccess(ReviewClient(client), clock), server


async def refusal(work: object) -> HttpError:
    with pytest.raises(HttpError) as caught:
        await work  # type: ignore[misc]
    return caught.value


async def test_a_person_is_asked_for_once_in_a_few_seconds(tmp_path: Path) -> None:
    clock = Clock()
    async with identity(tmp_path, clock) as (found, server):
        server.script(TOKENS, accepted(JANE))
        for _ in range(3):
            jane = await found.authenticate("secret", HERE)
        assert jane == User("jane", "7", ("ops", "dev"), (("scopes", ("a", "b")),))
        assert len(server.seen) == 1
        clock.now += 5.1
        await found.authenticate("secret", HERE)
        assert len(server.seen) == 2
        assert json.loads(server.seen[0].body)["spec"] == {"token": "secret"}


async def test_the_whole_person_is_asked_about(tmp_path: Path) -> None:
    async with identity(tmp_path, Clock()) as (found, server):
        server.script(TOKENS, accepted(JANE))
        server.script(RIGHTS, answered(allowed=True), answered(allowed=False), answered(allowed=True, denied=True))
        jane = await found.authenticate("secret", HERE)
        assert [await found.authorize(jane, PAUSE) for _ in range(3)] == [True, False, False]
        assert not await found.was_authorized(jane, PAUSE)  # as it was said last
        assert len(server.seen) == 4
        assert json.loads(server.seen[1].body)["spec"] == {
            "user": "jane",
            "uid": "7",
            "groups": ["ops", "dev"],
            "extra": {"scopes": ["a", "b"]},
            "resourceAttributes": {"verb": "patch", "resource": "configmaps", "namespace": "ours", "name": "state"},
        }


async def test_a_token_is_not_kept(tmp_path: Path) -> None:
    token = "very-" + "secret-" * 5
    async with identity(tmp_path, Clock()) as (found, server):
        server.script(TOKENS, accepted(JANE), refused())
        await found.authenticate(token + "right", HERE)
        await refusal(found.authenticate(token + "wrong", HERE))
        server.seen.clear()
        gc.collect()
        kept = {each for each in held() if isinstance(each, str | bytes)}
        for ending in ("right", "wrong"):
            assert token + ending not in kept
            assert (token + ending).encode() not in kept


def held() -> Iterator[object]:
    """All that is in a dictionary, a list, a tuple or a set, anywhere in this process."""
    for each in gc.get_objects():
        if isinstance(each, dict):
            yield from [*each, *each.values()]
        elif isinstance(each, list | tuple | set | deque):
            yield from list(each)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (status_answer(403, "Forbidden", "no"), "give it the right to create tokenreviews.authentication.k8s.io"),
        (status_answer(500, "InternalError", "oh"), "could not be asked who you are"),
        (Answer(201, b"<html>"), "could not be asked who you are"),
        (Answer(201, b'{"status": []}'), "could not be asked who you are"),
        (Answer(hang_up=True), "could not be asked who you are"),
    ],
)
async def test_an_api_server_in_trouble_is_told_of(tmp_path: Path, answer: Answer, said: str) -> None:
    async with identity(tmp_path, Clock()) as (found, server):
        server.script(TOKENS, answer)
        wrong = await refusal(found.authenticate("secret", HERE))
        assert wrong.status == 503
        assert said in wrong.message
        assert "secret" not in wrong.message


@pytest.mark.parametrize("user", [None, {}, {"username": ""}, {"groups": ["system:masters"]}])
async def test_somebody_without_a_name_is_nobody(tmp_path: Path, user: object) -> None:
    async with identity(tmp_path, Clock()) as (found, server):
        server.script(TOKENS, accepted(user))
        assert (await refusal(found.authenticate("secret", HERE))).status == 401


class Slow:
    """An API server that answers when it is told to, and counts who waits for it."""

    def __init__(self) -> None:
        self.waiting, self.most, self.answer = 0, 0, asyncio.Event()

    async def authenticate(self, token: str) -> User | None:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await self.answer.wait()
        self.waiting -= 1
        return None


async def test_somebody_who_is_not_authenticated_is_nobody(tmp_path: Path) -> None:
    async with identity(tmp_path, Clock()) as (found, server):
        server.script(TOKENS, answered(authenticated=False, user=JANE), answered(user=JANE))
        for token in ("one", "other"):
            assert (await refusal(found.authenticate(token, HERE))).status == 401


async def test_not_more_is_asked_at_once_than_the_api_server_should_bear() -> None:
    slow = Slow()
    found = PageAccess(cast("ReviewClient", slow), Clock())
    asking = [asyncio.create_task(found.authenticate(f"token-{number}", f"10.0.0.{number}")) for number in range(150)]
    for _ in range(10):
        await asyncio.sleep(0)  # all of them have come as far as they can
    assert slow.waiting == 8
    slow.answer.set()
    results = await asyncio.gather(*asking, return_exceptions=True)
    statuses = [each.status for each in results if isinstance(each, HttpError)]
    assert (statuses.count(401), statuses.count(503)) == (100, 50)
    assert slow.most == 8


def test_the_oldest_is_forgotten_first() -> None:
    clock = Clock()
    kept: ExpiringCache[int, str] = ExpiringCache(5.0, 3, clock)
    for number in range(5):
        kept.put(number, str(number))
    assert [kept.get(number) for number in range(5)] == [None, None, "2", "3", "4"]
    assert len(kept) == 3
    clock.now += 5.0
    assert kept.get(4) is None


def test_wrong_tokens_are_counted_by_who_sends_them() -> None:
    clock = Clock()
    wrong = TokenRateLimit(clock)
    for number in range(10):
        assert wrong.wait("2001:db8::1") == 0
        wrong.count(f"2001:db8::{number:x}")
    assert wrong.wait("2001:db8::ffff") == 60.0
    assert wrong.wait("2001:db8:0:1::1") == 0
    clock.now += 60.0
    assert wrong.wait("2001:db8::1") == 0
    for number in range(20_000):
        wrong.count(f"10.{number // 65536}.{number // 256 % 256}.{number % 256}")
    assert len(wrong) == 10_000
