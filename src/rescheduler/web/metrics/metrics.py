"""All metrics: what is counted as it happens, and what is read from its source at every scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from rescheduler import __version__
from rescheduler.config.live import LiveConfig
from rescheduler.model.migration import Phase
from rescheduler.recovery.decision import RecoveryOutcome
from rescheduler.runtime.config_watcher import ReloadResult
from rescheduler.runtime.informers import InformerStatus
from rescheduler.runtime.usage_poller import UsagePoller
from rescheduler.web.metrics.catalogue import FixedLabel, Labels, MetricCatalogue, MetricDescription
from rescheduler.web.metrics.moves import MigrationMetrics, OutcomeMetrics
from rescheduler.web.metrics.plans import MeasuredUtilisation, PlanMetrics, UtilisationMetrics
from rescheduler.web.node_stats import NodeStats


@dataclass(frozen=True, slots=True)
class MetricSources:
    """Where gauges read the current state. None of these calls may block: they run on the event loop."""

    lease: str = ""
    """The name of the lease; empty until the election is set up."""
    leading: Callable[[], bool] = lambda: True
    fresh: Callable[[], bool] = lambda: True
    """Whether what is known of the cluster is up to date."""
    kinds: Callable[[], Iterable[InformerStatus]] = lambda: ()
    stats: Callable[[], NodeStats] | None = None
    """The node statistics of the page; without them, those of the newest plan are shown."""
    migrations: Callable[[Phase], int] | None = None
    awaiting: Callable[[], int] | None = None
    """The number of migrations that need approval."""
    resting: Callable[[], int] | None = None
    """The number of workloads in cool-down because moving them did not pay."""
    paused: Callable[[], bool | None] | None = None
    """None while it is unknown."""
    window_open: Callable[[], bool] | None = None
    """Whether moves by choice may begin, as far as time windows go."""
    viewers: Callable[[], int] | None = None
    """The number of open pages."""
    metering: Callable[[], UsagePoller | None] = lambda: None
    """The usage poller; None without a source of usage."""
    live_config: Callable[[], LiveConfig] | None = None
    """The configuration in force."""


Values = Iterator[tuple[Labels, float]]


class ConfigMetrics:
    """What is counted when the file is re-read, and what is read of the live configuration at every scrape."""

    def __init__(self, catalogue: MetricCatalogue, sources: Callable[[], MetricSources]) -> None:
        self._sources = sources
        self._reloads = catalogue.counter(
            "rescheduler_config_reloads_total",
            "Times that the configuration's file had changed and was re-read, by what became of it.",
            ("result",),
        )
        for result in ReloadResult:
            self._reloads.labels(result.value)
        successful = "Whether the configuration's file as it is now is in force: 1, or 0 if it was refused."
        catalogue.gauge("rescheduler_config_last_reload_successful", successful, (), self._successful)
        since = "When the configuration was last read and found sound, in seconds since 1970."
        catalogue.gauge("rescheduler_config_last_reload_success_timestamp_seconds", since, (), self._since)
        info = "Always 1; which configuration is in force: replicas that go by the same have the same hash."
        catalogue.gauge("rescheduler_config_info", info, ("hash",), self._info)
        waiting = "Always 1; a field that has another value in the file, which waits for a restart."
        catalogue.gauge("rescheduler_config_awaits_restart", waiting, ("field",), self._waiting)

    def count_reload(self, result: ReloadResult) -> None:
        """Count a re-read of the file."""
        self._reloads.labels(result.value).inc()

    def _successful(self) -> Values:
        yield from (((), live_config.rejected is None) for live_config in self._live())

    def _since(self) -> Values:
        yield from (((), live_config.since) for live_config in self._live())

    def _info(self) -> Values:
        yield from (((live_config.digest,), 1) for live_config in self._live())

    def _waiting(self) -> Values:
        # Fields of a few sections, which are known: so there are never many.
        yield from (((field,), 1) for live_config in self._live() for field in live_config.awaiting_restart)

    def _live(self) -> Iterator[LiveConfig]:
        if (live_config := self._sources().live_config) is not None:
            yield live_config()


_QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds
_NO_ANSWER = "<error>"  # as client-go says it


class RequestMetrics:
    """Requests to the API server, and of API servers and schedulers to us."""

    def __init__(self, catalogue: MetricCatalogue) -> None:
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

    def reporter(self, server: str) -> Callable[[str, int | str, float | None], None]:
        """Get the function that a client of this server reports its requests to."""
        host = urlsplit(server).netloc.rpartition("@")[2]

        def report(method: str, outcome: int | str, seconds: float | None) -> None:
            code = str(outcome) if isinstance(outcome, int) else _NO_ANSWER
            self._sent.labels(code, method, host).inc()
            if seconds is not None:
                self._took.labels(method, host).observe(seconds)

        return report

    def observe_answer(self, path: str, code: int, seconds: float) -> None:
        """Count a request to the webhook or the extender."""
        self._received.labels(path, str(code)).inc()
        self._answered.labels(path).observe(seconds)


class UsageMetrics:
    """The source of usage."""

    def __init__(self, catalogue: MetricCatalogue, sources: Callable[[], MetricSources]) -> None:
        self._sources = sources
        by = "Always 1; the basis of node utilization: requests, usage or max."
        catalogue.gauge("rescheduler_utilization_info", by, ("utilization",), self._by)
        up = "Whether the source of usage answered when it was last asked: 1 or 0."
        catalogue.gauge("rescheduler_usage_up", up, (), self._up)
        last = "When the source of usage last answered (Unix time)."
        catalogue.gauge("rescheduler_usage_last_success_timestamp_seconds", last, (), self._last)
        samples = "Nodes and pods with measured usage."
        catalogue.gauge("rescheduler_usage_samples", samples, (), self._samples)
        errors = "Failed requests to the source of usage."
        catalogue.tally("rescheduler_usage_errors_total", errors, self._errors)

    def _by(self) -> Values:
        if (live_config := self._sources().live_config) is not None:
            yield (live_config().policy().utilization.value,), 1

    def _up(self) -> Values:
        yield from (((), not metering.failure) for metering in self._metering() if metering.polled.is_set())

    def _last(self) -> Values:
        yield from (((), metering.last) for metering in self._metering() if metering.last is not None)

    def _samples(self) -> Values:
        yield from (((), metering.known) for metering in self._metering())

    def _errors(self) -> Values:
        yield from (((), metering.failures) for metering in self._metering())

    def _metering(self) -> Iterator[UsagePoller]:
        if (metering := self._sources().metering()) is not None:
            yield metering


class ReplicaMetrics:
    """This replica: election, caches, pause, webhook."""

    def __init__(self, catalogue: MetricCatalogue, sources: Callable[[], MetricSources]) -> None:
        self._sources = sources
        self._in_force: bool | None = None
        build = "Always 1; which version this is."
        catalogue.gauge("rescheduler_build_info", build, ("version",), lambda: [((__version__,), 1)])
        leads = "Whether this replica leads: 1 or 0."
        catalogue.gauge("leader_election_master_status", leads, ("name",), self._leads)
        catalogue.gauge("rescheduler_cache_objects", "Objects that are known, by kind.", ("kind",), self._objects)
        lag = "Seconds since the last sign of a kind's watch; an idle watch gets one about every minute."
        catalogue.gauge("rescheduler_cache_lag_seconds", lag, ("kind",), self._lags)
        up = "Whether what is known of a kind is up to date: 1, or 0 while it is read for the first time or fails."
        catalogue.gauge("rescheduler_cache_up", up, ("kind",), self._up)
        viewers = "Open pages that get live changes."
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

    def set_webhook_in_force(self, *, yes: bool) -> None:
        """Set whether the webhook is called; replicas that have not probed it show nothing."""
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


class Metrics:
    """All metrics, in a registry of their own. Its parts count what happens; `use_sources` sets what is read."""

    def __init__(self) -> None:
        self._sources = MetricSources()
        self._catalogue = MetricCatalogue(lambda: bool(self._sources.leading()), lambda: bool(self._sources.fresh()))
        self.replica = ReplicaMetrics(self._catalogue, lambda: self._sources)
        UtilisationMetrics(self._catalogue, self._utilisation)
        UsageMetrics(self._catalogue, lambda: self._sources)
        self.config = ConfigMetrics(self._catalogue, lambda: self._sources)
        self.plans = PlanMetrics(self._catalogue)
        self.moves = MigrationMetrics(self._catalogue)
        self.outcomes = OutcomeMetrics(self._catalogue)
        self._known_recoveries = FixedLabel(RecoveryOutcome)
        self._recoveries = self._catalogue.counter(
            "rescheduler_recoveries_total", "What was done about failed pods, and how it went on.", ("outcome",)
        )
        for outcome in RecoveryOutcome:
            self._recoveries.labels(outcome)
        self.requests = RequestMetrics(self._catalogue)

    def use_sources(self, sources: MetricSources) -> None:
        """Read these at every scrape from now on."""
        self._sources = sources

    def count_recovery(self, outcome: str) -> None:
        """Count what became of a failed pod or its workload."""
        self._recoveries.labels(self._known_recoveries.value(outcome)).inc()

    def described(self) -> tuple[MetricDescription, ...]:
        """List every metric of ours, in the order in which they are shown."""
        return tuple(self._catalogue.described)

    def text(self) -> bytes:
        """Write all metrics in the Prometheus text format."""
        return self._catalogue.text()

    def _utilisation(self) -> MeasuredUtilisation | None:
        stats = self._sources.stats
        return MeasuredUtilisation.of_stats(stats()) if stats is not None else self.plans.utilisation
