"""Metrics follow what planning counts by: other resources, node pools, and whoever measures what is used."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from rescheduler.app import planning as app
from rescheduler.config.live import LiveConfig
from rescheduler.config.schema import UsageSettings
from rescheduler.decode.cache import ClusterCache
from rescheduler.model.objects import Usage
from rescheduler.model.policy import Policy, Pool
from rescheduler.planning.planner import Planner
from rescheduler.runtime.usage_poller import UsagePoller
from rescheduler.strategies import discover
from rescheduler.usage.history import UsageHistory
from rescheduler.usage.samples import Take, UsageError
from rescheduler.web.metrics import STRATEGIES, Metrics, MetricSources
from rescheduler.web.node_stats import NodeStatsTracker
from tests.support.showing import NOW, node, pod
from tests.unit.web.scraped import scraped, value

GPU = "example.com/gpu"
USE = "rescheduler_node_utilisation"
POLICY = Policy(
    cpu_threshold=80,
    memory_threshold=80,
    thresholds={GPU: 50.0, "pods": 90.0},
    pools=(
        Pool("big", "pool=big", cpu_threshold=10, thresholds={}),
        Pool("empty", "pool=empty", thresholds={}),
    ),
)


class _Source:
    def __init__(self) -> None:
        self.rows: Sequence[Usage] = ()
        self.fails = ""

    async def read(self, take: Take) -> tuple[str, ...]:
        if self.fails:
            raise UsageError(self.fails)
        take(self.rows)
        return ()


def cluster() -> ClusterCache:
    cache = ClusterCache("test")
    for name, pool in (("a", "big"), ("b", "big"), ("c", "")):
        body = node(name, cpu="4", pods="10", labels={"pool": pool})
        if name == "c":
            body["status"]["allocatable"][GPU] = "4"
        cache.put("Node", msgspec.json.encode(body))
    greedy = pod("train", "c")
    greedy["spec"]["containers"][0]["resources"]["requests"][GPU] = "3"
    for body in (greedy, pod("web", "a", cpu="1"), pod("db", "b", cpu="100m")):
        cache.put("Pod", msgspec.json.encode(body))
    return cache


@pytest.mark.parametrize("by_page", [True, False], ids=["as the page shows them", "as the newest plan does"])
def test_other_resources_and_pools_have_series_of_their_own(by_page: bool) -> None:
    cache, metrics = cluster(), Metrics()
    metrics.plans.observe(Planner(cache.snapshot(NOW), POLICY).build_plan())
    if by_page:
        metrics.use_sources(MetricSources(stats=NodeStatsTracker(cache, POLICY).stats))
    assert value(metrics, f"{USE}_max_ratio", resource=GPU) == pytest.approx(0.75)
    assert value(metrics, f"{USE}_min_ratio", resource=GPU) == pytest.approx(0.75)  # of the one node that has any
    assert value(metrics, f"{USE}_ratio_gcount", resource=GPU) == 1
    assert value(metrics, f"{USE}_mean_ratio", resource="pods") == pytest.approx(0.1)
    assert value(metrics, "rescheduler_hot_nodes") == 2  # one by its pool's CPU, one by its GPUs
    assert value(metrics, "rescheduler_pool_hot_nodes", pool="big") == 1
    assert value(metrics, "rescheduler_pool_hot_nodes", pool="empty") == 0


def test_a_resource_that_no_node_has_is_no_reason_to_show_anything_wrong() -> None:
    cache, metrics = cluster(), Metrics()
    policy = Policy(thresholds={"example.com/none": 50.0})
    metrics.use_sources(MetricSources(stats=NodeStatsTracker(cache, policy).stats))
    assert value(metrics, f"{USE}_max_ratio", resource="example.com/none") is None
    assert value(metrics, "rescheduler_hot_nodes") == 0


async def test_the_source_of_usage_is_told_of_while_it_answers_and_while_it_does_not() -> None:
    source, metrics = _Source(), Metrics()
    metering = UsagePoller(source, UsageHistory(UsageSettings()), 30.0, lambda: NOW)
    live_config = LiveConfig(app.load_configuration(None, {"utilization": "max"}), NOW)
    metrics.use_sources(MetricSources(metering=lambda: metering, live_config=lambda: live_config))
    assert value(metrics, "rescheduler_usage_up") is None  # nobody has been asked yet
    assert value(metrics, "rescheduler_utilization_info", utilization="max") == 1
    source.rows = [Usage("NodeMetrics", "", name, (("cpu", 5), ("memory", 5)), NOW) for name in ("a", "b")]
    await metering.poll()
    assert value(metrics, "rescheduler_usage_up") == 1
    assert value(metrics, "rescheduler_usage_last_success_timestamp_seconds") == NOW
    assert value(metrics, "rescheduler_usage_samples") == 2
    assert value(metrics, "rescheduler_usage_errors_total") == 0
    source.fails = "nobody answers"
    await metering.poll()
    await metering.poll()
    assert value(metrics, "rescheduler_usage_up") == 0
    assert value(metrics, "rescheduler_usage_last_success_timestamp_seconds") == NOW
    assert value(metrics, "rescheduler_usage_errors_total") == 2


def test_where_only_requests_count_nothing_is_told_of_usage() -> None:
    metrics = Metrics()
    metrics.use_sources(MetricSources(live_config=lambda: LiveConfig(app.load_configuration(None, {}), NOW)))
    assert value(metrics, "rescheduler_utilization_info", utilization="requests") == 1
    assert not [name for name, _ in scraped(metrics) if name.startswith("rescheduler_usage_")]


def test_every_strategy_is_a_value_of_its_own_in_labels() -> None:
    assert [STRATEGIES.value(name) for name in discover()] == list(discover())
