"""Samples of the spread are kept for days in a bounded number; steps of moves for as long as the moves are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from rescheduler.model.plan import ClusterLoad, LoadDistribution, Method
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.web.node_stats import NodeFlag
from rescheduler.web.state import MigrationTracker, SpreadHistory, SpreadSample, StepStart
from tests.support.pod_migrations import migration_spec, pod_migration

FLAT = LoadDistribution(0.0, 0.0, 0.0, 0.0)
KEY = ("shop", "m")


def taken(*times: float) -> list[float]:
    samples = SpreadHistory()
    for time in times:
        samples.add(SpreadSample(time, ClusterLoad(FLAT, FLAT, 0, ()), 0))
    return [each.time for each in samples.all()]


def test_twenty_minutes_are_kept_in_full() -> None:
    times = [5.0 * number for number in range(240)]
    assert taken(*times) == times


def test_a_week_is_thinned_out_and_stays_bounded() -> None:
    kept = taken(*(5.0 * number for number in range(7 * 24 * 720)))
    assert len(kept) <= 720
    assert kept == sorted(kept)
    assert kept[-1] - kept[0] > 2 * 24 * 3600
    gaps = [after - before for before, after in pairwise(kept)]
    assert gaps == sorted(gaps, reverse=True)
    assert set(gaps[-200:]) == {5.0}


@given(st.lists(st.floats(0, 1e9), max_size=2000))
def test_however_the_clock_jumps_there_are_never_more_than_720(times: list[float]) -> None:
    assert len(taken(*times)) <= 720


def moves() -> tuple[MigrationCache, MigrationTracker, list[str]]:
    migrations, touched = MigrationCache(), list[str]()
    return migrations, MigrationTracker(migrations, lambda: 100.0, touched.append), touched


def at(step: str, phase: Phase = Phase.IN_PROGRESS, version: int = 1, **more: float | str) -> PodMigration:
    progress = MigrationStatus(phase=phase, step=step, method=Method.HANDOFF, **more)  # type: ignore[arg-type] # by name
    return pod_migration("shop", "m", migration_spec("web"), progress, "uid", str(version))


def test_each_step_is_kept_once_with_when_it_began() -> None:
    migrations, seen, _ = moves()
    for version, (step, began) in enumerate([("Mark", 1.0), ("Mark", 1.0), ("CreateCopy", 2.0), ("RollBack", 3.0)]):
        migrations.put(at(step, version=version, step_time=began))
    migrations.put(at("", Phase.PENDING, version=9))
    migrations.put(at("Mark", version=10, step_time=9.0))
    assert seen.history(KEY) == (
        StepStart("Mark", 1.0), StepStart("CreateCopy", 2.0), StepStart("RollBack", 3.0), StepStart("Mark", 9.0),
    )  # fmt: skip
    migrations.drop(KEY)
    assert seen.history(KEY) == ()


def test_a_step_that_nobody_tells_the_time_of_began_when_it_was_seen() -> None:
    migrations, seen, _ = moves()
    migrations.put(at("Mark", version=1))
    migrations.put(at("Mark", version=2))
    assert seen.history(KEY) == (StepStart("Mark", 100.0),)


def test_completed_ones_stay_counted_when_they_are_cleaned_up() -> None:
    migrations, seen, _ = moves()
    migrations.put(at("", Phase.COMPLETED, version=1))
    migrations.put(at("", Phase.COMPLETED, version=2))
    migrations.drop(KEY)
    assert seen.completed == 1


def test_nodes_are_marked_for_as_long_as_a_move_is_under_way() -> None:
    migrations, seen, touched = moves()
    migrations.put(at("Mark", version=1, source="a", target="b"))
    assert seen.flags() == {"a": NodeFlag.SOURCE, "b": NodeFlag.TARGET}
    migrations.put(at("Mark", version=2, source="a", target="c"))
    assert seen.flags() == {"a": NodeFlag.SOURCE, "c": NodeFlag.TARGET}
    migrations.put(at("", Phase.FAILED, version=3, source="a", target="c"))
    assert seen.flags() == {}
    assert set(touched) == {"a", "b", "c"}
