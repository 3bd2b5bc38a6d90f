"""The usage that a single plan goes by: from a file, or asked for just then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescheduler.app.planning import with_measured_usage
from rescheduler.config.schema import PrometheusAccess, UsageSettings, UsageSource
from rescheduler.model.objects import Usage
from rescheduler.model.policy import Utilization
from rescheduler.model.snapshot import ClusterSnapshot, MeasuredUsage
from tests.support.builders import NOW, cluster, node, pod
from tests.unit.usage.rows import of_node, of_pod

BY_PROMETHEUS = UsageSettings(source=UsageSource.PROMETHEUS, prometheus=PrometheusAccess("http://127.0.0.1:1"))


def file_with(*rows: Usage, taken_at: float | None = NOW) -> ClusterSnapshot:
    return replace(cluster(node("a"), pod("web", on="a", age=1e6)), usage=rows, taken_at=taken_at)


def measured(snapshot: ClusterSnapshot, settings: UsageSettings | None = None, *, live: bool = False) -> MeasuredUsage:
    found = with_measured_usage(snapshot, Utilization.USAGE, settings or UsageSettings(), live=live).measured
    assert found is not None
    return found


@pytest.mark.parametrize("utilization", [Utilization.USAGE, Utilization.MAX])
def test_what_a_file_holds_counts(utilization: Utilization) -> None:
    snapshot = file_with(of_node("a", 900), of_pod("web", 70))
    found = with_measured_usage(snapshot, utilization, UsageSettings(), live=False).measured
    assert found is not None
    assert dict(found.nodes["a"])["cpu"] == 900
    assert dict(found.pods["default", "web"])["cpu"] == 70
    assert found.warnings == ()


def test_by_requests_nothing_is_looked_at() -> None:
    snapshot = file_with(of_node("a"))
    assert with_measured_usage(snapshot, Utilization.REQUESTS, UsageSettings(), live=False) is snapshot


def test_samples_are_as_old_as_they_were_when_the_file_was_made() -> None:
    found = measured(file_with(of_node("a", ago=200), of_pod("web", ago=100)))
    assert found.nodes == {}
    assert found.pods
    assert found.warnings[0] == "usage: 1 of 2 samples is older than 3m0s, and refused: a"


def test_a_file_without_a_time_is_as_old_as_its_newest_sample() -> None:
    found = measured(file_with(of_node("a", ago=100_000), of_pod("web", ago=100_100), taken_at=None))
    assert found.nodes
    assert found.pods
    assert "does not say when it was taken" in found.warnings[0]


def test_a_file_without_metrics_says_so_with_the_cure() -> None:
    found = measured(file_with())
    assert found.warnings[0] == (
        "what is used could not be read: there is nothing of metrics.k8s.io: install metrics-server, or set "
        "usage.source: prometheus"
    )
    assert len(found.warnings) == 3


def test_a_file_has_nothing_of_prometheus_and_says_so() -> None:
    found = measured(file_with(of_node("a"), of_pod("web")), BY_PROMETHEUS)
    assert found.nodes
    assert found.warnings == ("usage: a file has nothing of Prometheus; what it has of metrics.k8s.io counts",)


def test_a_prometheus_that_is_not_there_leaves_requests_and_says_so() -> None:
    found = measured(file_with(of_node("a")), BY_PROMETHEUS, live=True)
    assert found.nodes == {}
    assert found.warnings[0].startswith("what is used could not be read: http://127.0.0.1:1 cannot be reached")
