"""Makes metrics, describes them for docs/metrics.md, and bounds the values of their labels.

Every value of a label is a series that Prometheus keeps. A PodMigration's strategy and step are free text, so unknown
values become `Other`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeHistogramMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

OTHER = "Other"
_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_WORD = re.compile(r"[A-Za-z]{1,40}")
_FAMILIES: Mapping[str, Callable[..., Any]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "gauge histogram": GaugeHistogramMetricFamily,
}

disable_created_metrics()  # type: ignore[no-untyped-call]  # a useless series beside each counter


class FixedLabel:
    """A label with a fixed set of values."""

    def __init__(self, values: Iterable[str]) -> None:
        self.values = (*values, OTHER)

    def value(self, given: str) -> str:
        """Get the value if it is known, else `Other`."""
        return given if given in self.values else OTHER


class CappedLabel:
    """A label that takes its known values and the first others, up to so many; all of them come from our own code."""

    def __init__(self, known: Iterable[str], most: int) -> None:
        self._most = most
        self._seen = set(known)

    def value(self, given: str) -> str:
        """Get the value if it is one of the first, else `Other`."""
        if given in self._seen:
            return given
        if len(self._seen) >= self._most or not _WORD.fullmatch(given):
            return OTHER
        self._seen.add(given)
        return given


class ShownBy(Enum):
    """The replicas that show a metric."""

    EVERY_REPLICA = "every replica"
    LEADER = "the leader"
    SYNCED_LEADER = "the leader, while its caches are synced"


Samples = Callable[[], Iterable[tuple[Any, ...]]]
"""Reads the samples of a metric: the values of its labels, and what its family's `add_metric` takes besides."""


@dataclass(frozen=True, slots=True)
class MetricDescription:
    """What docs/metrics.md says about a metric."""

    name: str
    type: str
    labels: tuple[str, ...]
    meaning: str
    by: ShownBy = ShownBy.EVERY_REPLICA

    @property
    def leader(self) -> bool:
        """Whether only the leader shows it."""
        return self.by is not ShownBy.EVERY_REPLICA

    @property
    def series(self) -> frozenset[str]:
        """The names of its samples."""
        ends = {"histogram": ("_bucket", "_sum", "_count"), "gauge histogram": ("_bucket", "_gsum", "_gcount")}
        return frozenset(f"{self.name}{end}" for end in ends.get(self.type, ("",)))


class MetricCatalogue:
    """Makes metrics. `is_shown` says whether this replica shows such metrics now."""

    def __init__(self, is_shown: Callable[[ShownBy], bool]) -> None:
        self._registry = CollectorRegistry()
        self._is_shown = is_shown
        self.described: list[MetricDescription] = []
        ProcessCollector(registry=self._registry)

    def counter(self, name: str, meaning: str, labels: Mapping[str, Iterable[str]]) -> Counter:
        """Add a counter, whose name ends with `_total`; it starts at 0 for all known values of its labels."""
        self.described.append(MetricDescription(name, "counter", tuple(labels), meaning))
        found = Counter(name, meaning, tuple(labels), registry=self._registry)
        for values in product(*labels.values()):
            found.labels(*values)
        return found

    def histogram(
        self, name: str, meaning: str, labels: tuple[str, ...] = (), buckets: tuple[float, ...] = _SECONDS
    ) -> Histogram:
        """Add a histogram of durations."""
        self.described.append(MetricDescription(name, "histogram", labels, meaning))
        return Histogram(name, meaning, labels, buckets=buckets, registry=self._registry)

    def gauge(
        self, name: str, meaning: str, labels: tuple[str, ...], samples: Samples, by: ShownBy = ShownBy.EVERY_REPLICA
    ) -> None:
        """Add a gauge that is read at each scrape."""
        self.read(MetricDescription(name, "gauge", labels, meaning, by), samples)

    def read(self, about: MetricDescription, samples: Samples) -> None:
        """Add a metric that is read at each scrape, while this replica shows it."""

        def empty() -> Any:
            return _FAMILIES[about.type](about.name, about.meaning, labels=about.labels)

        def collect() -> Metric:
            family = empty()
            for sample in samples() if self._is_shown(about.by) else ():
                family.add_metric(*sample)
            found: Metric = family
            return found

        self.described.append(about)
        self._registry.register(_ScrapedMetric(collect, empty()))

    def text(self) -> bytes:
        """Write all metrics in the Prometheus text format."""
        return generate_latest(self._registry)


class _ScrapedMetric(Collector):
    """A metric that is read at each scrape."""

    def __init__(self, read: Callable[[], Metric], empty: Metric) -> None:
        self._read = read
        self._empty = empty

    def describe(self) -> Iterator[Metric]:
        yield self._empty

    def collect(self) -> Iterator[Metric]:
        yield self._read()
