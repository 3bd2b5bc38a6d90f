"""What became of moves is counted once, timed by what was stored, and under labels that nobody can make many of."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.migration import commands
from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.migration.observation import FailedCommand
from rescheduler.model.migration import MigrationStatus, OutcomeVerdict, Phase, PodMigration
from rescheduler.model.plan import Method
from rescheduler.recovery.decision import RecoveryOutcome
from rescheduler.strategies import discover
from rescheduler.web.metrics import Metrics
from tests.support.examples import examples
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.unit.web.scraped import scraped, total, value, values

NOW = 1_800_000_000.0
POD = {"kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": {}}
LANDED, FAILED, RETRIED = (f"rescheduler_moves_{what}_total" for what in ("landed", "failed", "retried"))
PROCESS = ("cpu_seconds_total", "virtual_memory_bytes", "resident_memory_bytes", "open_fds")
WHOLE = "rescheduler_migration_duration_seconds"
OF_THE_PROCESS = {(f"process_{what}", frozenset[tuple[str, str]]()) for what in PROCESS}
STEP = "rescheduler_migration_step_duration_seconds"


def migration(strategy: str = "LoadBalancing", **progress: Any) -> PodMigration:
    return pod_migration(
        "shop", "m", migration_spec("web", strategy=strategy), MigrationStatus(**progress), created=NOW
    )


def begun(strategy: str = "LoadBalancing", **more: Any) -> PodMigration:
    known = {"phase": Phase.IN_PROGRESS, "method": Method.EVICT, "attempts": 1, "start_time": NOW + 5, **more}
    return migration(strategy, **known)


def lived(metrics: Metrics, *states: PodMigration) -> None:
    """Tell of a migration that went from each state to the next."""
    for before, after in pairwise(states):
        metrics.moves.observe(before, after)


def test_a_move_that_lands_counts_by_strategy_and_method_with_its_times() -> None:
    metrics = Metrics()
    first = begun(step="")
    evicting = begun(step="Evict", step_time=NOW + 6)
    waiting = begun(step="AwaitRebuilt", step_time=NOW + 8)
    landed = begun(phase=Phase.COMPLETED, step="", step_time=NOW + 8, completion_time=NOW + 25)
    lived(metrics, migration(), first, evicting, waiting, landed)
    assert value(metrics, LANDED, strategy="LoadBalancing", method="evict") == 1
    assert total(metrics, FAILED) == 0
    assert value(metrics, "rescheduler_migration_wait_duration_seconds_sum") == 5
    assert value(metrics, f"{STEP}_sum", step="Evict", method="evict") == 2
    assert value(metrics, f"{STEP}_sum", step="AwaitRebuilt", method="evict") == 17
    assert value(metrics, f"{WHOLE}_sum", method="evict", outcome="landed") == 20


def test_a_move_that_is_rolled_back_and_tried_again_fails_only_once() -> None:
    metrics = Metrics()
    again = migration(method=Method.EVICT, attempts=1, retry_time=NOW + 60)
    rolling = begun(step="RollBack", step_time=NOW + 9)
    second = begun(attempts=2, start_time=NOW + 60)
    failed = begun(phase=Phase.FAILED, step="", attempts=2, start_time=NOW + 60, completion_time=NOW + 70)
    last = replace(second, status=replace(second.status, step="RollBack", step_time=NOW + 65))
    lived(metrics, migration(), begun(), rolling, again, second, last, failed)
    assert value(metrics, RETRIED, strategy="LoadBalancing", method="evict") == 1
    assert value(metrics, FAILED, strategy="LoadBalancing", method="evict") == 1
    assert total(metrics, LANDED) == 0
    assert value(metrics, "rescheduler_migration_wait_duration_seconds_count") == 1  # the second wait is a pause
    assert value(metrics, f"{WHOLE}_sum", method="evict", outcome="failed") == 10
    assert value(metrics, f"{STEP}_count", step="RollBack", method="evict") == 1  # the first's end is not stored


def test_an_order_that_never_began_fails_without_a_method_and_without_a_duration() -> None:
    metrics = Metrics()
    lived(metrics, migration("Manual"), migration("Manual", phase=Phase.FAILED, completion_time=NOW + 3))
    assert value(metrics, FAILED, strategy="Manual", method="none") == 1
    assert total(metrics, f"{WHOLE}_count") == 0


def test_a_new_message_or_an_outcome_counts_as_nothing() -> None:
    metrics = Metrics()
    shown = scraped(metrics)
    lived(metrics, begun(step="Evict", message="one"), begun(step="Evict", message="two"))
    done = migration(phase=Phase.COMPLETED)
    lived(metrics, done, replace(done, version="2"))
    assert {key for key, found in scraped(metrics).items() if found != shown.get(key)} <= OF_THE_PROCESS


def test_times_that_make_no_sense_are_left_out() -> None:
    metrics = Metrics()
    for started, finished in ((NOW, NOW - 1), (float("-inf"), NOW), (NOW, float("nan")), (None, NOW)):
        lived(
            metrics,
            begun(start_time=started),
            begun(phase=Phase.COMPLETED, start_time=started, completion_time=finished),
        )
    assert total(metrics, LANDED) == 4
    assert total(metrics, f"{WHOLE}_count") == 0


def test_every_step_of_every_method_has_its_name() -> None:
    metrics = Metrics()
    known = {(method.value, step) for method in Method for step in Lifecycle().steps(method)}
    for method, step in known:
        before = begun(method=Method(method), step=step, step_time=NOW)
        metrics.moves.observe(before, begun(method=Method(method), step="RollBack", step_time=NOW + 1))
    counted = [dict(labels) for name, labels in scraped(metrics) if name == f"{STEP}_count"]
    assert {(labels["method"], labels["step"]) for labels in counted} == known


words = st.text(min_size=1, max_size=60)


@settings(max_examples=examples(few=10, many=25))
@given(st.lists(st.tuples(words, words, words), min_size=1, max_size=40))
def test_whatever_people_write_into_objects_the_series_stay_few(texts: list[tuple[str, str, str]]) -> None:
    metrics = Metrics()
    for strategy, step, verdict in texts:
        before = begun(strategy, step=step, step_time=NOW)
        lived(metrics, before, begun(strategy, phase=Phase.COMPLETED, completion_time=NOW))
        metrics.outcomes.observe(strategy, 1.0, 1.0, verdict)
        metrics.count_recovery(verdict)
    said, steps = values(metrics), {step for method in Method for step in Lifecycle().steps(method)}
    assert said["step"] <= {"Other", "RollBack", *steps}
    assert said["strategy"] == {*discover(), "Manual", "Other"}
    assert said["verdict"] == {*OutcomeVerdict, "Other"}
    assert said["outcome"] <= {*RecoveryOutcome, "Other", "landed", "failed"}


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (429, "Cannot evict pod as it would violate the pod's disruption budget.", "DisruptionBudget"),
        (429, "The disruption budget web is still being processed by the server.", "DisruptionBudget"),
        (500, "This pod has more than one PodDisruptionBudget, which …", "TwoDisruptionBudgets"),
        (429, "too many requests, please try again later", "Busy"),
        (403, 'pods "web" is forbidden', "Other"),
    ],
)
def test_a_refused_eviction_counts_by_why(code: int, message: str, reason: str) -> None:
    metrics = Metrics()
    metrics.moves.count_refusal(commands.evict(POD, 30, "it shall go"), FailedCommand(code, "", message))
    metrics.moves.count_refusal(commands.delete(POD, "not an eviction"), FailedCommand(code, "", message))
    assert value(metrics, "rescheduler_evictions_refused_total", reason=reason) == 1
    assert total(metrics, "rescheduler_evictions_refused_total") == 1


class TestOutcomes:
    def test_gains_are_compared_where_both_are_known(self) -> None:
        metrics = Metrics()
        metrics.outcomes.observe("LoadBalancing", 10.0, 8.0, "Paid")
        metrics.outcomes.observe("LoadBalancing", 6.0, -2.0, "NotPaid")
        metrics.outcomes.observe("LoadBalancing", 5.0, None, "Unknown")
        metrics.outcomes.observe("LoadBalancing", None, None, "CameBack")
        gains = {what: value(metrics, f"rescheduler_gain_{what}_total", strategy="LoadBalancing") for what in GAINS}
        assert gains == {"predicted": 16.0, "realised": 8.0, "lost": 2.0}
        counted = {
            verdict: value(metrics, "rescheduler_moves_assessed_total", strategy="LoadBalancing", verdict=verdict)
            for verdict in ("Paid", "NotPaid", "CameBack", "Unknown", "Other")
        }
        assert counted == {"Paid": 1, "NotPaid": 1, "CameBack": 1, "Unknown": 1, "Other": 0}

    @pytest.mark.parametrize("predicted", [0.0, -3.0, 1e300, float("inf"), float("nan")])
    def test_a_prediction_that_is_none_or_absurd_is_not_compared(self, predicted: float) -> None:
        metrics = Metrics()
        metrics.outcomes.observe("NodeMaintenance", predicted, -5.0, "Unknown")
        assert [total(metrics, f"rescheduler_gain_{what}_total") for what in GAINS] == [0, 0, 0]

    @pytest.mark.parametrize("realised", [1e13, -1e13])
    def test_a_gain_on_a_node_that_had_nothing_to_give_is_not_compared(self, realised: float) -> None:
        metrics = Metrics()
        metrics.outcomes.observe("LoadBalancing", 10.0, realised, "NotPaid")
        assert [total(metrics, f"rescheduler_gain_{what}_total") for what in GAINS] == [0, 0, 0]


GAINS = ("predicted", "realised", "lost")
