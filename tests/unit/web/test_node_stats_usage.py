"""The page follows what planning counts by: pools, other resources, and what is measured, if it is."""

from __future__ import annotations

import pytest

from rescheduler.app import planning as app
from rescheduler.config.schema import UsageSettings
from rescheduler.model.objects import Usage
from rescheduler.runtime.usage_poller import UsagePoller
from rescheduler.usage.history import UsageHistory
from rescheduler.usage.samples import Take, UsageError
from rescheduler.web import node_stats
from rescheduler.web.node_stats import CPU
from rescheduler.web.views import node_rows
from tests.support.showing import NOW, Clock, Stage, ask, node, pod, served

GPU = "example.com/gpu"
POOLED = {
    "thresholds": {GPU: 50.0},
    "pools": [
        {
            "name": "gpu",
            "nodeSelector": "tier=gpu",
            "cpuThreshold": 95.0,
            "enabledStrategies": ["NodeMaintenance"],
            "strategies": {"LoadBalancing": {"imbalanceThreshold": 35.0}},
        }
    ],
}


class Source:
    """Says of nodes and pods what the test wants, or fails."""

    def __init__(self) -> None:
        self.used: dict[tuple[str, str, str], int] = {}
        self.fails = ""

    async def read(self, take: Take) -> tuple[str, ...]:
        if self.fails:
            raise UsageError(self.fails)
        take([Usage(*key, (("cpu", cpu), ("memory", 2**20)), NOW) for key, cpu in self.used.items()])
        return ()


def metered(source: Source, clock: Clock, **overrides: object) -> Stage:
    metering = UsagePoller(source, UsageHistory(UsageSettings()), 30.0, clock)
    return Stage(overrides={"utilization": "usage", **overrides}, clock=clock, metering=metering)


def fill(made: Stage) -> None:
    """Two nodes, of which one is of the pool and has GPUs; each has a pod that asks little."""
    body = node("a", cpu="4", labels={"tier": "gpu"})
    body["status"]["allocatable"][GPU] = "4"
    made.put("Node", body)
    made.node("b", cpu="4")
    greedy = pod("train", "a", cpu="100m")
    greedy["spec"]["containers"][0]["resources"]["requests"][GPU] = "3"
    made.put("Pod", greedy)
    made.pod("web", "b", cpu="100m")


def use_of_a(made: Stage) -> float:
    """Per cent of its CPU."""
    return float(made.page.state.loads.stats().percent[CPU, 0])


async def test_pools_and_other_resources_are_told_with_their_thresholds() -> None:
    made = Stage(overrides=POOLED)
    fill(made)
    async with served(made) as address:
        nodes = (await ask(address, "/api/nodes"))[1]
        overview = (await ask(address, "/api/overview"))[1]
        one, other = [(await ask(address, f"/api/nodes/{name}"))[1] for name in ("a", "b")]
        plan = (await ask(address, "/api/plan"))[1]["plan"]
    assert (nodes["resources"], nodes["others"], nodes["rule"]) == ([GPU], [[75.0, None]], [1, 0])
    assert [nodes["pools"][at] for at in nodes["pool"]] == ["gpu", ""]
    assert overview["rules"] == [
        {"pool": "", "cpu": 80.0, "memory": 80.0, GPU: 50.0},
        {"pool": "gpu", "cpu": 95.0, "memory": 80.0, GPU: 50.0},
    ]
    assert (overview["utilisation"]["hotNodes"], overview["utilisation"]["hotByPool"]) == (1, {"gpu": 1})
    assert overview["utilisation"]["others"] == plan["before"]["others"]
    assert plan["before"]["hotNodesByPool"] == {"gpu": 1}
    assert (one["pool"], one["over"], one["thresholds"]["cpu"]) == ("gpu", [GPU], 95.0)
    assert (one["used"][GPU], one["allocatable"][GPU]) == (3, 4)
    assert (other["pool"], other["over"], other["thresholds"]["cpu"]) == ("", [], 80.0)


async def test_a_change_of_a_node_carries_its_other_resources() -> None:
    made = Stage(overrides=POOLED)
    fill(made)
    assert node_rows(made.page.state, [0, 1]) == [[0, 2.5, 6.25, 1, 0, 75.0], [1, 2.5, 6.25, 1, 0, None]]


async def test_the_configuration_tells_pools_and_what_strategies_do_there() -> None:
    made = Stage(overrides=POOLED)
    async with served(made) as address:
        found = (await ask(address, "/api/config"))[1]
    (pool,) = found["pools"]
    assert (pool["name"], pool["nodeSelector"], pool["mode"]) == ("gpu", "tier=gpu", "absolute")
    assert pool["thresholds"] == {"cpu": 95.0, "memory": 80.0, GPU: 50.0}
    strategies = {each["name"]: each for each in found["strategies"]}
    assert strategies["NodeMaintenance"]["pools"] == {"gpu": {"enabled": True, "settings": {}}}
    assert strategies["LoadBalancing"]["pools"] == {"gpu": {"enabled": False, "settings": {"imbalanceThreshold": 35.0}}}
    assert strategies["LoadBalancing"]["settings"]["imbalanceThreshold"] == 20.0


async def test_measured_use_counts_from_when_it_is_measured_and_is_what_the_plan_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_stats, "_REFRESH_EVERY", 3600.0)  # it is looked when it is said here
    source, clock = Source(), Clock()
    made = metered(source, clock)
    fill(made)
    assert made.metering is not None
    made.watching.add_overlay(made.metering.with_usage)
    async with served(made) as address:
        before = (await ask(address, "/api/overview"))[1]
        assert before["use"] == {"by": "usage", "counts": False, "measured": None, "why": ""}
        assert before["utilisation"]["cpu"]["max"] == 2.5
        source.used = {("PodMetrics", "shop", "train"): 3600, ("NodeMetrics", "", "b"): 400}
        await made.metering.poll()
        await made.page.state.measuring.refresh()
        after = (await ask(address, "/api/overview"))[1]
        plan = (await ask(address, "/api/plan"))[1]["plan"]
        one = (await ask(address, "/api/nodes/a"))[1]
        explained = (await ask(address, "/api/pods/shop/train"))[1]
    assert after["use"] == {"by": "usage", "counts": True, "measured": NOW, "why": ""}
    assert (after["utilisation"]["cpu"]["max"], after["utilisation"]["cpu"]["min"]) == (90.0, 10.0)
    assert after["utilisation"]["cpu"] == plan["before"]["cpu"]
    assert after["utilisation"]["hotNodes"] == plan["before"]["hotNodes"] == 1
    assert (one["cpu"], one["used"]["cpu"], one["pods"][0]["usage"]) == (90.0, 3600, {"cpu": 3600, "memory": 2**20})
    assert (explained["utilization"], explained["usage"]["cpu"]) == ("usage", "3600m")


async def test_a_source_that_fails_is_told_of_and_what_it_said_counts_until_it_is_too_old() -> None:
    source, clock = Source(), Clock()
    made = metered(source, clock)
    fill(made)
    assert made.metering is not None
    source.used = {("NodeMetrics", "", "b"): 3600}
    await made.metering.poll()
    await made.page.state.measuring.refresh()
    source.fails = "nobody answers"
    clock.now += 20
    await made.metering.poll()
    async with served(made) as address:
        overview = (await ask(address, "/api/overview"))[1]
        assert overview["use"] == {"by": "usage", "counts": True, "measured": NOW, "why": "nobody answers"}
        health = {each["name"]: each for each in overview["health"]}["usage"]
        assert (health["ok"], health["why"], health["count"], health["lag"]) == (False, "nobody answers", 1, 20.0)
        assert overview["utilisation"]["cpu"]["max"] == 90.0
        clock.now += 600
        made.page.state.measuring.invalidate()
        await made.page.state.measuring.refresh()
        assert (await ask(address, "/api/overview"))[1]["utilisation"]["cpu"]["max"] == 2.5


async def test_a_source_that_has_never_answered_does_not_count_however_often_it_is_looked() -> None:
    source, clock = Source(), Clock()
    made = metered(source, clock)
    fill(made)
    source.fails = "nobody answers"
    assert made.metering is not None
    await made.metering.poll()
    await made.page.state.measuring.refresh()
    async with served(made) as address:
        overview = (await ask(address, "/api/overview"))[1]
    assert overview["use"] == {"by": "usage", "counts": False, "measured": None, "why": "nobody answers"}


async def test_nothing_is_taken_twice_and_nothing_where_nobody_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    source, clock = Source(), Clock()
    made = metered(source, clock)
    fill(made)
    taken: list[object] = []
    loads = made.page.state.loads

    async def take(measured: object) -> None:
        taken.append(measured)

    monkeypatch.setattr(loads, "use_measured", take)
    looking, metering = made.page.state.measuring, made.metering
    assert metering is not None
    await metering.poll()
    await looking.refresh()
    await looking.refresh()
    assert len(taken) == 1
    clock.now += 30
    await metering.poll()
    await looking.refresh()
    assert len(taken) == 2
    made.metering = None
    await looking.refresh()
    await looking.refresh()
    assert taken[2:] == [None]


async def test_another_configuration_is_followed() -> None:
    source, clock = Source(), Clock()
    made = metered(source, clock)
    fill(made)
    assert made.metering is not None
    source.used = {("PodMetrics", "shop", "train"): 3600}
    await made.metering.poll()
    await made.page.state.measuring.refresh()
    assert use_of_a(made) == 90.0
    made.live_config.swap(app.load_configuration(None, {"utilization": "requests"}), (), NOW)
    assert use_of_a(made) == 2.5
    made.live_config.swap(app.load_configuration(None, {"utilization": "max"}), (), NOW)
    await made.page.state.measuring.refresh()
    assert use_of_a(made) == 90.0
