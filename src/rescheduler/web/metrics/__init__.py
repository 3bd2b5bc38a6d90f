"""The numbers that Prometheus reads: `Metrics` has the counters, and reads its `MetricSources` at every scrape.

`app` connects its parts with what they count; no other package uses Prometheus. docs/metrics.md lists all of
them, and is made from `Metrics.described`.
"""

from rescheduler.web.metrics.catalogue import CONTENT_TYPE, MetricDescription
from rescheduler.web.metrics.metrics import Metrics, MetricSources

__all__ = ["CONTENT_TYPE", "MetricDescription", "MetricSources", "Metrics"]
