"""The mean of samples: between the smallest and the largest, the same for whatever order they come in, bounded."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.config.schema import UsageSettings
from rescheduler.model.json import ObjectKey
from rescheduler.usage.samples import CELLS, SampleStore, UsageSample, amounts_of

NOW = 1_800_000_000.0
REACH = UsageSettings(window=300.0, max_age=180.0, interval=30.0)
WEB: ObjectKey = ("default", "web")

amounts = st.integers(0, 2**45).map(float)
ages = st.floats(0.0, 179.0)
sampled = st.lists(st.tuples(ages, amounts, amounts), min_size=1, max_size=40)


def kept(samples: Sequence[UsageSample], reach: UsageSettings = REACH) -> SampleStore:
    found = SampleStore(reach)
    found.put(samples)
    return found


def mean(samples: SampleStore, key: ObjectKey = WEB, now: float = NOW, since: float = -math.inf) -> list[float]:
    found = samples.means(np.array([samples.index(key)]), now, np.array([since]))
    return [float(value) for value in found[0]]


def sample(ago: float, cpu: float, memory: float = 0.0, key: ObjectKey = WEB) -> UsageSample:
    return UsageSample(key, NOW - ago, (cpu, memory))


@given(sampled)
def test_the_mean_lies_between_the_smallest_and_the_largest(found: list[tuple[float, float, float]]) -> None:
    for at, value in enumerate(mean(kept([sample(*each) for each in found]))):
        seen = [each[at + 1] for each in found]
        assert min(seen) <= value <= max(seen)


@given(st.lists(ages, min_size=1, max_size=40), amounts, amounts)
def test_what_never_changes_is_its_own_mean(when: list[float], cpu: float, memory: float) -> None:
    assert mean(kept([sample(ago, cpu, memory) for ago in when])) == [cpu, memory]


@given(sampled, st.randoms(use_true_random=False), st.integers(1, 7))
def test_the_order_of_arrival_does_not_matter(
    found: list[tuple[float, float, float]], chance: random.Random, parts: int
) -> None:
    samples = [sample(*each) for each in found]
    shuffled = samples.copy()
    chance.shuffle(shuffled)
    later = SampleStore(REACH)
    for first in range(0, len(shuffled), parts):
        later.put(shuffled[first : first + parts])
    assert mean(later) == mean(kept(samples))


@given(sampled)
def test_hearing_everything_twice_changes_nothing(found: list[tuple[float, float, float]]) -> None:
    samples = [sample(*each) for each in found]
    once = kept(samples)
    twice = kept(samples)
    twice.put(samples)
    assert mean(once) == mean(twice)


def test_a_sample_counts_for_the_time_since_the_one_before_it() -> None:
    # 30 s (the oldest) of 100, 90 s of 200, 30 s of 400
    found = kept([sample(120, 100), sample(30, 200), sample(0, 400)])
    assert mean(found)[0] == math.ceil((30 * 100 + 90 * 200 + 30 * 400) / 150)


def test_after_a_gap_a_sample_counts_for_no_longer_than_the_greatest_age() -> None:
    found = kept([sample(299, 100), sample(0, 400)])
    assert mean(found)[0] == math.ceil((30 * 100 + 180 * 400) / 210)


def test_what_is_older_than_the_window_does_not_count() -> None:
    assert mean(kept([sample(301, 900), sample(10, 100)]))[0] == 100


def test_where_the_newest_is_too_old_nothing_is_known() -> None:
    assert all(math.isnan(value) for value in mean(kept([sample(181, 100)])))


def test_a_window_shorter_than_the_greatest_age_still_lets_the_newest_count() -> None:
    short = UsageSettings(window=20.0, max_age=180.0, interval=10.0)
    assert mean(kept([sample(150, 900), sample(100, 100)], short))[0] == 100


def test_what_was_measured_before_a_pod_was_made_is_not_its_own() -> None:
    found = kept([sample(100, 900), sample(40, 100)])
    assert mean(found, since=NOW - 60)[0] == 100
    assert math.isnan(mean(found, since=NOW - 30)[0])


def test_a_resource_that_is_not_told_of_is_not_known() -> None:
    found = kept([UsageSample(WEB, NOW, (5.0, math.nan))])
    assert amounts_of(found.means(np.array([0]), NOW, np.array([-math.inf]))) == [(("cpu", 5),)]


def test_each_resource_has_an_age_of_its_own() -> None:
    found = kept([UsageSample(WEB, NOW - 100, (5.0, 7.0)), UsageSample(WEB, NOW, (6.0, math.nan))])
    assert not math.isnan(mean(found)[1])
    later = found.means(np.array([0]), NOW + 100, np.array([-math.inf]))[0]
    assert math.isnan(later[1])
    assert not math.isnan(later[0])


def test_a_key_that_was_never_heard_of_is_not_known() -> None:
    found = kept([sample(0, 1)])
    assert found.index(("default", "other")) == found.index(("other", "web")) == -1
    assert math.isnan(mean(found, ("default", "other"))[0])


def test_of_any_number_of_samples_no_more_are_kept_than_the_window_has_cells() -> None:
    found = SampleStore(REACH)
    for second in range(3600):
        found.put([UsageSample(WEB, NOW - 3600 + second, (float(second), 0.0))])
    held = np.count_nonzero(np.isfinite(found._times[0]))
    assert held == CELLS + 1


def test_many_keys_are_told_apart() -> None:
    keys = [(f"ns-{number % 7}", f"pod-{number}") for number in range(5000)]
    found = kept([UsageSample(key, NOW, (float(number), 1.0)) for number, key in enumerate(keys)])
    indexes = np.array([found.index(key) for key in keys])
    means = found.means(indexes, NOW, np.full(len(keys), -math.inf))
    assert means[:, 0].tolist() == list(range(5000))
    assert len(found) == 5000


def test_who_is_not_heard_of_any_more_is_forgotten() -> None:
    gone = [UsageSample(("default", f"gone-{number}"), NOW - 1000, (1.0, 1.0)) for number in range(3000)]
    here = [UsageSample(("default", f"here-{number}"), NOW, (float(number), 1.0)) for number in range(100)]
    found = kept(gone + here)
    found.forget_before(NOW - 300)
    assert len(found) == 100
    assert found.index(("default", "gone-7")) == -1
    assert mean(found, ("default", "here-42"))[0] == 42
    found.put([sample(0, 5)])
    assert mean(found)[0] == 5


def test_a_few_who_are_gone_are_kept_for_a_while() -> None:
    found = kept(
        [UsageSample(("default", "gone"), NOW - 1000, (1.0, 1.0)), *(sample(0, 1, 1, ("n", str(i))) for i in range(50))]
    )
    found.forget_before(NOW - 300)
    assert len(found) == 51
