"""The numbers that Prometheus reads, in a registry of our own: one instance a controller.

`app` hands its methods to whoever has something to count; nobody else knows of Prometheus. Labels are bounded: routes,
status codes and outcomes are few.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from rescheduler import __version__

CONTENT_TYPE = CONTENT_TYPE_LATEST
_QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds


class Metrics:
    """All that is counted."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._recoveries = Counter(
            "rescheduler_recoveries",
            "What was done about failed pods, and how it went on.",
            ["outcome"],
            registry=self._registry,
        )
        self._requests = Counter(
            "rescheduler_admission_requests",
            "Requests of API servers and schedulers, by path and HTTP status.",
            ["path", "code"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "rescheduler_admission_request_duration_seconds",
            "How long an answer to them took, from the whole request to the whole answer.",
            ["path"],
            buckets=_QUICK,
            registry=self._registry,
        )
        self._in_force: Gauge | None = None
        build = Gauge("rescheduler_build_info", "Always 1.", ["version"], registry=self._registry)
        build.labels(__version__).set(1)

    def recovered(self, outcome: str) -> None:
        """Count what became of a failed pod or its workload."""
        self._recoveries.labels(outcome).inc()

    def answered(self, path: str, code: int, seconds: float) -> None:
        """Count a request to the webhook or the extender."""
        self._requests.labels(path, str(code)).inc()
        self._seconds.labels(path).observe(seconds)

    def webhook_in_force(self, *, yes: bool) -> None:
        """Tell whether the webhook is asked; of replicas that have not tried it nothing is told."""
        if self._in_force is None:
            told = "Whether the API server asks our webhook, as the leader has tried it: 1 or 0."
            self._in_force = Gauge("rescheduler_webhook_in_force", told, registry=self._registry)
        self._in_force.set(1 if yes else 0)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)
