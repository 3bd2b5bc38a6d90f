"""Requests: ours to the API server, named as Kubernetes' own programs name them; and others' to webhook and extender.

Hosts, methods, statuses and paths are few: the admission server says "" for every path that it does not serve.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from rescheduler.web.metrics.catalogue import Catalogue

_QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds
_NO_ANSWER = "<error>"  # as client-go says it


class Requests:
    """What was asked, and how it was answered."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._sent = catalogue.counter(
            "rest_client_requests_total",
            f"Requests to the API server, by HTTP status; `{_NO_ANSWER}` where no whole answer came. Each try counts.",
            ("code", "method", "host"),
        )
        self._took = catalogue.histogram(
            "rest_client_request_duration_seconds",
            "How long the API server took for a whole answer; watches are left out.",
            ("verb", "host"),
        )
        self._received = catalogue.counter(
            "rescheduler_admission_requests_total",
            "Requests of API servers and schedulers, by path and HTTP status.",
            ("path", "code"),
        )
        self._answered = catalogue.histogram(
            "rescheduler_admission_request_duration_seconds",
            "How long an answer to them took, from the whole request to the whole answer.",
            ("path",),
            _QUICK,
        )

    def to(self, server: str) -> Callable[[str, int | str, float | None], None]:
        """Whom a client of this server reports to."""
        host = urlsplit(server).netloc.rpartition("@")[2]

        def report(method: str, outcome: int | str, seconds: float | None) -> None:
            code = str(outcome) if isinstance(outcome, int) else _NO_ANSWER
            self._sent.labels(code, method, host).inc()
            if seconds is not None:
                self._took.labels(method, host).observe(seconds)

        return report

    def answered(self, path: str, code: int, seconds: float) -> None:
        """Count a request to the webhook or the extender."""
        self._received.labels(path, str(code)).inc()
        self._answered.labels(path).observe(seconds)
