"""Deployments of the embedded cluster: the steps of a rollout."""

from hypothesis import given
from hypothesis import strategies as some

from kubemini.controllers.deployment import Goal, Size, rolling_step


@given(
    replicas=some.integers(0, 12),
    surge=some.integers(0, 5),
    unavailable=some.integers(0, 5),
    olds=some.lists(some.tuples(some.integers(0, 12), some.integers(0, 12)), max_size=3),
    new=some.tuples(some.integers(0, 12), some.integers(0, 12)),
)
def test_no_step_goes_beyond_the_limit_or_gives_up_what_must_stay_available(
    replicas: int, surge: int, unavailable: int, olds: list[tuple[int, int]], new: tuple[int, int]
) -> None:
    allowed = min(unavailable, replicas) if surge else max(min(unavailable, replicas), 1)
    goal = Goal(replicas, replicas + surge, replicas - allowed)
    before = [Size(size, min(ready, size)) for size, ready in (new, *olds)]
    size, sizes = rolling_step(goal, before[0], before[1:])
    after = [size, *sizes]
    available = sum(min(size, each.available) for size, each in zip(after, before, strict=True))
    had = sum(each.available for each in before)
    assert sum(after) <= max(goal.limit, sum(each.replicas for each in before))
    assert size <= replicas
    if new[0] <= replicas:
        assert available >= min(had, goal.min_available)
