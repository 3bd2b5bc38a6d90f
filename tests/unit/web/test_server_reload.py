"""What the page and the metrics show when the configuration is re-read: what is active now, and what was refused."""

from __future__ import annotations

import asyncio

from rescheduler.app import planning as app
from rescheduler.config.errors import ConfigError
from rescheduler.config.live import LiveConfig
from rescheduler.runtime.config_watcher import ReloadResult
from rescheduler.web.metrics import Metrics, MetricSources
from tests.support.showing import NOW, Stage, ask, served
from tests.unit.web.scraped import scraped, value
from tests.unit.web.test_plans import SlowPlanner

BAD = (
    ConfigError("/etc/rescheduler/config.yaml", "cpuThreshold", "180 is not at most 100"),
    ConfigError("--interval", "", "0s is not at least 1s"),
)


def stage() -> Stage:
    """Two nodes, one of which is used to 60 per cent."""
    made = Stage({"enabledStrategies": ["ResourceOptimization"]})
    made.node("a")
    made.node("b")
    for number in range(2):
        made.pod(f"web-{number}", "a", cpu="1200m")
    return made


def reread(made: Stage, *waiting: str, **overrides: object) -> None:
    """Another configuration is in force."""
    config = app.load_configuration(
        None, {"minPodAge": "0s", "enabledStrategies": ["ResourceOptimization"], **overrides}
    )
    made.live_config.swap(config, waiting, NOW + 60)


async def test_everything_on_the_page_goes_by_the_new_configuration() -> None:
    made = stage()
    async with served(made) as address:
        before = (await ask(address, "/api/overview"))[1]
        assert (before["thresholds"]["cpu"], before["utilisation"]["hotNodes"]) == (80.0, 0)
        first = made.page.state.plans
        assert (await first.get()) is not None
        assert (await ask(address, "/api/config"))[1]["since"] == NOW
        reread(made, cpuThreshold=50.0, reschedulingInterval="10s", approval="required")
        after = (await ask(address, "/api/overview"))[1]
        assert (after["thresholds"]["cpu"], after["utilisation"]["hotNodes"]) == (50.0, 1)
        assert (after["interval"], after["approval"]) == (10.0, "required")
        assert after["configuration"]["revision"] > before["configuration"]["revision"]
        found = (await ask(address, "/api/config"))[1]
        assert (found["since"], found["waiting"], found["refusal"]) == (NOW + 60, [], None)
        assert "cpuThreshold: 50.0" in found["yaml"]
        why = (await ask(address, "/api/pods/shop/web-0"))[1]
        assert "ResourceOptimization" in str(why)


async def test_nodes_are_told_anew_when_others_are_hot() -> None:
    made = stage()
    made.page.state.loads.touched.clear()
    reread(made, cpuThreshold=50.0)
    assert made.page.state.loads.touched == {"a", "b"}


async def test_a_refusal_is_shown_with_its_errors_and_not_with_our_paths() -> None:
    made = stage()
    async with served(made) as address:
        made.live_config.reject(BAD, NOW + 30)
        refusal = (await ask(address, "/api/config"))[1]["refusal"]
        told = ["cpuThreshold: 180 is not at most 100", "--interval: 0s is not at least 1s"]
        assert refusal == {"at": NOW + 30, "errors": told, "more": 0}
        found = (await ask(address, "/api/overview"))[1]
        assert found["configuration"]["refused"]
        assert any("is refused (errors: 2)" in warning for warning in found["warnings"])
        reread(made, "web.port")
        found = (await ask(address, "/api/overview"))[1]
        assert not found["configuration"]["refused"]
        assert found["warnings"] == ["wait for a restart of the controller: web.port"]
        assert (await ask(address, "/api/config"))[1]["waiting"] == ["web.port"]


async def test_no_more_errors_are_shown_than_anybody_reads() -> None:
    made = stage()
    made.live_config.reject(BAD * 100, NOW)
    async with served(made) as address:
        refusal = (await ask(address, "/api/config"))[1]["refusal"]
    assert (len(refusal["errors"]), refusal["more"]) == (50, 150)


async def test_a_plan_that_was_thought_by_the_old_one_is_thought_again() -> None:
    planner = SlowPlanner()
    planner.go_on.clear()
    looking = asyncio.ensure_future(planner.plans.get())
    assert await asyncio.to_thread(planner.begun.wait, 20)
    planner.plans.invalidate()
    planner.go_on.set()
    await looking
    assert planner.planned == 2


async def test_who_does_not_lead_shows_no_plan_of_the_old_one() -> None:
    follower, leader = SlowPlanner(), SlowPlanner(leading=True)
    for each in (follower, leader):
        await each.plans.get()
        each.plans.invalidate()
    assert follower.plans.newest is None
    assert leader.plans.newest is not None, "his next one comes by itself, at once"


def test_metrics_tell_what_is_in_force_and_what_became_of_the_file() -> None:
    metrics, live_config = Metrics(), LiveConfig(app.load_configuration(None, {}), NOW)
    assert value(metrics, "rescheduler_config_last_reload_successful") is None
    metrics.use_sources(MetricSources(live_config=lambda: live_config))
    assert value(metrics, "rescheduler_config_last_reload_successful") == 1
    assert value(metrics, "rescheduler_config_last_reload_success_timestamp_seconds") == NOW
    assert value(metrics, "rescheduler_config_reloads_total", result="refused") == 0
    before = _hashes(metrics)
    live_config.reject(BAD, NOW + 5)
    metrics.count_reload(ReloadResult.REFUSED)
    assert value(metrics, "rescheduler_config_last_reload_successful") == 0
    assert value(metrics, "rescheduler_config_reloads_total", result="refused") == 1
    assert _hashes(metrics) == before
    live_config.swap(app.load_configuration(None, {"cpuThreshold": 50.0}), ("web.port",), NOW + 9)
    metrics.count_reload(ReloadResult.ACCEPTED)
    assert value(metrics, "rescheduler_config_last_reload_successful") == 1
    assert value(metrics, "rescheduler_config_last_reload_success_timestamp_seconds") == NOW + 9
    assert value(metrics, "rescheduler_config_reloads_total", result="accepted") == 1
    assert value(metrics, "rescheduler_config_awaits_restart", field="web.port") == 1
    assert len(_hashes(metrics)) == 1
    assert _hashes(metrics) != before


def _hashes(metrics: Metrics) -> set[str]:
    found = [labels for name, labels in scraped(metrics) if name == "rescheduler_config_info"]
    return {dict(labels)["hash"] for labels in found}
