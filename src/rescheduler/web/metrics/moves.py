"""Metrics of moves and their outcomes: results, durations of steps, refused evictions, predicted and realised gain.

Every change of a PodMigration's status is reported as it is stored. Times are those of the status.
"""

from __future__ import annotations

import math

from prometheus_client import Histogram

from rescheduler.migration.commands import Command, Verb
from rescheduler.migration.observation import FailedCommand
from rescheduler.model.migration import MigrationStatus, OutcomeVerdict, Phase, PodMigration
from rescheduler.web.metrics.catalogue import (
    METHODS,
    NO_METHOD,
    FixedLabel,
    MetricCatalogue,
    method_value,
    steps,
    strategies,
)

_LONG = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)
_BUDGET, _TWO_BUDGETS, _BUSY, _OTHER = REFUSALS = ("DisruptionBudget", "TwoDisruptionBudgets", "Busy", "Other")
_MOST_GAIN = 1000.0  # points; predictions come from PodMigrations, and absurd ones must not count


class MigrationMetrics:
    """The moves that this process carried out."""

    def __init__(self, catalogue: MetricCatalogue) -> None:
        self._strategies = strategies()
        by = ("strategy", "method")
        self._landed = catalogue.counter("rescheduler_moves_landed_total", "Moves whose migration completed.", by)
        self._failed = catalogue.counter(
            "rescheduler_moves_failed_total",
            f"Moves whose migration failed for good; method {NO_METHOD}: before one was chosen.",
            by,
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
            ("reason",),
        )
        for strategy in self._strategies.values:
            for method in METHODS:
                for counter in (self._landed, self._failed, self._retried):
                    counter.labels(strategy, method)
            self._failed.labels(strategy, NO_METHOD)
        for reason in REFUSALS:
            self._refusals.labels(reason)

    def observe(self, before: PodMigration, after: PodMigration) -> None:
        """Count what changed in a migration."""
        was, now = before.status, after.status
        by = (self._strategies.value(after.spec.strategy), method_value(now.method))
        if was.step and was.step != now.step:
            _observe(self._step.labels(steps().value(was.step), method_value(was.method)), was.step_time, _left(now))
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
        self._strategies = strategies()
        self._verdicts = FixedLabel(OutcomeVerdict)
        self._assessed = catalogue.counter(
            "rescheduler_moves_assessed_total",
            "Finished moves that were judged, by verdict; one that comes back later is judged again.",
            ("strategy", "verdict"),
        )
        # What came true may be a loss. A counter must not fall, or Prometheus takes it for a restart: so there are two.
        self._predicted = catalogue.counter(
            "rescheduler_gain_predicted_total",
            "The gain that was predicted of moves, in percentage points, where what came true is known, too.",
            ("strategy",),
        )
        self._realised = catalogue.counter(
            "rescheduler_gain_realised_total",
            "The gain of these moves that came true, in percentage points.",
            ("strategy",),
        )
        self._lost = catalogue.counter(
            "rescheduler_gain_lost_total",
            "What these moves made worse, in percentage points: gains below 0.",
            ("strategy",),
        )
        for strategy in self._strategies.values:
            for counter in (self._predicted, self._realised, self._lost):
                counter.labels(strategy)
            for verdict in self._verdicts.values:
                self._assessed.labels(strategy, verdict)

    def observe(self, strategy: str, predicted: float | None, realised: float | None, verdict: str) -> None:
        """Count a move that was judged."""
        strategy = self._strategies.value(strategy)
        self._assessed.labels(strategy, self._verdicts.value(verdict)).inc()
        if predicted is None or realised is None:
            return  # only together can they be compared
        # Else it was not made for its gain, because a node was to be emptied; or one of its nodes has nothing to give.
        if 0 < predicted <= _MOST_GAIN and abs(realised) <= _MOST_GAIN:
            self._predicted.labels(strategy).inc(predicted)
            self._realised.labels(strategy).inc(max(realised, 0.0))
            self._lost.labels(strategy).inc(max(-realised, 0.0))
