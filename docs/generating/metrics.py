"""docs/metrics.md: every metric, as the registry has it."""

from __future__ import annotations

from docs.generating.markdown import table
from rescheduler.web.metrics import Metrics

_METRICS = """\
Every replica serves `/metrics` on `web.port` of the [configuration](configuration.md), in the text format of
Prometheus. [`deploy/prometheus-rules.yaml`](../deploy/prometheus-rules.yaml) has recording rules and alerts, each with
what to do about it, and [`deploy/grafana-dashboard.json`](../deploy/grafana-dashboard.json) a dashboard.
"""

_SHOWN = """\
Counters and histograms tell what the replica itself did since it began; only a leader plans and moves, so those of the
others stay at 0, and `sum` over replicas is right. Gauges are read at every scrape. Those that tell of the cluster or
of a leader's work are shown by the leader alone, and those of the cluster only while what he knows is up to date: so
there is one series of each, and it ends when the lead goes over instead of staying at what was true once.
"""

_BOUNDED = """\
Values of labels are few, whatever people write into objects: a strategy, step or verdict that we do not know is
`Other`. `method` is `none` where a migration ended before a method was chosen. `resource` is `cpu`, `memory`, `pods` or
one that has a threshold in the configuration, and `pool` one of its node pools; nodes that have nothing of a resource
do not count there. Where the page is not served, pods are told of only if they have a threshold. A histogram has the
series `_bucket`, `_sum` and `_count`. A gauge histogram is a distribution at this moment: `_bucket` holds how many are
at or below `le`, `_gcount` how many there are, `_gsum` their sum; use `histogram_quantile` on it without `rate`. The
process itself is in `process_resident_memory_bytes`, `process_cpu_seconds_total` and the other usual ones.
"""


def metrics() -> str:
    """Every metric, as the registry has it."""
    rows = [
        (
            f"`{each.name}`",
            each.type,
            ", ".join(f"`{label}`" for label in each.labels),
            "the leader" if each.leader else "everybody",
            each.meaning,
        )
        for each in Metrics().described()
    ]
    found = table(("name", "type", "labels", "shown by", "meaning"), rows)
    return "\n".join(["# Metrics\n", _METRICS, _SHOWN, found, _BOUNDED])
