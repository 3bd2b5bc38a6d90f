"""Scripted extenders: corner cases that the contract tests do not show."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from kubemini.errors import Json
from tests.unit.kubemini.scheduler_stage import bound, node, nominated, pod, staged

THREE = [node(name) for name in "abc"]


class Script:
    """An extender with fixed answers, by verb: JSON, raw bytes, or an HTTP status."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Json]] = []
        self.url = ""

    def settings(self, **more: Any) -> Json:
        return {"urlPrefix": self.url, "filterVerb": "filter", "nodeCacheCapable": True} | more

    async def handle(self, request: web.Request) -> web.Response:
        verb = request.match_info["verb"]
        self.asked.append((verb, await request.json()))
        answer = self.answers[verb]
        if isinstance(answer, int):
            return web.Response(status=answer)
        return web.Response(body=answer if isinstance(answer, bytes) else json.dumps(answer).encode())


@asynccontextmanager
async def scripted(**answers: Any) -> AsyncIterator[Script]:
    """An extender on loopback."""
    script = Script(answers)
    app = web.Application()
    app.router.add_post("/ext/{verb}", script.handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        script.url = f"http://127.0.0.1:{runner.addresses[0][1]}/ext"
        yield script
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("answer", [500, b"null", b"7", b'[{"Host": "a", "Score": "10"}]'])
async def test_without_its_scores_the_scheduler_chooses_by_itself(answer: int | bytes) -> None:
    async with scripted(prioritize=answer) as script:
        extender = script.settings(filterVerb="", prioritizeVerb="prioritize", weight=1)
        async with staged(*THREE[:2], bound("other", "a", cpu="3"), pod("p"), extender=extender) as stage:
            await stage.reaches("p", "b")


async def test_its_reasons_stand_beside_those_of_the_scheduler() -> None:
    answer = {"NodeNames": [], "FailedNodes": {"a": "not today", "b": "not today"}}
    answer["FailedAndUnresolvableNodes"] = {"c": "never"}
    nodes = [*THREE, node("d", unschedulable=True)]
    async with scripted(filter=answer) as script, staged(*nodes, pod("p"), extender=script.settings()) as stage:
        reasons = "1 never, 1 node(s) were unschedulable, 2 not today"
        await stage.reaches("p", f"0/4 nodes are available: {reasons}.")


async def test_it_may_refuse_nodes_without_a_reason() -> None:
    async with scripted(filter={}) as script, staged(*THREE, pod("p"), extender=script.settings()) as stage:
        await stage.reaches("p", "0/3 nodes are available: the extender refuses all.")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"NodeNames": [], "Error": "I am unwell"}, "I am unwell"),
        (500, "failed filter with extender at URL {url}/filter, code 500"),
        (b"[1]", "Post \"{url}/filter\": ValidationError('Expected `object`, got `array`')"),
    ],
)
async def test_an_error_leaves_the_pod_waiting_and_it_is_tried_again(answer: Any, message: str) -> None:
    async with (
        scripted(filter=answer) as script,
        staged(*THREE, nominated(pod("p"), "a"), extender=script.settings()) as stage,
    ):
        await stage.reaches("p", f"SchedulerError: {message.format(url=script.url)}")
        assert "nominatedNodeName" not in stage.pod("p")["status"]
        script.answers["filter"] = {"NodeNames": ["c"]}
        await stage.reaches("p", "c")
