"""What is read at a scrape is true then: of the cluster only who leads and knows speaks, and nobody shows the past."""

from __future__ import annotations

import math
from string import ascii_letters

import pytest

from rescheduler.decode.cache import ClusterCache
from rescheduler.model.migration import Phase
from rescheduler.model.plan import ClusterLoad, LoadDistribution, Method, Move, NodeLoad, Plan, Rejection
from rescheduler.model.policy import Policy
from rescheduler.runtime.informers import InformerStatus
from rescheduler.web.metrics import Metrics, MetricSources
from rescheduler.web.node_stats import NodeStatsTracker
from tests.support.pod_migrations import replace
from tests.unit.web.scraped import names, scraped, total, value

USE = "rescheduler_node_utilisation"
CPU = LoadDistribution(max=90.0, min=10.0, mean=50.0, stddev=32.66)
MEMORY = LoadDistribution(max=40.0, min=20.0, mean=30.0, stddev=8.16)
PICTURE = ClusterLoad(
    CPU,
    MEMORY,
    1,
    (NodeLoad("a", 90.0, 40.0, 3), NodeLoad("b", 50.0, 30.0, 2), NodeLoad("c", 10.0, 20.0, 1)),
    hot_nodes_by_pool={"big": 1},
)


def plan(*guards: str, moves: int = 0, strategy: str = "LoadBalancing") -> Plan:
    refused = tuple(Rejection("shop", f"pod-{number}", guard, "why") for number, guard in enumerate(guards))
    moved = tuple(Move("shop", f"m-{i}", "a", "b", strategy, "why", Method.HANDOFF) for i in range(moves))
    return Plan(moved, refused, PICTURE, PICTURE)


def everything() -> MetricSources:
    return MetricSources(
        lease="kube-rescheduler",
        kinds=lambda: [InformerStatus("pods", 7, 1.5, "")],
        migrations=lambda phase: 2,
        awaiting=lambda: 1,
        resting=lambda: 3,
        paused=lambda: False,
        window_open=lambda: True,
        viewers=lambda: 4,
    )


class TestPlans:
    def test_moves_and_rejections_are_counted_and_the_newest_plan_is_shown(self) -> None:
        metrics = Metrics()
        metrics.plans.observe(plan("CoolDown", "CoolDown", "NoTarget", moves=2))
        metrics.plans.observe(plan("CoolDown", moves=1))
        assert value(metrics, "rescheduler_moves_planned_total", strategy="LoadBalancing", method="handoff") == 3
        assert value(metrics, "rescheduler_plan_moves", strategy="LoadBalancing") == 1
        assert value(metrics, "rescheduler_rejections_total", guard="CoolDown") == 3
        assert value(metrics, "rescheduler_rejections_total", guard="NoTarget") == 1
        assert value(metrics, "rescheduler_plan_rejections", guard="CoolDown") == 1
        assert value(metrics, "rescheduler_plan_rejections", guard="NoTarget") is None

    def test_guards_without_end_are_one_series(self) -> None:
        metrics = Metrics()
        metrics.plans.observe(
            plan(*(f"G{a}{b}" for a in ascii_letters for b in "abcd"), "no word", strategy="of my own")
        )
        metrics.plans.observe(plan(moves=1, strategy="of my own"))
        counted = [key for key in scraped(metrics) if key[0] == "rescheduler_rejections_total"]
        assert len(counted) == 61
        assert total(metrics, "rescheduler_rejections_total") == 209
        assert value(metrics, "rescheduler_moves_planned_total", strategy="Other", method="handoff") == 1

    def test_each_part_of_a_cycle_is_timed_also_when_it_fails(self) -> None:
        metrics = Metrics()
        assert metrics.plans.phase("snapshot")(lambda base, times=1: base * times)(2, times=3) == 6
        with pytest.raises(ValueError, match="unplannable"), metrics.plans.phase("plan"):
            raise ValueError("unplannable")
        parts = ("snapshot", "plan", "order")
        seen = [value(metrics, "rescheduler_cycle_duration_seconds_count", phase=part) for part in parts]
        assert seen == [1, 1, 0]


class TestNodes:
    def test_stand_as_the_newest_plan_found_them_where_nobody_knows_better(self) -> None:
        metrics = Metrics()
        metrics.plans.observe(plan())
        shown = {what: value(metrics, f"{USE}_{what}_ratio", resource="cpu") for what in ("max", "min", "spread")}
        assert shown == pytest.approx({"max": 0.9, "min": 0.1, "spread": 0.8})
        assert value(metrics, f"{USE}_stddev_ratio", resource="memory") == pytest.approx(0.0816, abs=1e-3)
        assert value(metrics, "rescheduler_hot_nodes") == 1
        assert value(metrics, "rescheduler_nodes") == 3

    def test_are_counted_up_to_each_share(self) -> None:
        metrics = Metrics()
        metrics.plans.observe(plan())
        buckets = {
            dict(labels)["le"]: found
            for (name, labels), found in scraped(metrics).items()
            if name == f"{USE}_ratio_bucket" and ("resource", "cpu") in labels
        }
        assert [buckets[le] for le in ("0.05", "0.1", "0.45", "0.5", "0.85", "0.9", "1.0", "+Inf")] == [
            0, 1, 1, 2, 2, 3, 3, 3,
        ]  # fmt: skip
        assert value(metrics, f"{USE}_ratio_gsum", resource="cpu") == pytest.approx(1.5)
        assert value(metrics, f"{USE}_ratio_gcount", resource="cpu") == 3

    def test_stand_as_the_page_shows_them_where_there_is_one(self) -> None:
        cache = ClusterCache("test")
        loads = NodeStatsTracker(cache, Policy(cpu_threshold=80, memory_threshold=80))
        metrics = Metrics()
        metrics.plans.observe(plan())
        metrics.use_sources(MetricSources(stats=loads.stats))
        assert value(metrics, "rescheduler_nodes") == 0
        assert value(metrics, f"{USE}_max_ratio", resource="cpu") is None  # of no nodes there is no most used one
        for name, cpu in (("a", "2"), ("b", "4")):
            cache.put("Node", node(name, cpu))
            cache.put("Pod", pod(name, "1900m"))
        assert value(metrics, f"{USE}_max_ratio", resource="cpu") == pytest.approx(0.95)
        assert value(metrics, f"{USE}_spread_ratio", resource="cpu") == pytest.approx(0.475)
        assert value(metrics, f"{USE}_mean_ratio", resource="pods") == pytest.approx(0.1)
        assert value(metrics, "rescheduler_hot_nodes") == 1


def node(name: str, cpu: str) -> bytes:
    has = f'{{"cpu":"{cpu}","memory":"8Gi","pods":"10"}}'
    return f'{{"metadata":{{"name":"{name}"}},"status":{{"allocatable":{has},"capacity":{has}}}}}'.encode()


def pod(on: str, cpu: str) -> bytes:
    container = f'{{"name":"c","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}'
    spec = f'{{"nodeName":"{on}","containers":[{container}]}}'
    meta = f'{{"namespace":"shop","name":"on-{on}","uid":"{on}"}}'
    return f'{{"metadata":{meta},"spec":{spec},"status":{{"phase":"Running"}}}}'.encode()


class TestWhoSpeaks:
    leaders = frozenset(
        {
            "rescheduler_paused",
            "rescheduler_window_open",
            "rescheduler_workloads_resting",
            "rescheduler_webhook_in_force",
            "rescheduler_plan_moves",
            "rescheduler_plan_rejections",
            "rescheduler_last_plan_timestamp_seconds",
        }
    )
    clusters = frozenset(
        {
            "rescheduler_migrations",
            "rescheduler_migrations_awaiting_approval",
            "rescheduler_hot_nodes",
            "rescheduler_pool_hot_nodes",
            "rescheduler_nodes",
            *(f"{USE}_ratio_{part}" for part in ("bucket", "gsum", "gcount")),
            *(f"{USE}_{statistic}_ratio" for statistic in ("max", "min", "mean", "stddev", "spread")),
        }
    )

    def metrics(self, leading: bool, fresh: bool) -> Metrics:
        metrics = Metrics()
        metrics.plans.observe(plan("CoolDown", moves=1))
        metrics.webhook_in_force = True
        metrics.use_sources(replace(everything(), leading=lambda: leading, fresh=lambda: fresh))
        return metrics

    def test_a_leader_that_is_up_to_date_shows_everything(self) -> None:
        metrics = self.metrics(leading=True, fresh=True)
        described = {name for each in metrics.described() if each.leader for name in each.series}
        assert described == self.leaders | self.clusters
        assert names(metrics) >= described
        assert value(metrics, "leader_election_master_status", name="kube-rescheduler") == 1

    def test_a_replica_that_does_not_lead_shows_nothing_of_what_only_a_leader_knows(self) -> None:
        metrics = self.metrics(leading=False, fresh=True)
        assert not names(metrics) & (self.leaders | self.clusters)
        assert value(metrics, "leader_election_master_status", name="kube-rescheduler") == 0
        assert value(metrics, "rescheduler_cache_objects", kind="pods") == 7
        assert value(metrics, "rescheduler_page_viewers") == 4

    def test_a_leader_that_is_not_up_to_date_does_not_tell_how_the_cluster_stands(self) -> None:
        metrics = self.metrics(leading=True, fresh=False)
        assert not names(metrics) & self.clusters
        assert names(metrics) >= self.leaders  # that its last plan is old must be seen

    def test_a_lead_that_is_lost_ends_them_at_once(self) -> None:
        leads = [True]
        metrics = Metrics()
        metrics.plans.observe(plan())
        metrics.use_sources(MetricSources(lease="l", leading=lambda: leads[0]))
        assert value(metrics, "rescheduler_hot_nodes") == 1
        leads[0] = False
        assert value(metrics, "rescheduler_hot_nodes") is None
        assert value(metrics, "leader_election_master_status", name="l") == 0

    def test_what_nobody_answers_is_not_shown(self) -> None:
        shown = names(Metrics())
        described = {name for each in Metrics().described() if each.type.startswith("gauge") for name in each.series}
        assert shown & described == {"rescheduler_build_info"}

    def test_whether_it_is_paused_may_not_be_known(self) -> None:
        metrics = Metrics()
        known: list[bool | None] = [None]
        metrics.use_sources(MetricSources(paused=lambda: known[0]))
        assert value(metrics, "rescheduler_paused") is None
        known[0] = True
        assert value(metrics, "rescheduler_paused") == 1


def test_sizes_and_lags_are_told_by_kind() -> None:
    metrics = Metrics()
    kinds = [
        InformerStatus("pods", 7, 1.5, ""),
        InformerStatus("nodes", 3, 70.0, "BrokenOff"),
        InformerStatus("jobs", 0, None, ""),
    ]
    metrics.use_sources(MetricSources(kinds=lambda: kinds))
    lags = {each.kind: value(metrics, "rescheduler_cache_lag_seconds", kind=each.kind) for each in kinds}
    assert lags == {"pods": 1.5, "nodes": 70.0, "jobs": None}
    assert {each.kind: value(metrics, "rescheduler_cache_up", kind=each.kind) for each in kinds} == {
        "pods": 1, "nodes": 0, "jobs": 0,
    }  # fmt: skip
    assert [value(metrics, "rescheduler_cache_objects", kind=each.kind) for each in kinds] == [7, 3, 0]


def test_migrations_are_counted_by_phase() -> None:
    metrics = Metrics()
    metrics.use_sources(MetricSources(migrations=lambda phase: {Phase.PENDING: 2}.get(phase, 0)))
    shown = {phase: value(metrics, "rescheduler_migrations", phase=phase.value) for phase in Phase}
    assert shown == {Phase.PENDING: 2, Phase.IN_PROGRESS: 0, Phase.COMPLETED: 0, Phase.FAILED: 0}


def test_requests_are_named_as_those_of_other_programs_of_kubernetes() -> None:
    metrics = Metrics()
    report = metrics.requests.reporter("https://me:secret@api.example:6443/prefix")
    report("GET", 200, 0.02)
    report("GET", 200, None)
    report("POST", "TimedOut", 75.0)
    there = {"host": "api.example:6443"}
    assert value(metrics, "rest_client_requests_total", code="200", method="GET", **there) == 2
    assert value(metrics, "rest_client_requests_total", code="<error>", method="POST", **there) == 1
    assert value(metrics, "rest_client_request_duration_seconds_count", verb="GET", **there) == 1
    assert value(metrics, "rest_client_request_duration_seconds_bucket", verb="POST", le="60.0", **there) == 0
    assert b"secret" not in metrics.text()


def test_every_name_is_as_prometheus_wants_it_and_has_a_meaning() -> None:
    described = Metrics().described()
    assert len({each.name for each in described}) == len(described)
    for each in described:
        assert each.name.startswith(("rescheduler_", "rest_client_", "leader_election_"))
        assert each.name.endswith("_total") == (each.type == "counter")
        assert each.type != "histogram" or each.name.endswith("_seconds")
        assert each.meaning.endswith(".")
        assert not set(each.labels) & {"pod", "namespace", "node", "workload", "uid", "migration"}


def test_counters_are_there_before_they_count_so_that_the_first_increase_is_seen() -> None:
    metrics = Metrics()
    metrics.use_sources(everything())
    before = set(scraped(metrics))
    metrics.plans.observe(plan("CoolDown", moves=1))
    metrics.count_recovery("exhausted")
    metrics.outcomes.observe("LoadBalancing", 1.0, 1.0, "Paid")
    assert {name for name, _ in set(scraped(metrics)) - before if name.endswith("_total")} == set()
    assert all(math.isfinite(found) for found in scraped(metrics).values())
