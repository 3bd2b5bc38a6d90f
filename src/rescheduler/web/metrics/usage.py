"""Measured use: what use is reckoned by, and how it stands with whoever measures.

Every replica measures for itself, so each tells for itself. Where only requests count, nobody is asked, and nothing is
shown of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rescheduler.runtime.metering import Metering
from rescheduler.web.metrics.catalogue import Catalogue, Labels
from rescheduler.web.metrics.sources import Sources

Values = Iterator[tuple[Labels, float]]


class Usage:
    """The source of usage, as it stands at each scrape."""

    def __init__(self, catalogue: Catalogue, sources: Callable[[], Sources]) -> None:
        self._sources = sources
        by = "Always 1; what the use of nodes is to be reckoned by: requests, usage or max."
        catalogue.gauge("rescheduler_utilization_info", by, ("utilization",), self._by)
        up = "Whether the source of usage answered when it was last asked: 1 or 0."
        catalogue.gauge("rescheduler_usage_up", up, (), self._up)
        last = "When the source of usage last answered (Unix time)."
        catalogue.gauge("rescheduler_usage_last_success_timestamp_seconds", last, (), self._last)
        samples = "Nodes and pods of which it is known what they use."
        catalogue.gauge("rescheduler_usage_samples", samples, (), self._samples)
        errors = "Times that the source of usage was asked in vain."
        catalogue.tally("rescheduler_usage_errors_total", errors, self._errors)

    def _by(self) -> Values:
        if (mandate := self._sources().mandate) is not None:
            yield (mandate().policy().utilization.value,), 1

    def _up(self) -> Values:
        yield from (((), not metering.failure) for metering in self._metering() if metering.heard.is_set())

    def _last(self) -> Values:
        yield from (((), metering.last) for metering in self._metering() if metering.last is not None)

    def _samples(self) -> Values:
        yield from (((), metering.known) for metering in self._metering())

    def _errors(self) -> Values:
        yield from (((), metering.failures) for metering in self._metering())

    def _metering(self) -> Iterator[Metering]:
        if (metering := self._sources().metering()) is not None:
            yield metering
