"""What a replica says of itself: whether it leads, how well it knows the cluster, who looks at its page.

And what a leader says of the work under way. All of it is read from the `Sources` at every scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rescheduler import __version__
from rescheduler.model.migration import Phase
from rescheduler.web.metrics.catalogue import Catalogue, Labels
from rescheduler.web.metrics.sources import Sources

Values = Iterator[tuple[Labels, float]]


class Replica:
    """This replica, as its sources tell it."""

    def __init__(self, catalogue: Catalogue, sources: Callable[[], Sources]) -> None:
        self._sources = sources
        self._in_force: bool | None = None
        build = "Always 1; which version this is."
        catalogue.gauge("rescheduler_build_info", build, ("version",), lambda: [((__version__,), 1)])
        leads = "Whether this replica leads: 1 or 0."
        catalogue.gauge("leader_election_master_status", leads, ("name",), self._leads)
        catalogue.gauge("rescheduler_cache_objects", "Objects that are known, by kind.", ("kind",), self._objects)
        lag = (
            "Seconds since the last sign of a kind's watch; a server with nothing to tell gives one about every minute."
        )
        catalogue.gauge("rescheduler_cache_lag_seconds", lag, ("kind",), self._lags)
        up = "Whether what is known of a kind is up to date: 1, or 0 while it is read for the first time or fails."
        catalogue.gauge("rescheduler_cache_up", up, ("kind",), self._up)
        viewers = "Pages that are open and told of changes."
        catalogue.gauge("rescheduler_page_viewers", viewers, (), lambda: _number(sources().viewers))
        paused = "Whether rescheduling is paused: 1 or 0."
        catalogue.leaders_gauge("rescheduler_paused", paused, (), lambda: _number(sources().paused))
        window = "Whether a time window (when.windows) is open: 1 or 0; 1 where there are none."
        catalogue.leaders_gauge("rescheduler_window_open", window, (), lambda: _number(sources().window_open))
        phases = "PodMigrations that exist, by phase."
        catalogue.clusters_gauge("rescheduler_migrations", phases, ("phase",), self._phases)
        awaiting = "Migrations that wait for approval."
        catalogue.clusters_gauge(
            "rescheduler_migrations_awaiting_approval", awaiting, (), lambda: _number(sources().awaiting)
        )
        resting = "Workloads that rest, because moving them did not pay."
        catalogue.leaders_gauge("rescheduler_workloads_resting", resting, (), lambda: _number(sources().resting))
        force = "Whether the API server asks our webhook, as the leader has tried it: 1 or 0."
        catalogue.leaders_gauge("rescheduler_webhook_in_force", force, (), self._force)

    def webhook_in_force(self, *, yes: bool) -> None:
        """Tell whether the webhook is asked; of replicas that have not tried it nothing is told."""
        self._in_force = yes

    def _leads(self) -> Values:
        sources = self._sources()
        if sources.lease:
            yield (sources.lease,), sources.leading()

    def _objects(self) -> Values:
        yield from (((each.kind,), each.objects) for each in self._sources().kinds())

    def _lags(self) -> Values:
        yield from (((each.kind,), each.lag) for each in self._sources().kinds() if each.lag is not None)

    def _up(self) -> Values:
        yield from (((each.kind,), each.lag is not None and not each.failure) for each in self._sources().kinds())

    def _phases(self) -> Values:
        if (count := self._sources().migrations) is not None:
            yield from (((phase.value,), count(phase)) for phase in Phase)

    def _force(self) -> Values:
        if self._in_force is not None:
            yield (), self._in_force


def _number(read: Callable[[], int | None] | None) -> Values:
    if read is not None and (found := read()) is not None:
        yield (), found
