"""Extenders, scripted: what they are asked, and what becomes of their answers. All texts are the real scheduler's."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kubemini.extender import Extenders
from tests.support.tls import serving, strict_by_default
from tests.testbed.pki import Authority
from tests.unit.kubemini.scheduler_cases import NO_VICTIMS, UNHELPFUL, Json, node, pod, refused, reserving, there
from tests.unit.kubemini.scheduler_stage import staged

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


@contextmanager
def nowhere() -> Iterator[str]:
    """An address where nobody listens, and nobody else can begin to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


async def test_one_that_knows_the_nodes_is_asked_by_name() -> None:
    async with (
        scripted(filter={"NodeNames": ["b"]}) as script,
        staged(*THREE, pod("p"), extenders=[script.settings()]) as stage,
    ):
        await stage.reaches("p", "b")
        ((verb, asked),) = script.asked
        assert (verb, asked["Nodes"], asked["NodeNames"]) == ("filter", None, ["a", "b", "c"])
        assert list(asked) == ["Pod", "Nodes", "NodeNames"]
        assert asked["Pod"]["metadata"]["name"] == "p"
        assert "kind" not in asked["Pod"]
        assert asked["Pod"]["spec"]["schedulerName"] == "default-scheduler"


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


async def test_one_that_does_not_is_given_the_nodes() -> None:
    def second(asked: Json) -> Json:
        return {"Nodes": {"items": asked["Nodes"]["items"][1:2]}}

    async with (
        scripted(filter=second) as script,
        staged(*THREE, pod("p"), extenders=[script.settings(nodeCacheCapable=False)]) as stage,
    ):
        await stage.reaches("p", "b")
        ((_, asked),) = script.asked
        assert asked["NodeNames"] is None
        assert asked["Nodes"]["metadata"] == {}
        assert asked["Nodes"]["items"][0]["status"]["allocatable"]["cpu"] == "4"
        assert "kind" not in asked["Nodes"]["items"][0]


async def test_names_are_no_answer_to_nodes() -> None:
    async with (
        scripted(filter={"NodeNames": ["c"]}) as script,
        staged(*THREE, pod("p"), extenders=[script.settings(nodeCacheCapable=False)]) as stage,
    ):
        await stage.reaches("p", f"0/3 nodes are available: preemption: 0/3 nodes are available: 3 {UNHELPFUL}.")


async def test_its_scores_count_ten_times_its_weight() -> None:
    scores = [{"Host": "a", "Score": 1}, {"Host": "c", "Score": 10}]
    async with scripted(filter={"NodeNames": ["a", "c"]}, prioritize=scores) as script:
        extender = script.settings(prioritizeVerb="prioritize", weight=3)
        async with staged(*THREE, there("other", "c", cpu="3"), pod("p"), extenders=[extender]) as stage:
            await stage.reaches("p", "c")
            assert [(verb, asked["NodeNames"]) for verb, asked in script.asked] == [
                ("filter", ["a", "b", "c"]),
                ("prioritize", ["a", "c"]),
            ]


@pytest.mark.parametrize("answer", [500, b"null", b"7", b'{"Host": 1}', b'[{"Host": "a", "Score": "10"}]'])
async def test_without_scores_the_scheduler_chooses_by_itself(answer: int | bytes) -> None:
    async with scripted(prioritize=answer) as script:
        extender = script.settings(filterVerb="", prioritizeVerb="prioritize", weight=1)
        async with staged(*THREE[:2], there("other", "a", cpu="3"), pod("p"), extenders=[extender]) as stage:
            await stage.reaches("p", "b")


async def test_its_reasons_stand_beside_those_of_the_scheduler() -> None:
    answer = {"NodeNames": [], "FailedNodes": {"a": "not today", "b": "not today"}}
    answer["FailedAndUnresolvableNodes"] = {"c": "never"}
    async with scripted(filter=answer) as script:
        nodes = [*THREE, node("d", unschedulable=True)]
        async with staged(*nodes, pod("p"), extenders=[script.settings()]) as stage:
            reasons = "1 never, 1 node(s) were unschedulable, 2 not today"
            await stage.reaches("p", refused(4, reasons, f"2 {NO_VICTIMS}, 2 {UNHELPFUL}"))


async def test_it_may_strike_nodes_off_in_silence() -> None:
    async with scripted(filter={}) as script, staged(*THREE, pod("p"), extenders=[script.settings()]) as stage:
        await stage.reaches("p", f"0/3 nodes are available: preemption: 0/3 nodes are available: 3 {UNHELPFUL}.")


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
        nominee = reserving("p", "a")
        del nominee["spec"]["schedulingGates"]
        async with staged(*THREE, there("other", "c", cpu="1"), nominee, extenders=[script.settings()]) as stage:
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
            'extender "{url}" claims a filtered node "zzz" which is not found in the input node list',
        ),
    ],
)
async def test_an_error_leaves_the_pod_waiting_and_it_is_tried_again(answer: Any, message: str) -> None:
    async with scripted(filter=answer) as script:
        nominee = reserving("p", "a")
        del nominee["spec"]["schedulingGates"]
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


async def test_one_that_is_down_holds_pods_up() -> None:
    with nowhere() as url:
        async with staged(*THREE, pod("p"), extenders=[{"urlPrefix": url, "filterVerb": "filter"}]) as stage:
            assert stage.condition("p")["reason"] == "SchedulerError"
            assert stage.condition("p")["message"].startswith(f'Post "{url}/filter": ')


async def test_one_that_is_down_and_may_be_ignored_is_passed_over() -> None:
    with nowhere() as url:
        async with staged(*THREE, extenders=[{"urlPrefix": url, "filterVerb": "filter", "ignorable": True}]) as stage:
            stage.put(there("one", "a", cpu="1"), there("two", "b", cpu="1"), pod("p"))
            await stage.reaches("p", "c")


async def test_one_that_does_not_answer_in_time_is_down() -> None:
    enough = asyncio.Event()
    async with scripted(filter={}) as script:
        script.pause = enough.wait
        async with staged(*THREE, pod("p"), extenders=[script.settings(httpTimeout="10ms")]) as stage:
            await stage.settled()
            assert stage.condition("p")["message"] == f'Post "{script.url}/filter": context deadline exceeded'
        enough.set()


async def test_one_that_manages_a_resource_hears_of_its_pods_only() -> None:
    gpu = {"example.com/gpu": "1"}
    async with scripted(filter={"NodeNames": ["b"]}) as script:
        extender = script.settings(managedResources=[{"name": "example.com/gpu"}])
        nodes = [node(name, extended={"example.com/gpu": "2"}) for name in "ab"]
        async with staged(*nodes, there("other", "b", cpu="1"), extenders=[extender]) as stage:
            stage.put(pod("plain"), pod("special", asks=gpu, limits=gpu))
            await stage.reaches("special", "b")
            await stage.reaches("plain", "a")
            assert [asked["Pod"]["metadata"]["name"] for _, asked in script.asked] == ["special"]


async def test_it_is_heard_from_the_moment_it_is_configured() -> None:
    async with (
        scripted(filter={"NodeNames": [], "FailedNodes": {"a": "not yet"}}) as script,
        staged(node("a"), extenders=[script.settings()]) as stage,
    ):
        stage.put(pod("p"))
        await stage.reaches("p", refused(1, "1 not yet", f"1 {NO_VICTIMS}"))
        stage.scheduler.configure([])
        await stage.reaches("p", "a")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "extenders[0]: Object missing required field `urlPrefix`"),
        ({"urlPrefix": "u", "filter": "f"}, "extenders[0]: Object contains unknown field `filter`"),
        ({"urlPrefix": "u", "httpTimeout": "5"}, "extenders[0].httpTimeout: "),
        ({"urlPrefix": "u", "prioritizeVerb": "p"}, "extenders[0].weight: an extender that scores"),
        ({"urlPrefix": "u", "bindVerb": "b"}, "extenders[0].bindVerb: the embedded scheduler binds pods itself"),
        (
            {"urlPrefix": "u", "managedResources": [{"name": "x", "ignoredByScheduler": True}]},
            "extenders[0].managedResources: the embedded scheduler looks at every resource",
        ),
    ],
)
def test_settings_that_cannot_be_kept_are_refused_with_their_field(settings: Json, problem: str) -> None:
    with pytest.raises(ValueError, match="extenders") as refusal:
        Extenders().configure([settings])
    assert str(refusal.value).startswith(problem)
