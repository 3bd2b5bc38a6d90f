"""Makes metrics, describes them for docs/metrics.md, and bounds the values of their labels.

Every value of a label is a series that Prometheus keeps. A PodMigration's strategy and step are free text, so unknown
values become `Other`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeHistogramMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from rescheduler.migration.lifecycle import ROLL_BACK, Lifecycle
from rescheduler.model.plan import Method
from rescheduler.model.strategy_traits import MANUAL
from rescheduler.strategies import discover

CONTENT_TYPE = CONTENT_TYPE_LATEST
OTHER = "Other"
NO_METHOD = "none"
"""For migrations that ended before a method was chosen."""
METHODS = tuple(method.value for method in Method)
_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_WORD = re.compile(r"[A-Za-z]{1,40}")


class FixedLabel:
    """A label with a fixed set of values."""

    def __init__(self, values: Iterable[str]) -> None:
        self.values = (*values, OTHER)

    def value(self, given: str) -> str:
        """Get the value if it is known, else `Other`."""
        return given if given in self.values else OTHER


class CappedLabel:
    """A label that takes the first so many values, all of which come from our own code."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: set[str] = set()

    def value(self, given: str) -> str:
        """Get the value if it is one of the first, else `Other`."""
        if given in self._seen:
            return given
        if len(self._seen) >= self._most or not _WORD.fullmatch(given):
            return OTHER
        self._seen.add(given)
        return given


def strategies() -> FixedLabel:
    """The strategies, and moves by hand."""
    return FixedLabel((*discover(), MANUAL))


@lru_cache(maxsize=1)
def steps() -> FixedLabel:
    """The steps of all methods."""
    lifecycle = Lifecycle()
    names = dict.fromkeys(name for method in Method for name in lifecycle.steps(method))
    return FixedLabel((*names, ROLL_BACK))


def method_value(method: Method | None) -> str:
    """Name a method in a label."""
    return method.value if method is not None else NO_METHOD


Labels = tuple[str, ...]
Reading = Callable[[], Iterable[tuple[Labels, float]]]
"""Reads a gauge's values, by the values of its labels."""
Distribution = Callable[[], Iterable[tuple[Labels, Mapping[float, int], float]]]
"""Reads, by the values of the labels, how many are at or below each bound (the last is infinite), and their sum."""

disable_created_metrics()  # type: ignore[no-untyped-call]  # a useless series beside each counter


@dataclass(frozen=True, slots=True)
class MetricDescription:
    """What docs/metrics.md says about a metric."""

    name: str
    type: str
    labels: Labels
    meaning: str
    leader: bool = False
    """Whether only the leader shows it."""

    @property
    def series(self) -> frozenset[str]:
        """The names of its samples."""
        ends = {"histogram": ("_bucket", "_sum", "_count"), "gauge histogram": ("_bucket", "_gsum", "_gcount")}
        return frozenset(f"{self.name}{end}" for end in ends.get(self.type, ("",)))


class MetricCatalogue:
    """Makes metrics. `leading` says whether this replica leads, `fresh` whether its caches are synced."""

    def __init__(self, leading: Callable[[], bool], fresh: Callable[[], bool]) -> None:
        self._registry = CollectorRegistry()
        self._leading = leading
        self._fresh = fresh
        self.described: list[MetricDescription] = []
        ProcessCollector(registry=self._registry)

    def counter(self, name: str, meaning: str, labels: Labels = ()) -> Counter:
        """Add a counter; its name ends with `_total`."""
        self.described.append(MetricDescription(name, "counter", labels, meaning))
        return Counter(name, meaning, labels, registry=self._registry)

    def histogram(self, name: str, meaning: str, labels: Labels = (), buckets: Sequence[float] = _SECONDS) -> Histogram:
        """Add a histogram of durations or sizes."""
        self.described.append(MetricDescription(name, "histogram", labels, meaning))
        return Histogram(name, meaning, labels, buckets=buckets, registry=self._registry)

    def gauge(self, name: str, meaning: str, labels: Labels, read: Reading) -> None:
        """Add a gauge about this replica."""
        self._at_scrape(MetricDescription(name, "gauge", labels, meaning), read, lambda: True)

    def tally(self, name: str, meaning: str, read: Reading) -> None:
        """Add a counter that is read at each scrape; its name ends with `_total`."""
        stem = name.removesuffix("_total")

        def collect() -> Metric:
            family = CounterMetricFamily(stem, meaning, labels=())
            for values, value in read():
                family.add_metric(values, value)
            return family

        self.described.append(MetricDescription(name, "counter", (), meaning))
        self._registry.register(_ScrapedMetric(collect, CounterMetricFamily(stem, meaning, labels=())))

    def leaders_gauge(self, name: str, meaning: str, labels: Labels, read: Reading) -> None:
        """Add a gauge that only the leader shows."""
        self._at_scrape(MetricDescription(name, "gauge", labels, meaning, leader=True), read, self._leading)

    def clusters_gauge(self, name: str, meaning: str, labels: Labels, read: Reading) -> None:
        """Add a gauge about the cluster, which the leader shows while its caches are synced."""
        self._at_scrape(MetricDescription(name, "gauge", labels, meaning, leader=True), read, self._speaks)

    def clusters_distribution(self, name: str, meaning: str, labels: Labels, read: Distribution) -> None:
        """Add a distribution over the cluster now: a histogram whose counts may fall."""

        def collect() -> Metric:
            family = GaugeHistogramMetricFamily(name, meaning, labels=labels)
            for values, counts, total in read() if self._speaks() else ():
                family.add_metric(values, [(_bound(le), float(count)) for le, count in counts.items()], total)
            return family

        self.described.append(MetricDescription(name, "gauge histogram", labels, meaning, leader=True))
        self._registry.register(_ScrapedMetric(collect, GaugeHistogramMetricFamily(name, meaning, labels=labels)))

    def text(self) -> bytes:
        """Write all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def _speaks(self) -> bool:
        """Whether this replica shows metrics of the cluster."""
        return self._leading() and self._fresh()

    def _at_scrape(self, about: MetricDescription, read: Reading, shown: Callable[[], bool]) -> None:
        def collect() -> Metric:
            family = GaugeMetricFamily(about.name, about.meaning, labels=about.labels)
            for values, value in read() if shown() else ():
                family.add_metric(values, value)
            return family

        self.described.append(about)
        self._registry.register(
            _ScrapedMetric(collect, GaugeMetricFamily(about.name, about.meaning, labels=about.labels))
        )


class _ScrapedMetric(Collector):
    """A metric that is read at each scrape."""

    def __init__(self, read: Callable[[], Metric], empty: Metric) -> None:
        self._read = read
        self._empty = empty

    def describe(self) -> Iterator[Metric]:
        yield self._empty

    def collect(self) -> Iterator[Metric]:
        yield self._read()


def _bound(le: float) -> str:
    return "+Inf" if le == float("inf") else str(le)
