"""The numbers that Prometheus reads: `Metrics` counts, and reads its `MetricSources` at every scrape.

`app` connects its parts with what they count; no other package uses Prometheus. docs/metrics.md lists all of
them, and is made from `Metrics.described`. No source may block: they are read on the event loop.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import numpy as np
from prometheus_client import Histogram
from prometheus_client.context_managers import Timer

from rescheduler import __version__
from rescheduler.config.live import LiveConfig
from rescheduler.migration.commands import Command, Verb
from rescheduler.migration.lifecycle import ROLL_BACK, Lifecycle
from rescheduler.migration.observation import FailedCommand
from rescheduler.model.migration import MigrationStatus, OutcomeVerdict, Phase, PodMigration
from rescheduler.model.plan import ClusterLoad, Method, Plan
from rescheduler.model.strategy_traits import MANUAL
from rescheduler.planning import guards
from rescheduler.planning.columns import Floats
from rescheduler.recovery.decision import RecoveryOutcome
from rescheduler.runtime.config_watcher import ReloadResult
from rescheduler.runtime.informers import InformerStatus
from rescheduler.runtime.usage_poller import UsagePoller
from rescheduler.strategies import discover
from rescheduler.web.metric_catalogue import CappedLabel, FixedLabel, MetricCatalogue, MetricDescription, ShownBy
from rescheduler.web.node_stats import COUNT, NodeStats

STRATEGIES = FixedLabel((*discover(), MANUAL))
_NO_METHOD = "none"  # of migrations that ended before a method was chosen
_METHODS = tuple(method.value for method in Method)
_lifecycle = Lifecycle()
_STEPS = FixedLabel((*dict.fromkeys(name for method in Method for name in _lifecycle.steps(method)), ROLL_BACK))
_RECOVERIES = FixedLabel(RecoveryOutcome)
_VERDICTS = FixedLabel(OutcomeVerdict)
Sample = tuple[tuple[str, ...], float]
"""The values of the labels, and the number."""


def _name_method(method: Method | None) -> str:
    return method.value if method is not None else _NO_METHOD


@dataclass(frozen=True, slots=True)
class MetricSources:
    """Where gauges read the current state."""

    lease: str = ""
    """The name of the lease; empty until the election is set up."""
    leading: Callable[[], bool] = lambda: True
    fresh: Callable[[], bool] = lambda: True
    """Whether what is known of the cluster is up to date."""
    kinds: Callable[[], Iterable[InformerStatus]] = lambda: ()
    stats: Callable[[], NodeStats | None] = lambda: None
    """The node statistics of the page; without them, those of the newest plan are shown."""
    migrations: Callable[[Phase], int | None] = lambda phase: None
    awaiting: Callable[[], int | None] = lambda: None
    """The number of migrations that need approval."""
    resting: Callable[[], int | None] = lambda: None
    """The number of workloads in cool-down because moving them did not pay."""
    paused: Callable[[], bool | None] = lambda: None
    """None while it is unknown."""
    window_open: Callable[[], bool | None] = lambda: None
    """Whether moves by choice may begin, as far as time windows go."""
    viewers: Callable[[], int | None] = lambda: None
    """The number of open pages."""
    metering: Callable[[], UsagePoller | None] = lambda: None
    """The usage poller; None without a source of usage."""
    live_config: Callable[[], LiveConfig | None] = lambda: None
    """The configuration in force."""


class Metrics:
    """All metrics, in a registry of their own. Its parts count what happens; `use_sources` sets what is read."""

    def __init__(self) -> None:
        self._sources = MetricSources()
        self._catalogue = catalogue = MetricCatalogue(self._is_shown)
        self.webhook_in_force: bool | None = None
        """Whether the webhook is called; None on replicas that have not probed it."""
        self._add_replica()
        self._add_utilisation()
        self._add_usage()
        self._reloads = catalogue.counter(
            "rescheduler_config_reloads_total",
            "Times that the configuration's file had changed and was re-read, by what became of it.",
            {"result": ReloadResult},
        )
        self._add_config()
        self.plans = PlanMetrics(catalogue)
        self.moves = MigrationMetrics(catalogue)
        self.outcomes = OutcomeMetrics(catalogue)
        self._recoveries = catalogue.counter(
            "rescheduler_recoveries_total",
            "What was done about failed pods, and how it went on.",
            {"outcome": RecoveryOutcome},
        )
        self.requests = RequestMetrics(catalogue)

    def use_sources(self, sources: MetricSources) -> None:
        """Read these at every scrape from now on."""
        self._sources = sources

    def count_recovery(self, outcome: str) -> None:
        """Count what became of a failed pod or its workload."""
        self._recoveries.labels(_RECOVERIES.value(outcome)).inc()

    def count_reload(self, result: ReloadResult) -> None:
        """Count a re-read of the configuration file."""
        self._reloads.labels(result).inc()

    def described(self) -> tuple[MetricDescription, ...]:
        """List every metric of ours, in the order in which they are shown."""
        return tuple(self._catalogue.described)

    def text(self) -> bytes:
        """Write all metrics in the Prometheus text format."""
        return self._catalogue.text()

    def _is_shown(self, by: ShownBy) -> bool:
        if by is ShownBy.EVERY_REPLICA:
            return True
        return self._sources.leading() and (by is ShownBy.LEADER or self._sources.fresh())

    def _utilisation(self) -> MeasuredUtilisation:
        """The utilisation as the page has it, or without a page as the newest plan found it."""
        stats = self._sources.stats()
        return MeasuredUtilisation.of_stats(stats) if stats is not None else self.plans.utilisation

    def _add_replica(self) -> None:
        """Add what is known about this replica: election, caches, pause, webhook."""
        gauge, kind = self._catalogue.gauge, ("kind",)
        build = "Always 1; which version this is."
        gauge("rescheduler_build_info", build, ("version",), lambda: [((__version__,), 1)])
        leads = "Whether this replica leads: 1 or 0."
        gauge("leader_election_master_status", leads, ("name",), self._read_leading)
        objects = "Objects that are known, by kind."
        gauge("rescheduler_cache_objects", objects, kind, lambda: self._by_kind(lambda each: each.objects))
        lag = "Seconds since the last sign of a kind's watch; an idle watch gets one about every minute."
        gauge("rescheduler_cache_lag_seconds", lag, kind, lambda: self._by_kind(lambda each: each.lag))
        up = "Whether what is known of a kind is up to date: 1, or 0 while it is read for the first time or fails."
        gauge("rescheduler_cache_up", up, kind, lambda: self._by_kind(_is_up))
        viewers = "Open pages that get live changes."
        gauge("rescheduler_page_viewers", viewers, (), lambda: _sample(self._sources.viewers()))
        paused = "Whether rescheduling is paused: 1 or 0."
        gauge("rescheduler_paused", paused, (), lambda: _sample(self._sources.paused()), ShownBy.LEADER)
        window = "Whether a time window (when.windows) is open: 1 or 0; 1 where there are none."
        gauge("rescheduler_window_open", window, (), lambda: _sample(self._sources.window_open()), ShownBy.LEADER)
        phases = "PodMigrations that exist, by phase."
        gauge("rescheduler_migrations", phases, ("phase",), self._by_phase, ShownBy.SYNCED_LEADER)
        gauge(
            "rescheduler_migrations_awaiting_approval",
            "Migrations that wait for approval.",
            (),
            lambda: _sample(self._sources.awaiting()),
            ShownBy.SYNCED_LEADER,
        )
        resting = "Workloads that rest, because moving them did not pay."
        gauge("rescheduler_workloads_resting", resting, (), lambda: _sample(self._sources.resting()), ShownBy.LEADER)
        force = "Whether the API server asks our webhook, as the leader has tried it: 1 or 0."
        gauge("rescheduler_webhook_in_force", force, (), lambda: _sample(self.webhook_in_force), ShownBy.LEADER)

    def _read_leading(self) -> list[Sample]:
        return [((self._sources.lease,), self._sources.leading())] if self._sources.lease else []

    def _by_kind(self, read: Callable[[InformerStatus], float | None]) -> list[Sample]:
        return [((each.kind,), found) for each in self._sources.kinds() if (found := read(each)) is not None]

    def _by_phase(self) -> list[Sample]:
        counts = ((phase.value, self._sources.migrations(phase)) for phase in Phase)
        return [((phase,), count) for phase, count in counts if count is not None]

    def _add_utilisation(self) -> None:
        """Add node utilisation."""
        gauge, by = self._catalogue.gauge, ShownBy.SYNCED_LEADER
        about = "How many nodes are used up to which share of what they have."
        name = "rescheduler_node_utilisation_ratio"
        self._catalogue.read(MetricDescription(name, "gauge histogram", ("resource",), about, by), self._distribution)
        for what, (meaning, compute) in _STATISTICS.items():
            name = f"rescheduler_node_utilisation_{what}_ratio"
            gauge(name, meaning, ("resource",), partial(self._by_resource, compute), by)
        hot = "Nodes above a threshold of theirs."
        gauge("rescheduler_hot_nodes", hot, (), lambda: _sample(self._utilisation().hot), by)
        of_pool = "The same of each node pool of the configuration."
        gauge("rescheduler_pool_hot_nodes", of_pool, ("pool",), self._by_pool, by)
        known = "Nodes that take part: all but the control plane's."
        gauge("rescheduler_nodes", known, (), lambda: _sample(self._utilisation().nodes), by)

    def _distribution(self) -> Iterator[tuple[Any, ...]]:
        bounds = ["+Inf" if bound == np.inf else str(bound) for bound in _BOUNDS.tolist()]
        for resource, shares in self._utilisation().shares.items():
            counts = np.bincount(np.searchsorted(_BOUNDS, shares), minlength=len(bounds)).cumsum().astype(float)
            yield (resource,), list(zip(bounds, counts.tolist(), strict=True)), float(shares.sum())

    def _by_resource(self, compute: Callable[[Floats], float]) -> list[Sample]:
        shares = self._utilisation().shares.items()
        return [((resource,), float(compute(of_nodes))) for resource, of_nodes in shares if len(of_nodes)]

    def _by_pool(self) -> list[Sample]:
        return [((pool,), hot) for pool, hot in self._utilisation().pools.items()]

    def _add_usage(self) -> None:
        """Add the source of usage."""

        def read(compute: Callable[[UsagePoller], float | None]) -> Callable[[], list[Sample]]:
            return lambda: _sample(compute(poller) if (poller := self._sources.metering()) is not None else None)

        gauge = self._catalogue.gauge
        by = "Always 1; the basis of node utilization: requests, usage or max."
        basis = self._read_config(lambda live_config: [((live_config.policy().utilization.value,), 1)])
        gauge("rescheduler_utilization_info", by, ("utilization",), basis)
        up = "Whether the source of usage answered when it was last asked: 1 or 0."
        is_up = read(lambda poller: not poller.failure if poller.polled.is_set() else None)
        gauge("rescheduler_usage_up", up, (), is_up)
        last = "When the source of usage last answered (Unix time)."
        gauge("rescheduler_usage_last_success_timestamp_seconds", last, (), read(lambda poller: poller.last))
        samples = "Nodes and pods with measured usage."
        gauge("rescheduler_usage_samples", samples, (), read(lambda poller: poller.known))
        name, errors = "rescheduler_usage_errors_total", "Failed requests to the source of usage."
        self._catalogue.read(MetricDescription(name, "counter", (), errors), read(lambda poller: poller.failures))

    def _add_config(self) -> None:
        """Add the live configuration."""
        gauge, read = self._catalogue.gauge, self._read_config
        successful = "Whether the configuration's file as it is now is in force: 1, or 0 if it was refused."
        is_successful = read(lambda live_config: [((), live_config.rejected is None)])
        gauge("rescheduler_config_last_reload_successful", successful, (), is_successful)
        name = "rescheduler_config_last_reload_success_timestamp_seconds"
        since = "When the configuration was last read and found sound, in seconds since 1970."
        gauge(name, since, (), read(lambda live_config: [((), live_config.since)]))
        info = "Always 1; which configuration is in force: replicas that go by the same have the same hash."
        gauge("rescheduler_config_info", info, ("hash",), read(lambda live_config: [((live_config.digest,), 1)]))
        waiting = "Always 1; a field that has another value in the file, which waits for a restart."
        # Fields of a few sections, which are known: so there are never many.
        fields = read(lambda live_config: [((field,), 1) for field in live_config.awaiting_restart])
        gauge("rescheduler_config_awaits_restart", waiting, ("field",), fields)

    def _read_config(self, read: Callable[[LiveConfig], list[Sample]]) -> Callable[[], list[Sample]]:
        return lambda: read(live_config) if (live_config := self._sources.live_config()) is not None else []


def _sample(value: float | None) -> list[Sample]:
    """The sample of a metric without labels; none while its value is unknown."""
    return [((), value)] if value is not None else []


def _is_up(status: InformerStatus) -> bool:
    return status.lag is not None and not status.failure


_BOUNDS: Floats = np.array([*(share / 20 for share in range(1, 21)), 1.5, np.inf])
_STATISTICS: Mapping[str, tuple[str, Callable[[Floats], float]]] = {
    "max": ("The utilisation of the most used node.", np.max),
    "min": ("The utilisation of the least used node.", np.min),
    "mean": ("The mean utilisation of nodes.", np.mean),
    "stddev": ("The standard deviation of the utilisation of nodes.", np.std),
    "spread": ("The gap between the most and the least used node.", np.ptp),
}


@dataclass(frozen=True, slots=True)
class MeasuredUtilisation:
    """The share of allocatable that worker nodes use, by resource, over the nodes that have it: 1 is full.

    Resources and pools come from the configuration, so there are never many.
    """

    shares: Mapping[str, Floats] = field(default_factory=dict)
    nodes: int | None = None
    """None before the first plan."""
    hot: int | None = None
    pools: Mapping[str, int] = field(default_factory=dict)
    """Hot nodes of each pool."""

    @classmethod
    def of_picture(cls, picture: ClusterLoad) -> MeasuredUtilisation:
        """From a plan, which has pods only where they count."""
        percent = np.array([(load.cpu, load.memory) for load in picture.loads], np.float64).reshape(-1, 2)
        shares = {"cpu": percent[:, 0] / 100, "memory": percent[:, 1] / 100}
        for at, name in enumerate(picture.others):
            found = [share for load in picture.loads if (share := load.others[at]) is not None]
            shares[name] = np.array(found, np.float64) / 100
        return cls(shares, len(picture.loads), picture.hot_nodes, picture.hot_nodes_by_pool)

    @classmethod
    def of_stats(cls, stats: NodeStats) -> MeasuredUtilisation:
        """From the page's statistics."""
        table, load = stats.table, stats.load
        shares = {
            name: stats.percent[row, table.workers & (table.capacity[row] > 0) if row > COUNT else table.workers] / 100
            for row, name in enumerate(table.rules.resources)
        }
        return cls(shares, int(table.workers.sum()), load.hot_nodes, load.hot_nodes_by_pool)


CyclePhase = Literal["snapshot", "plan", "order"]
"""A part of a cycle."""
CYCLE_PHASES: tuple[CyclePhase, ...] = get_args(CyclePhase)
_MOST_GUARDS = 60
_CYCLE_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class PlanMetrics:
    """Plans of this process."""

    def __init__(self, catalogue: MetricCatalogue) -> None:
        self._guards = CappedLabel(guards.discover(), _MOST_GUARDS)
        self._newest: tuple[Plan, float] | None = None
        self.utilisation = MeasuredUtilisation()
        """The utilisation when the newest plan was made."""
        self._moves = catalogue.counter(
            "rescheduler_moves_planned_total",
            "Moves in plans; what is not ordered, such as while it is paused, is planned and counted again.",
            {"strategy": STRATEGIES.values, "method": _METHODS},
        )
        self._rejections = catalogue.counter(
            "rescheduler_rejections_total",
            "Pods that a strategy proposed and a guard refused, once for each plan that says so.",
            {"guard": guards.discover()},
        )
        self._seconds = catalogue.histogram(
            "rescheduler_cycle_duration_seconds",
            f"How long each part of a planning cycle took: {', '.join(CYCLE_PHASES)}.",
            ("phase",),
            _CYCLE_SECONDS,
        )
        for phase in CYCLE_PHASES:
            self._seconds.labels(phase)
        moves, by = "Moves in the newest plan, by strategy.", ShownBy.LEADER
        catalogue.gauge("rescheduler_plan_moves", moves, ("strategy",), self._count_moves, by)
        rejections = "Rejections in the newest plan, by guard."
        catalogue.gauge("rescheduler_plan_rejections", rejections, ("guard",), self._count_rejections, by)
        made = "When the newest plan was made (Unix time)."
        catalogue.gauge("rescheduler_last_plan_timestamp_seconds", made, (), self._read_time, by)

    def observe(self, plan: Plan) -> None:
        """Count a plan, and show it from now on."""
        self._newest = (plan, time.time())
        self.utilisation = MeasuredUtilisation.of_picture(plan.before)
        for move in plan.moves:
            self._moves.labels(STRATEGIES.value(move.strategy), _name_method(move.method)).inc()
        for guard, count in Counter(each.guard for each in plan.rejections).items():
            self._rejections.labels(self._guards.value(guard)).inc(count)

    def phase(self, name: CyclePhase) -> Timer:
        """Time a part of a cycle, also one that ends with an error: a block, or a function, in any thread."""
        return self._seconds.labels(name).time()

    def _count_moves(self) -> list[Sample]:
        if self._newest is None:
            return []
        moves = Counter(STRATEGIES.value(move.strategy) for move in self._newest[0].moves)
        return [((strategy,), moves[strategy]) for strategy in STRATEGIES.values]

    def _count_rejections(self) -> list[Sample]:
        if self._newest is None:
            return []
        found = Counter(self._guards.value(each.guard) for each in self._newest[0].rejections)
        return [((guard,), count) for guard, count in sorted(found.items())]

    def _read_time(self) -> list[Sample]:
        return _sample(self._newest[1] if self._newest is not None else None)


_LONG = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)
_BUDGET, _TWO_BUDGETS, _BUSY, _OTHER = REFUSALS = ("DisruptionBudget", "TwoDisruptionBudgets", "Busy", "Other")
_MOST_GAIN = 1000.0  # points; predictions come from PodMigrations, and absurd ones must not count


class MigrationMetrics:
    """The moves that this process carried out."""

    def __init__(self, catalogue: MetricCatalogue) -> None:
        by = {"strategy": STRATEGIES.values, "method": _METHODS}
        self._landed = catalogue.counter("rescheduler_moves_landed_total", "Moves whose migration completed.", by)
        self._failed = catalogue.counter(
            "rescheduler_moves_failed_total",
            f"Moves whose migration failed for good; method {_NO_METHOD}: before one was chosen.",
            {**by, "method": (*_METHODS, _NO_METHOD)},
        )
        self._retried = catalogue.counter(
            "rescheduler_moves_retried_total", "Moves that were rolled back, to be tried again.", by
        )
        self._whole = catalogue.histogram(
            "rescheduler_migration_duration_seconds",
            "How long a migration took from its last beginning to its end.",
            ("method", "outcome"),
            _LONG,
        )
        self._step = catalogue.histogram(
            "rescheduler_migration_step_duration_seconds",
            "How long a migration was in a step. Steps that are passed at once are not stored, and not counted.",
            ("step", "method"),
            _LONG,
        )
        self._waited = catalogue.histogram(
            "rescheduler_migration_wait_duration_seconds",
            "How long a migration waited from its order to its first beginning.",
            (),
            _LONG,
        )
        self._refusals = catalogue.counter(
            "rescheduler_evictions_refused_total",
            "Evictions that the API server refused: by a disruption budget, because there are two, when it was busy.",
            {"reason": REFUSALS},
        )

    def observe(self, before: PodMigration, after: PodMigration) -> None:
        """Count what changed in a migration."""
        was, now = before.status, after.status
        by = (STRATEGIES.value(after.spec.strategy), _name_method(now.method))
        if was.step and was.step != now.step:
            _observe(self._step.labels(_STEPS.value(was.step), _name_method(was.method)), was.step_time, _left(now))
        if was.phase is now.phase:
            return
        if now.phase is Phase.IN_PROGRESS and now.attempts == 1:
            _observe(self._waited, after.metadata.creation_timestamp, now.start_time)
        elif now.phase is Phase.PENDING and was.phase is Phase.IN_PROGRESS:
            self._retried.labels(*by).inc()
        elif now.over:
            landed = now.phase is Phase.COMPLETED
            (self._landed if landed else self._failed).labels(*by).inc()
            if was.phase is Phase.IN_PROGRESS:
                _observe(
                    self._whole.labels(by[1], "landed" if landed else "failed"), now.start_time, now.completion_time
                )

    def count_refusal(self, command: Command, refused: FailedCommand) -> None:
        """Count an eviction that was refused; other commands are not counted."""
        if command.verb is Verb.EVICT:
            self._refusals.labels(_why(refused)).inc()


def _left(now: MigrationStatus) -> float | None:
    """When the step before ended. After a rollback for another try this is not recorded."""
    return now.step_time if now.step else now.completion_time


def _observe(histogram: Histogram, begun: float | None, ended: float | None) -> None:
    """Observe a duration, unless the times are implausible: a status is free text."""
    if begun is not None and ended is not None and math.isfinite(ended - begun) and ended >= begun:
        histogram.observe(ended - begun)


def _why(refused: FailedCommand) -> str:
    """Classify a refusal by its message: the API server has no reason for these."""
    if "more than one PodDisruptionBudget" in refused.message:
        return _TWO_BUDGETS
    if refused.code != 429:
        return _OTHER
    return _BUDGET if "disruption budget" in refused.message else _BUSY


class OutcomeMetrics:
    """The outcomes of finished moves."""

    def __init__(self, catalogue: MetricCatalogue) -> None:
        self._assessed = catalogue.counter(
            "rescheduler_moves_assessed_total",
            "Finished moves that were judged, by verdict; one that comes back later is judged again.",
            {"strategy": STRATEGIES.values, "verdict": _VERDICTS.values},
        )
        # What came true may be a loss. A counter must not fall, or Prometheus takes it for a restart: so there are two.
        self._predicted = catalogue.counter(
            "rescheduler_gain_predicted_total",
            "The gain that was predicted of moves, in percentage points, where what came true is known, too.",
            {"strategy": STRATEGIES.values},
        )
        self._realised = catalogue.counter(
            "rescheduler_gain_realised_total",
            "The gain of these moves that came true, in percentage points.",
            {"strategy": STRATEGIES.values},
        )
        self._lost = catalogue.counter(
            "rescheduler_gain_lost_total",
            "What these moves made worse, in percentage points: gains below 0.",
            {"strategy": STRATEGIES.values},
        )

    def observe(self, strategy: str, predicted: float | None, realised: float | None, verdict: str) -> None:
        """Count a move that was judged."""
        strategy = STRATEGIES.value(strategy)
        self._assessed.labels(strategy, _VERDICTS.value(verdict)).inc()
        if predicted is None or realised is None:
            return  # only together can they be compared
        # Else it was not made for its gain, because a node was to be emptied; or one of its nodes has nothing to give.
        if 0 < predicted <= _MOST_GAIN and abs(realised) <= _MOST_GAIN:
            self._predicted.labels(strategy).inc(predicted)
            self._realised.labels(strategy).inc(max(realised, 0.0))
            self._lost.labels(strategy).inc(max(-realised, 0.0))


_QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds
_NO_ANSWER = "<error>"  # as client-go says it


class RequestMetrics:
    """Requests to the API server, and of API servers and schedulers to us."""

    def __init__(self, catalogue: MetricCatalogue) -> None:
        self._sent = catalogue.counter(
            "rest_client_requests_total",
            f"Requests to the API server, by HTTP status; `{_NO_ANSWER}` where no whole answer came. Each try counts.",
            {"code": (), "method": (), "host": ()},
        )
        self._took = catalogue.histogram(
            "rest_client_request_duration_seconds",
            "How long the API server took for a whole answer; watches are left out.",
            ("verb", "host"),
        )
        self._received = catalogue.counter(
            "rescheduler_admission_requests_total",
            "Requests of API servers and schedulers, by path and HTTP status.",
            {"path": (), "code": ()},
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
