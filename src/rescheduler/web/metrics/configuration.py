"""Which configuration is in force, and what became of its file when it changed.

Every replica re-reads its own copy of the file, so each tells for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rescheduler.runtime.mandate import Mandate
from rescheduler.runtime.rereading import Reread
from rescheduler.web.metrics.catalogue import Catalogue, Labels
from rescheduler.web.metrics.sources import Sources

Values = Iterator[tuple[Labels, float]]


class Configurations:
    """What is counted when the file is re-read, and what the mandate tells at every scrape."""

    def __init__(self, catalogue: Catalogue, sources: Callable[[], Sources]) -> None:
        self._sources = sources
        self._reloads = catalogue.counter(
            "rescheduler_config_reloads_total",
            "Times that the configuration's file had changed and was re-read, by what became of it.",
            ("result",),
        )
        for result in Reread:
            self._reloads.labels(result.value)
        successful = "Whether the configuration's file as it is now is in force: 1, or 0 if it was refused."
        catalogue.gauge("rescheduler_config_last_reload_successful", successful, (), self._successful)
        since = "When the configuration was last read and found sound, in seconds since 1970."
        catalogue.gauge("rescheduler_config_last_reload_success_timestamp_seconds", since, (), self._since)
        info = "Always 1; which configuration is in force: replicas that go by the same have the same hash."
        catalogue.gauge("rescheduler_config_info", info, ("hash",), self._info)
        waiting = "Always 1; a field that has another value in the file, which waits for a restart."
        catalogue.gauge("rescheduler_config_awaits_restart", waiting, ("field",), self._waiting)

    def reread(self, result: Reread) -> None:
        """Count a file that has changed."""
        self._reloads.labels(result.value).inc()

    def _successful(self) -> Values:
        yield from (((), mandate.refusal is None) for mandate in self._mandate())

    def _since(self) -> Values:
        yield from (((), mandate.since) for mandate in self._mandate())

    def _info(self) -> Values:
        yield from (((mandate.digest,), 1) for mandate in self._mandate())

    def _waiting(self) -> Values:
        # Fields of a few sections, which are known: so there are never many.
        yield from (((field,), 1) for mandate in self._mandate() for field in mandate.waiting)

    def _mandate(self) -> Iterator[Mandate]:
        if (mandate := self._sources().mandate) is not None:
            yield mandate()
