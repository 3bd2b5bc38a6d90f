"""Usage while the configuration changes: another source, none, and nothing waits for one that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from rescheduler.app import planning as app
from rescheduler.app.context import UsageMonitor
from rescheduler.config.live import LiveConfig
from rescheduler.kube.client import ApiClient, ListPage
from rescheduler.kube.errors import ApiError
from rescheduler.runtime.controller import run_beside
from tests.support.builders import NOW
from tests.support.virtual_time import VirtualLoop


def configured(utilization: str, interval: str = "30s") -> Any:
    return app.load_configuration(None, {"utilization": utilization, "usage": {"interval": interval}})


@dataclass
class Server:
    """metrics.k8s.io that says nothing until it may, and then that there is nothing."""

    answers: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0
    refuses: Exception | None = None
    time: float = NOW

    @property
    def clock(self) -> Any:
        return SimpleNamespace(now=lambda: self.time)

    async def list_pages(self, path: str, answers: frozenset[int]) -> AsyncIterator[ListPage]:
        self.asked += 1
        await self.answers.wait()
        if self.refuses is not None:
            raise self.refuses
        yield ListPage(b'{"items": []}', first=True)


def told(
    story: Callable[[LiveConfig, Server, UsageMonitor], Coroutine[Any, Any, None]], utilization: str = "usage"
) -> None:
    """What happens while somebody measures, and time passes as soon as nothing else happens."""

    async def run() -> None:
        live_config, server = LiveConfig(configured(utilization), NOW), Server()
        meters = UsageMonitor(live_config, cast("ApiClient", server), tuple)
        async with run_beside(meters.run()) as measuring:
            await story(live_config, server, meters)
            assert not measuring.done()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())


def test_nobody_waits_for_one_who_is_no_longer_to_measure() -> None:
    async def story(live_config: LiveConfig, server: Server, meters: UsageMonitor) -> None:
        async with run_beside(meters.wait_until_polled()) as waiting:
            await asyncio.sleep(1)
            live_config.swap(configured("requests"), (), NOW)
            await asyncio.sleep(1)
            assert waiting.done()

    told(story)


def test_whoever_waits_goes_on_with_the_new_one_be_it_changed_twice_in_a_moment() -> None:
    async def story(live_config: LiveConfig, server: Server, meters: UsageMonitor) -> None:
        async with run_beside(meters.wait_until_polled()) as waiting:
            await asyncio.sleep(1)
            live_config.swap(configured("max"), (), NOW)
            live_config.swap(configured("max", "10s"), (), NOW)
            await asyncio.sleep(1)
            assert (waiting.done(), server.asked) == (False, 2)
            server.answers.set()
            await asyncio.sleep(1)
            assert waiting.done()

    told(story)


def test_what_is_to_be_measured_from_now_on_is_waited_for_at_once() -> None:
    async def story(live_config: LiveConfig, server: Server, meters: UsageMonitor) -> None:
        await meters.wait_until_polled()
        live_config.swap(configured("usage"), (), NOW)
        async with run_beside(meters.wait_until_polled()) as waiting:
            await asyncio.sleep(1)
            assert not waiting.done()
            server.answers.set()
            await asyncio.sleep(1)
            assert waiting.done()

    told(story, "requests")


def test_a_source_that_says_nothing_at_all_is_not_waited_for_without_end() -> None:
    async def story(live_config: LiveConfig, server: Server, meters: UsageMonitor) -> None:
        started = asyncio.get_running_loop().time()
        await meters.wait_until_polled()
        assert asyncio.get_running_loop().time() - started == 60.0

    told(story)


def test_it_says_when_nobody_can_tell_any_more_what_is_used() -> None:
    """Else moves that were made for what is used would be judged by requests."""

    async def story(live_config: LiveConfig, server: Server, meters: UsageMonitor) -> None:
        assert meters.why_missing() == "what is used is not known: it is asked for the first time"
        server.answers.set()
        await asyncio.sleep(1)
        assert meters.why_missing() == ""
        server.refuses = ApiError(503, "", "nobody serves it", "/")
        await asyncio.sleep(60)
        server.time += 179
        assert meters.why_missing() == ""
        server.time += 2
        assert meters.why_missing().startswith("what is used is not known: metrics.k8s.io is registered, but")
        live_config.swap(configured("requests"), (), NOW)
        assert meters.why_missing() == ""

    told(story)


def test_what_does_not_concern_it_leaves_its_history_alone() -> None:
    async def story(live_config: LiveConfig, server: Server, meters: UsageMonitor) -> None:
        server.answers.set()
        await asyncio.sleep(1)
        known = meters.current
        changed = app.load_configuration(None, {"utilization": "usage", "cpuThreshold": 71.0})
        assert live_config.swap(changed, (), NOW)
        await asyncio.sleep(1)
        assert meters.current is known

    told(story)
