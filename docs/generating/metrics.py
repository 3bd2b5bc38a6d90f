"""docs/metrics.md: every metric, as the registry has it."""

from __future__ import annotations

from docs.generating.markdown import table
from rescheduler.web.metrics import Metrics

_METRICS = """\
Every replica serves `/metrics` on `web.port` of the [configuration](configuration.md), in the text format of
Prometheus. [`deploy/prometheus-rules.yaml`](../deploy/prometheus-rules.yaml) has recording rules and alerts, each with
what to do, and [`deploy/grafana-dashboard.json`](../deploy/grafana-dashboard.json) a dashboard.
"""

_SHOWN = """\
Counters and histograms count what the replica itself did since its start. Only the leader plans and moves, so those
of other replicas stay at 0, and `sum` over replicas is correct. Gauges are computed at every scrape. Gauges about the
cluster or the leader's work come from the leader only, those about the cluster only while its caches are up to date.
So there is one series of each, and it ends with the leadership instead of keeping an old value.
"""

_BOUNDED = """\
Labels have few values, whatever objects contain: an unknown strategy, step or verdict is `Other`. `method` is `none`
if a migration ended before a method was chosen. `resource` is `cpu`, `memory`, `pods` or a resource with a threshold
in the configuration, and `pool` one of its node pools; nodes without a resource do not count for it. If the page is
not served, `pods` appears only if it has a threshold. A histogram has the series `_bucket`, `_sum` and `_count`. A
gauge histogram is a distribution at this moment: `_bucket` holds how many are at or below `le`, `_gcount` how many
there are, `_gsum` their sum; use `histogram_quantile` on it without `rate`. The process itself is in
`process_resident_memory_bytes`, `process_cpu_seconds_total` and the other usual ones.
"""


def metrics() -> str:
    """Every metric, as the registry has it."""
    rows = [
        (
            f"`{each.name}`",
            each.type,
            ", ".join(f"`{label}`" for label in each.labels),
            "the leader" if each.leader else "all replicas",
            each.meaning,
        )
        for each in Metrics().described()
    ]
    found = table(("name", "type", "labels", "shown by", "meaning"), rows)
    return "\n".join(["# Metrics\n", _METRICS, _SHOWN, found, _BOUNDED])
