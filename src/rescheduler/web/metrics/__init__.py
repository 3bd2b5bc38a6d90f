"""The numbers that Prometheus reads: `Metrics` counts what it is told, and asks its `MetricSources` at every scrape.

`app` hands its methods to whoever has something to count; nobody else knows of Prometheus. docs/metrics.md lists all of
them, and is made from `Metrics.described`.
"""

from rescheduler.web.metrics.catalogue import CONTENT_TYPE, MetricDescription
from rescheduler.web.metrics.metrics import Metrics, MetricSources

__all__ = ["CONTENT_TYPE", "MetricDescription", "MetricSources", "Metrics"]
