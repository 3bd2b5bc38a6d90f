"""An action of the page from request to effect: what is asked of the API server, and what never gets that far."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from multidict import CIMultiDict

from rescheduler.kube.client import ApiClient
from rescheduler.kube.reviews import ReviewClient
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.web.actions import ActionHandler, ActionRoutes
from rescheduler.web.auth import PageAccess, RequestChecks
from rescheduler.web.metrics import Metrics
from rescheduler.web.server import WebApp, serve
from tests.support.api_server import Answer, ApiServer, api_server
from tests.support.kubeconfigs import connection

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
RIGHTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
HERE = "127.0.0.1"
JANE = Answer(201, json.dumps({"status": {"authenticated": True, "user": {"username": "jane"}}}).encode())
YES, NO = (Answer(201, json.dumps({"status": {"allowed": each}}).encode()) for each in (True, False))


@dataclass
class Kept:
    """Handlers that only write down what they are called for."""

    done: list[str] = field(default_factory=list)

    @property
    def handlers(self) -> dict[str, ActionHandler]:
        return {
            "pause": lambda by, asked: self._keep(f"{by} pauses"),
            "resume": lambda by, asked: self._keep(f"{by} resumes"),
            "approve": lambda by, asked: self._keep(f"{by} approves {len(asked.migrations)}"),
        }

    async def _keep(self, what: str) -> str:
        self.done.append(what)
        return what


@dataclass
class Stage:
    """A page, its handlers, and the API server that it asks."""

    address: str
    handlers: Kept
    server: ApiServer

    async def press(self, action: str, body: object, **headers: str) -> tuple[int, str]:
        """As Jane; the status, and what is said."""
        data = body if isinstance(body, bytes | AsyncIterator) else json.dumps(body).encode()
        given = CIMultiDict(
            {
                "Content-Type": "application/json",
                "X-Rescheduler-Action": action,
                "Authorization": "Bearer jane",
                **headers,
            }
        )
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.address}/api/actions/{action}", data=data, headers=given) as answer,
        ):
            found = await answer.json()
            return answer.status, found.get("done") or found["error"]

    def asked(self) -> list[tuple[str, str]]:
        """By SubjectAccessReviews: the verb and the namespace."""
        found = [
            json.loads(each.body)["spec"]["resourceAttributes"] for each in self.server.seen if each.path == RIGHTS
        ]
        return [(each["verb"], each.get("namespace", "")) for each in found]


@asynccontextmanager
async def stage(tmp_path: Path, *rights: Answer) -> AsyncIterator[Stage]:
    """A page of an API server that knows Jane, and answers in this order what she may do."""
    async with api_server() as server, ApiClient(connection(tmp_path, {"server": server.url})) as own:
        server.script(TOKENS, JANE)
        server.script(RIGHTS, *rights)
        handlers = Kept()
        access = PageAccess(ReviewClient(own))
        actions = ActionRoutes(RequestChecks(), access, handlers.handlers, ("ours", "state"), MigrationCache())
        async with serve(WebApp(Metrics(), parts=[actions]), HERE, 0) as port:
            yield Stage(f"http://{HERE}:{port}", handlers, server)


def moves(*namespaces: str) -> dict[str, object]:
    return {"migrations": [{"namespace": each, "name": "one"} for each in namespaces]}


async def test_who_may_approve_everywhere_is_asked_about_once(tmp_path: Path) -> None:
    async with stage(tmp_path, YES) as page:
        assert await page.press("approve", moves("a", "b", "c")) == (200, "jane approves 3")
        assert page.asked() == [("patch", "")]


async def test_one_namespace_without_the_right_stops_all(tmp_path: Path) -> None:
    async with stage(tmp_path, NO, YES, NO, YES) as page:
        status, said = await page.press("approve", moves("c", "a", "b", "a"))
        assert (status, page.handlers.done) == (403, [])
        assert said.startswith("jane may not patch podmigrations.rescheduler.io in namespace b: ask")
        assert page.asked() == [("patch", ""), ("patch", "a"), ("patch", "b"), ("patch", "c")]


async def test_who_may_approve_in_all_of_them_need_not_be_able_to_everywhere(tmp_path: Path) -> None:
    async with stage(tmp_path, NO, YES) as page:
        assert await page.press("approve", moves("a", "b")) == (200, "jane approves 2")


async def test_nobody_makes_us_ask_about_hundreds_of_namespaces(tmp_path: Path) -> None:
    async with stage(tmp_path, NO) as page:
        status, said = await page.press("approve", moves(*(f"n{number}" for number in range(51))))
        assert (status, "more than 50 namespaces" in said, len(page.asked())) == (422, True, 1)


async def test_rights_are_asked_for_anew_each_time(tmp_path: Path) -> None:
    async with stage(tmp_path, YES, NO) as page:
        assert (await page.press("pause", {}))[0] == 200
        assert (await page.press("resume", {}))[0] == 403
        assert page.handlers.done == ["jane pauses"]


async def test_what_makes_no_sense_is_refused_before_rights_are_asked_for(tmp_path: Path) -> None:
    async with stage(tmp_path, YES) as page:
        assert (await page.press("maintenance", {"node": "n1"}))[0] == 422
        assert (await page.press("nothing", {}))[0] == 404
        assert page.asked() == []


async def test_a_token_in_another_form_is_not_even_looked_at(tmp_path: Path) -> None:
    async with stage(tmp_path, YES) as page:
        for wrong in ("Basic jane", "jane", "Bearer", "Digest jane", "Bearerjane"):
            assert (await page.press("pause", {}, Authorization=wrong))[0] == 401
        assert page.server.seen == []
        given = CIMultiDict([("Authorization", "Bearer jane"), ("Authorization", "Bearer joe")])
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{page.address}/api/whoami", headers=given) as answer,
        ):
            assert answer.status == 401
        assert page.server.seen == []
        assert (await page.press("pause", {}, Authorization="bearer  jane"))[0] == 200


async def test_a_body_that_is_too_large_is_not_taken_whether_it_says_so_or_not(tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 10_000

    async with stage(tmp_path, YES) as page:
        assert (await page.press("pause", b" " * 300_000))[0] == 413
        assert (await page.press("pause", endless()))[0] == 413
        assert page.handlers.done == []


async def test_a_token_that_is_no_text_is_refused_and_the_api_server_is_not_asked(tmp_path: Path) -> None:
    async with stage(tmp_path, YES) as page:
        reader, writer = await asyncio.open_connection(HERE, int(page.address.rpartition(":")[2]))
        writer.write(
            b"GET /api/whoami HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer \xff\xfe\r\n\r\n"
        )
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert page.server.seen == []
