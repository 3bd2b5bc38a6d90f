"""Scripted extenders: corner cases that the contract tests do not show."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kubemini.refusals import Json
from kubemini.scheduler.extender import Extenders
from kubemini.store import Store
from tests.support.tls import serving, strict_by_default
from tests.testbed.pki import Authority
from tests.unit.kubemini.scheduler_stage import bound, node, nominated, pod, staged

THREE = [node(name) for name in "abc"]
Answer = Callable[[Json], Any]


class Script:
    """An extender that answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Json]] = []
        self.answers: dict[str, Answer] = {}
        self.url = ""
        self.pause: Callable[[], Awaitable[object]] | None = None

    def settings(self, **more: Any) -> Json:
        """With a filter, unless it says otherwise."""
        return {"urlPrefix": self.url, "filterVerb": "filter", "nodeCacheCapable": True} | more

    async def handle(self, request: web.Request) -> web.Response:
        verb = request.match_info["verb"]
        body = await request.json()
        self.asked.append((verb, body))
        if self.pause is not None:
            await self.pause()
        answer = self.answers[verb](body)
        if isinstance(answer, int):
            return web.Response(status=answer)
        return web.Response(body=answer if isinstance(answer, bytes) else json.dumps(answer).encode())


@asynccontextmanager
async def scripted(*, tls: ssl.SSLContext | None = None, **answers: Any) -> AsyncIterator[Script]:
    """A server on loopback; an answer is a function of the question, or always the same."""
    script = Script()
    script.answers = {verb: answer if callable(answer) else _always(answer) for verb, answer in answers.items()}
    app = web.Application()
    app.router.add_post("/ext/{verb}", script.handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        script.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}/ext"
        yield script
    finally:
        await runner.cleanup()


def _always(answer: Any) -> Answer:
    return lambda _: answer


async def test_the_authority_of_an_old_installer_is_trusted_on_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict_by_default(monkeypatch)
    old = Authority(tmp_path / "pki", bare=True)
    pair = old.server("extender")
    tls = serving(pair.certificate.read_bytes(), pair.key.read_bytes())
    async with scripted(tls=tls, filter={"NodeNames": ["b"]}) as script:
        extender = script.settings(enableHTTPS=True, tlsConfig={"caFile": str(old.certificate)})
        async with staged(*THREE, pod("p"), extenders=[extender]) as stage:
            await stage.reaches("p", "b")


async def test_names_are_no_answer_to_nodes() -> None:
    async with (
        scripted(filter={"NodeNames": ["c"]}) as script,
        staged(*THREE, pod("p"), extenders=[script.settings(nodeCacheCapable=False)]) as stage,
    ):
        await stage.reaches("p", "0/3 nodes are available: an extender refuses all.")


async def test_its_scores_count_ten_times_its_weight() -> None:
    scores = [{"Host": "a", "Score": 1}, {"Host": "c", "Score": 10}]
    async with scripted(filter={"NodeNames": ["a", "c"]}, prioritize=scores) as script:
        extender = script.settings(prioritizeVerb="prioritize", weight=3)
        async with staged(*THREE, bound("other", "c", cpu="3"), pod("p"), extenders=[extender]) as stage:
            await stage.reaches("p", "c")
            assert [(verb, asked["NodeNames"]) for verb, asked in script.asked] == [
                ("filter", ["a", "b", "c"]),
                ("prioritize", ["a", "c"]),
            ]


@pytest.mark.parametrize("answer", [500, b"null", b"7", b'{"Host": 1}', b'[{"Host": "a", "Score": "10"}]'])
async def test_without_scores_the_scheduler_chooses_by_itself(answer: int | bytes) -> None:
    async with scripted(prioritize=answer) as script:
        extender = script.settings(filterVerb="", prioritizeVerb="prioritize", weight=1)
        async with staged(*THREE[:2], bound("other", "a", cpu="3"), pod("p"), extenders=[extender]) as stage:
            await stage.reaches("p", "b")


async def test_its_reasons_stand_beside_those_of_the_scheduler() -> None:
    answer = {"NodeNames": [], "FailedNodes": {"a": "not today", "b": "not today"}}
    answer["FailedAndUnresolvableNodes"] = {"c": "never"}
    async with scripted(filter=answer) as script:
        nodes = [*THREE, node("d", unschedulable=True)]
        async with staged(*nodes, pod("p"), extenders=[script.settings()]) as stage:
            reasons = "1 never, 1 node(s) were unschedulable, 2 not today"
            await stage.reaches("p", f"0/4 nodes are available: {reasons}.")


async def test_its_words_are_read_whatever_their_case() -> None:
    async with (
        scripted(filter={"nodenames": ["b"]}) as script,
        staged(*THREE, pod("p"), extenders=[script.settings()]) as stage,
    ):
        await stage.reaches("p", "b")


async def test_it_is_asked_about_the_nominated_node_first_and_may_refuse_it() -> None:
    def not_a(asked: Json) -> Json:
        return {"NodeNames": [name for name in asked["NodeNames"] if name != "a"], "FailedNodes": {"a": "no"}}

    async with scripted(filter=not_a) as script:
        nominee = nominated(pod("p"), "a")
        async with staged(*THREE, bound("other", "c", cpu="1"), nominee, extenders=[script.settings()]) as stage:
            await stage.reaches("p", "b")
            assert [asked["NodeNames"] for _, asked in script.asked] == [["a"], ["a", "b", "c"]]


async def test_several_are_asked_one_after_the_other_about_what_is_left() -> None:
    async with scripted(filter={"NodeNames": ["a", "b"]}, second={"NodeNames": ["b"]}) as script:
        extenders = [script.settings(), script.settings(filterVerb="second")]
        async with staged(*THREE, pod("p"), extenders=extenders) as stage:
            await stage.reaches("p", "b")
            assert script.asked[1][1]["NodeNames"] == ["a", "b"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"NodeNames": [], "Error": "I am unwell"}, "I am unwell"),
        (500, "failed filter with extender at URL {url}/filter, code 500"),
        (
            {"NodeNames": ["a", "zzz"]},
            "extender {url} names nodes that were not asked about: {{'zzz'}}",
        ),
    ],
)
async def test_an_error_leaves_the_pod_waiting_and_it_is_tried_again(answer: Any, message: str) -> None:
    async with scripted(filter=answer) as script:
        nominee = nominated(pod("p"), "a")
        async with staged(*THREE, nominee, extenders=[script.settings()]) as stage:
            said = message.format(url=script.url)
            await stage.reaches("p", f"SchedulerError: {said}")
            assert ("Warning", "FailedScheduling", said) in stage.events("p")
            assert "nominatedNodeName" not in stage.pod("p")["status"]
            script.answers["filter"] = _always({"NodeNames": ["c"]})
            await stage.reaches("p", "c")


@pytest.mark.parametrize("answer", [b"{nonsense", b"[1]", b'{"NodeNames": "a"}', b'{"Nodes": {"items": [{}]}}'])
async def test_an_answer_that_makes_no_sense_is_an_error(answer: bytes) -> None:
    async with (
        scripted(filter=answer) as script,
        staged(*THREE, pod("p"), extenders=[script.settings()]) as stage,
    ):
        await stage.settled()
        assert stage.condition("p")["reason"] == "SchedulerError"


async def test_one_that_does_not_answer_in_time_is_down() -> None:
    enough = asyncio.Event()
    async with scripted(filter={}) as script:
        script.pause = enough.wait
        async with staged(*THREE, pod("p"), extenders=[script.settings(httpTimeout="10ms")]) as stage:
            await stage.settled()
            assert stage.condition("p")["message"] == f'Post "{script.url}/filter": context deadline exceeded'
        enough.set()


async def test_it_is_heard_from_the_moment_it_is_configured() -> None:
    async with (
        scripted(filter={"NodeNames": [], "FailedNodes": {"a": "not yet"}}) as script,
        staged(node("a"), extenders=[script.settings()]) as stage,
    ):
        stage.put(pod("p"))
        await stage.reaches("p", "0/1 nodes are available: 1 not yet.")
        stage.scheduler.configure([])
        await stage.reaches("p", "a")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "extenders[0]: Object missing required field `urlPrefix`"),
        ({"urlPrefix": "u", "filter": "f"}, "extenders[0]: Object contains unknown field `filter`"),
        ({"urlPrefix": "u", "httpTimeout": "5"}, "extenders[0].httpTimeout: "),
        ({"urlPrefix": "u", "prioritizeVerb": "p"}, "extenders[0].weight: an extender that scores"),
        ({"urlPrefix": "u", "bindVerb": "b"}, "extenders[0]: Object contains unknown field `bindVerb`"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused_with_their_field(settings: Json, problem: str) -> None:
    with pytest.raises(ValueError, match="extenders") as refusal:
        Extenders(Store()).configure([settings])
    assert str(refusal.value).startswith(problem)
